"""The texts of data types: SQL text, and the JSON of schema files.

One parser reads both spellings and everything that Java's reads; only the canonical text is written.
Source: docs/format/schema.md#types.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, near_names, shown
from lakehouse_core.format.data_types.types import (
    MAX_DECIMAL_PRECISION,
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
    type_to_sql,
    with_nullable,
    word_of,
)

# Types of newer Paimon versions, for which nothing here has an encoding.
_FOREIGN_ROOTS: Final = frozenset({"VECTOR", "GEOMETRY", "GEOGRAPHY"})
# What other systems call a type, for advice.
_OTHER_NAMES: Final = {
    "TEXT": "STRING",
    "OBJECT": "STRING",
    "DATETIME": "TIMESTAMP",
    "LONG": "BIGINT",
    "INT64": "BIGINT",
    "INT32": "INT",
    "NUMBER": "DECIMAL",
    "REAL": "FLOAT",
    "FLOAT64": "DOUBLE",
}
_SYNONYMS: Final = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}
# The limit of nesting, so that hostile input cannot reach Python's recursion limit.
# 20 levels are 63 of JSON in a schema file, one below what `strict_json` takes.
_MAX_DEPTH: Final = 20

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<word>[^\W\d]\w*) | `(?P<quoted>(?:[^`]|``)*)` | (?P<number>\d+) | '(?P<text>(?:[^']|'')*)'
        | (?P<mark>[<>(),:]) )""",
    re.VERBOSE,
)


def parse_type(source: str | Mapping[str, Any]) -> DataType:
    """Return the type that SQL text or the JSON of a schema file names.

    ROW fields of SQL text (`ROW<a INT, b STRING 'comment'>`) are UNASSIGNED. Raises InvalidRequest for text that is not
    a type, UnsupportedFeature for types of newer versions.
    """
    return _from_json(source, 0)


def field_from_json(source: Mapping[str, Any]) -> DataField:
    """Return the field of a schema file. Raises as `parse_type` does."""
    return _field(source, 0)


def type_to_json(data_type: DataType) -> str | dict[str, Any]:
    """Return what a schema file holds for the type: text when it is atomic, else an object."""
    match data_type:
        case AtomicType():
            return type_to_sql(data_type)
        case ArrayType(element):
            return {"type": word_of("ARRAY", data_type), "element": type_to_json(element)}
        case MultisetType(element):
            return {"type": word_of("MULTISET", data_type), "element": type_to_json(element)}
        case MapType(key, value):
            return {"type": word_of("MAP", data_type), "key": type_to_json(key), "value": type_to_json(value)}
        case RowType(fields):
            return {"type": word_of("ROW", data_type), "fields": [field_to_json(field) for field in fields]}


def field_to_json(field: DataField) -> dict[str, Any]:
    """Return the object of a schema file for the field, keys in Java's order, absent parts left out."""
    result: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        result["description"] = field.description
    if field.default_value is not None:
        result["defaultValue"] = field.default_value
    return result


def _from_json(source: str | Mapping[str, Any], depth: int) -> DataType:
    if depth > _MAX_DEPTH:
        raise UnsupportedFeature(f"A type is nested deeper than {_MAX_DEPTH} levels: flatten it.")
    if isinstance(source, str):
        return _SqlText(source).whole_type(depth)
    if not isinstance(source, Mapping):
        raise InvalidRequest(f"{shown(source)} is not a data type: expected SQL text such as INT NOT NULL.")
    word = source.get("type")
    if not isinstance(word, str):
        raise InvalidRequest(
            f"{shown(dict(source))} is not a data type: its 'type' must be ARRAY, MULTISET, MAP or ROW."
        )
    nullable = "NOT NULL" not in word
    if word.startswith("ARRAY"):
        return ArrayType(_from_json(_part(source, "element"), depth + 1), nullable)
    if word.startswith("MULTISET"):
        return MultisetType(_from_json(_part(source, "element"), depth + 1), nullable)
    if word.startswith("MAP"):
        key = _from_json(_part(source, "key"), depth + 1)
        return MapType(key, _from_json(_part(source, "value"), depth + 1), nullable)
    if word.startswith("ROW"):
        fields = _part(source, "fields")
        if not isinstance(fields, list):
            raise InvalidRequest(f"The fields of a ROW are {shown(fields)}: expected a list of fields.")
        return RowType(tuple(_field(field, depth + 1) for field in fields), nullable)
    _refuse_foreign(word.split(maxsplit=1)[0] if word.split() else word)
    raise InvalidRequest(f"{shown(word)} is not a constructed type: expected ARRAY, MULTISET, MAP or ROW.")


def _part(source: Mapping[str, Any], name: str) -> Any:
    if name not in source:
        raise InvalidRequest(f"The type {source.get('type')} has no {shown(name)}: it needs one.")
    return source[name]


def _field(source: Any, depth: int) -> DataField:
    if not isinstance(source, Mapping):
        raise InvalidRequest(f"{shown(source)} is not a field: expected an object with id, name and type.")
    field_id, name = source.get("id"), source.get("name")
    if not isinstance(field_id, int) or isinstance(field_id, bool) or not isinstance(name, str) or "type" not in source:
        raise InvalidRequest(f"The field {shown(dict(source))} needs an integer id, a name and a type.")
    description, default_value = source.get("description"), source.get("defaultValue")
    for label, text in (("description", description), ("defaultValue", default_value)):
        if text is not None and not isinstance(text, str):
            raise InvalidRequest(f"The {label} of field {name} is {shown(text)}: expected text.")
    return DataField(field_id, name, _from_json(source["type"], depth), description, default_value)


