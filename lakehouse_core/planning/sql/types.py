"""Column types as Spark writes them: `BIGINT`, `TIMESTAMP_NTZ`, `ARRAY<STRUCT<a: INT>>`.

Rule: TIMESTAMP is Spark's, an instant; a time without a zone is TIMESTAMP_NTZ. Source: docs/sql.md#queries.
"""

from typing import Final

from lakehouse_core.errors import InvalidRequest, near_hint
from lakehouse_core.format.data_types import (
    MAX_LENGTH,
    UNASSIGNED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    in_backquotes,
    parse_type,
    with_nullable,
)
from lakehouse_core.planning.sql.literals import read_literal, read_text
from lakehouse_core.planning.sql.tokens import TokenCursor

_MICROSECONDS: Final = 6
_PLAIN: Final = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "BYTE": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "SHORT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "LONG": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "REAL": TypeRoot.FLOAT,
    "DOUBLE": TypeRoot.DOUBLE,
    "DATE": TypeRoot.DATE,
}
_OTHERS: Final = {
    "STRING": AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH),
    "BINARY": AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH),
    "TIMESTAMP": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=_MICROSECONDS),
    "TIMESTAMP_LTZ": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=_MICROSECONDS),
    "TIMESTAMP_NTZ": AtomicType(TypeRoot.TIMESTAMP, precision=_MICROSECONDS),
}
_SIZED: Final = ("DECIMAL", "DEC", "NUMERIC", "CHAR", "CHARACTER", "VARCHAR")
_MAX_DEPTH: Final = 20


def read_type(cursor: TokenCursor, depth: int = 0) -> DataType:
    """Read a type. Raises InvalidRequest, with the place of what is not a type."""
    if depth > _MAX_DEPTH:
        raise cursor.sql.invalid(cursor.start, f"a type is nested deeper than {_MAX_DEPTH} levels. Flatten it")
    start, word = cursor.start, cursor.part("a type").upper()
    if word in _PLAIN:
        return AtomicType(_PLAIN[word])
    if word in _OTHERS:
        if cursor.is_at("("):
            raise cursor.sql.invalid(cursor.start, f"{word} takes no length here. Leave it out")
        return _OTHERS[word]
    if word in _SIZED:
        return _sized(cursor, word, start)
    match word:
        case "ARRAY":
            cursor.expect("<")
            element = read_type(cursor, depth + 1)
            cursor.expect(">")
            return ArrayType(element)
        case "MAP":
            cursor.expect("<")
            key = read_type(cursor, depth + 1)
            cursor.expect(",")
            value = read_type(cursor, depth + 1)
            cursor.expect(">")
            return MapType(with_nullable(key, False), value)
        case "STRUCT":
            return _struct(cursor, depth)
    types = f"Types: {', '.join([*_PLAIN, *_OTHERS, *_SIZED[:1]])}, …"
    hint = near_hint(word, (*_PLAIN, *_OTHERS, *_SIZED), types, most=1, cutoff=0.75)
    raise cursor.sql.invalid(start, f"{word} is not a type of Spark's SQL. {hint}")


def _sized(cursor: TokenCursor, word: str, start: int) -> DataType:
    numbers = []
    if cursor.takes("("):
        numbers = [read_literal(cursor, what="a number")]
        while cursor.takes(","):
            numbers.append(read_literal(cursor, what="a number"))
        cursor.expect(")")
    name = {"DEC": "DECIMAL", "NUMERIC": "DECIMAL", "CHARACTER": "CHAR"}.get(word, word)
    if not numbers and name != "DECIMAL":
        raise cursor.sql.invalid(start, f"{word} needs a length, as in {word}(10)")
    try:
        return parse_type(f"{name}({', '.join(map(str, numbers or (10, 0)))})")
    except InvalidRequest as error:
        raise cursor.sql.invalid(start, str(error).rstrip(".")) from error


def _struct(cursor: TokenCursor, depth: int) -> DataType:
    cursor.expect("<")
    fields = []
    while True:
        name = cursor.part("the name of a field")
        cursor.takes(":")
        kind = read_type(cursor, depth + 1)
        if cursor.takes("NOT", "NULL"):
            kind = with_nullable(kind, False)
        comment = read_text(cursor) if cursor.takes("COMMENT") else None
        fields.append(DataField(UNASSIGNED, name, kind, comment))
        if not cursor.takes(","):
            break
    cursor.expect(">")
    return RowType(tuple(fields))


def spark_text(data_type: DataType) -> str:
    """Return the type as Spark's SQL, as `read_type` reads it; other types as the text of a schema."""
    match data_type:
        case AtomicType(TypeRoot.VARCHAR, length=length) if length == MAX_LENGTH:
            return "STRING"
        case AtomicType(TypeRoot.VARBINARY | TypeRoot.BINARY):
            return "BINARY"
        case AtomicType(TypeRoot.CHAR | TypeRoot.VARCHAR as root, length=length):
            return f"{root}({length})"
        case AtomicType(TypeRoot.DECIMAL, precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case AtomicType(TypeRoot.TIMESTAMP):
            return "TIMESTAMP_NTZ"
        case AtomicType(TypeRoot.TIMESTAMP_LTZ):
            return "TIMESTAMP"
        case AtomicType(root):
            return str(root.value)
        case ArrayType(element):
            return f"ARRAY<{spark_text(element)}>"
        case MultisetType(element):
            return f"MAP<{spark_text(element)}, INT>"
        case MapType(key, value):
            return f"MAP<{spark_text(key)}, {spark_text(value)}>"
        case RowType(fields):
            return f"STRUCT<{', '.join(f'{quoted(each.name)}: {spark_text(each.type)}' for each in fields)}>"


def quoted(name: str) -> str:
    """Return a name in backquotes where SQL needs them."""
    if name.isascii() and name.isidentifier():
        return name
    return in_backquotes(name)