def _refuse_foreign(word: str) -> None:
    if word in _FOREIGN_ROOTS:
        raise UnsupportedFeature(f"The type {word} is not supported: use an engine of its Paimon version.")


class _SqlText:
    """A cursor over the tokens of one type's SQL text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise self._error(f"unexpected {shown(text[position:].strip()[:10])}")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def whole_type(self, depth: int) -> DataType:
        result = self._type(depth)
        if self._next < len(self._tokens):
            raise self._error(f"unexpected {shown(self._tokens[self._next][1])} after the type")
        return result

    def _type(self, depth: int) -> DataType:
        if depth > _MAX_DEPTH:
            raise UnsupportedFeature(f"A type is nested deeper than {_MAX_DEPTH} levels: flatten it.")
        kind, word = self._take()
        if kind != "word":
            raise self._error("expected the name of a type")
        root = _SYNONYMS.get(word.upper(), word.upper())
        _refuse_foreign(root)
        result: DataType
        match root:
            case "ARRAY" | "MULTISET":
                self._expect("<")
                element = self._type(depth + 1)
                self._expect(">")
                result = ArrayType(element) if root == "ARRAY" else MultisetType(element)
            case "MAP":
                self._expect("<")
                key = self._type(depth + 1)
                self._expect(",")
                result = MapType(key, self._type(depth + 1))
                self._expect(">")
            case "ROW" | "STRUCT":
                result = self._row(depth)
            case _:
                result = self._atomic(root)
        return with_nullable(result, self._nullable())

    def _row(self, depth: int) -> RowType:
        self._expect("<")
        fields: list[DataField] = []
        while not self._accept(">"):
            if fields:
                self._expect(",")
            kind, name = self._take()
            if kind not in ("word", "quoted"):
                raise self._error("expected the name of a field")
            self._accept(":")
            field = DataField(UNASSIGNED, name.replace("``", "`") if kind == "quoted" else name, self._type(depth + 1))
            self._accept_word("COMMENT")
            if self._peek()[0] == "text":
                field = replace(field, description=self._take()[1].replace("''", "'"))
            fields.append(field)
        return RowType(tuple(fields))

    def _atomic(self, root: str) -> AtomicType:
        match root:
            case "STRING":
                return AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
            case "BYTES":
                return AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)
            case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
                length = self._parameters(1, (1,), root)[0]
                return AtomicType(TypeRoot(root), length=self._bounded(root, "length", length, 1, MAX_LENGTH))
            case "DECIMAL":
                precision, scale = self._parameters(2, (10, 0), root)
                self._bounded(root, "precision", precision, 1, MAX_DECIMAL_PRECISION)
                self._bounded(root, "scale", scale, 0, precision)
                return AtomicType(TypeRoot.DECIMAL, precision=precision, scale=scale)
            case "TIME":
                precision = self._bounded(root, "precision", self._parameters(1, (0,), root)[0], 0, 9)
                self._time_zone()
                return AtomicType(TypeRoot.TIME, precision=precision)
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                precision = self._bounded(root, "precision", self._parameters(1, (6,), root)[0], 0, 9)
                local = root == "TIMESTAMP_LTZ" or self._time_zone()
                return AtomicType(TypeRoot.TIMESTAMP_LTZ if local else TypeRoot.TIMESTAMP, precision=precision)
            case "DOUBLE":
                self._accept_word("PRECISION")
                return AtomicType(TypeRoot.DOUBLE)
        if root not in TypeRoot.__members__:
            near = _OTHER_NAMES.get(root) or near_names(root, (*TypeRoot.__members__, "STRING", "BYTES", "INTEGER"))
            raise self._error(f"unknown type {root}{near and f' (did you mean {near}?)'}")
        return AtomicType(TypeRoot(root))

    def _parameters(self, count: int, defaults: tuple[int, ...], root: str) -> list[int]:
        if not self._accept("("):
            return list(defaults)
        values: list[int] = []
        while len(values) < count:
            if values and not self._accept(","):
                break
            kind, text = self._take()
            if kind != "number" or len(text) > 10:
                raise self._error(f"the parameters of {root} must be numbers up to {MAX_LENGTH}")
            values.append(int(text))
        self._expect(")")
        return values + list(defaults[len(values) :])

    def _bounded(self, root: str, what: str, value: int, low: int, high: int) -> int:
        if not low <= value <= high:
            raise self._error(f"the {what} of {root} is {value}, expected {low} to {high}")
        return value

    def _time_zone(self) -> bool:
        """Consume the phrase about the time zone; whether it says local."""
        if self._accept_word("WITHOUT"):
            self._expect_words("TIME", "ZONE")
        elif self._accept_word("WITH"):
            self._expect_words("LOCAL", "TIME", "ZONE")
            return True
        return False

    def _nullable(self) -> bool:
        if self._accept_word("NOT"):
            self._expect_words("NULL")
            return False
        self._accept_word("NULL")
        return True

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._next += 1
        return token

    def _accept(self, mark: str) -> bool:
        found = self._peek() == ("mark", mark)
        self._next += found
        return found

    def _accept_word(self, word: str) -> bool:
        kind, text = self._peek()
        found = kind == "word" and text.upper() == word
        self._next += found
        return found

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._error(f"expected {shown(mark)}, found {shown(self._peek()[1] or 'the end')}")

    def _expect_words(self, *words: str) -> None:
        for word in words:
            if not self._accept_word(word):
                raise self._error(f"expected {word}, found {shown(self._peek()[1] or 'the end')}")

    def _error(self, problem: str) -> InvalidRequest:
        return InvalidRequest(
            f"{shown(self._text[:200])} is not a data type: {problem}. Write for example DECIMAL(12, 2) NOT NULL."
        )
