"""Casts that DuckDB would carry out in another way than Spark.

Rule: a text that Spark does not read as the type is an error, with TRY_CAST it is NULL. It is never another value.
Source: docs/sql.md#without-spark.
"""

import re
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import cast_to, fragment, is_null, needs_spark, text_of
from lakehouse_core.planning.sql.duckdb.spark_functions import NOT_READ
from lakehouse_core.planning.sql.tokens import DIALECT

INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
TEXTS: Final = frozenset({"TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR"})
BYTES: Final = frozenset({"BINARY", "VARBINARY"})
FLOATS: Final = frozenset({"DOUBLE", "FLOAT"})
_FRACTIONS: Final = FLOATS | {"DECIMAL"}
NUMBERS: Final = INTEGERS | _FRACTIONS
# Of two numbers beside each other the type that stands later holds both.
WIDTHS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")
INSTANTS: Final = frozenset({"TIMESTAMPTZ", "TIMESTAMPLTZ"})
LOCAL_TIMES: Final = frozenset({"TIMESTAMP", "TIMESTAMPNTZ"})
UNKNOWN: Final = frozenset({"", "UNKNOWN", "NULL"})

# What Spark cuts off around a text before it reads it.
_BLANKS: Final = r"[\x00-\x20\x7F]*"
_INTEGER: Final = rf"(?s)^{_BLANKS}([+-]?[0-9]+){_BLANKS}$"
_PLAIN_NUMBER: Final = "[+-]?[0-9]+(?:[.][0-9]+)?"
_DECIMAL: Final = rf"(?s)^{_BLANKS}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?){_BLANKS}$"
_FLOAT: Final = (
    rf"(?s)^{_BLANKS}([+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))|(?i:nan))"
    rf"[fFdD]?{_BLANKS}$"
)
_DAY: Final = r"\+?([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_DATE: Final = rf"(?s)^{_BLANKS}{_DAY}(?:[ T].*)?)?)?{_BLANKS}$"
_PLAIN_DATE: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK: Final = r"[ T]([01]?[0-9]|2[0-3])(?::([0-5]?[0-9])(?::([0-5]?[0-9])(?:\.([0-9]{0,6})[0-9]*)?"
_ZONE: Final = r" ?(?:(Z|[A-Z][A-Za-z_/]+)|(?:UTC|GMT|UT)?([+-](?:0?[0-9]|1[0-8])(?::?[0-5][0-9])?))"
_TIME: Final = rf"(?s)^{_BLANKS}{_DAY}(?:{_CLOCK}(?:{_ZONE})?)?)?)?)?)?{_BLANKS}$"
_PLAIN_TIME: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,6})?$"
# Up to so many digits behind the point a DOUBLE below a million has no other ones than its text.
_SAFE_SCALE: Final = 6
# Words for times that Spark knows where they are written in a query.
_TIME_WORDS: Final = frozenset({"epoch", "now", "today", "tomorrow", "yesterday"})

# Of a DOUBLE or FLOAT. Spark writes seven digits before the point and two zeros behind it at most, else an exponent.
_FLOAT_TEXT: Final = """
CASE WHEN (abs(:x) >= 0.001 AND abs(:x) < 10000000) OR :x = 0 THEN CAST(:x AS VARCHAR)
WHEN isnan(:x) THEN 'NaN' WHEN isinf(:x) THEN CASE WHEN :x > 0 THEN 'Infinity' ELSE '-Infinity' END
WHEN contains(CAST(:x AS VARCHAR), 'e') THEN
    split_part(CAST(:x AS VARCHAR), 'e', 1)
    || CASE WHEN contains(CAST(:x AS VARCHAR), '.') THEN 'E' ELSE '.0E' END
    || CAST(CAST(split_part(CAST(:x AS VARCHAR), 'e', 2) AS INTEGER) AS VARCHAR)
ELSE regexp_replace(
        trim(replace(CAST(abs(:x) AS VARCHAR), '.', ''), '0') || '0',
        '^(.)(.+?)0?$', CASE WHEN :x < 0 THEN '-' ELSE '' END || '\\1.\\2E')
    || CAST(CASE WHEN abs(:x) >= 1 THEN strpos(CAST(abs(:x) AS VARCHAR), '.') - 2
        ELSE strlen(ltrim(replace(CAST(abs(:x) AS VARCHAR), '.', ''), '0')) + 1
            - strlen(CAST(abs(:x) AS VARCHAR)) END AS VARCHAR)
END
"""


def rewritten_cast(node: Any) -> Any:
    """Return what DuckDB computes instead of a cast; other nodes as they are.

    The parts of the node are rewritten, and types are known. Raises InvalidRequest, UnsupportedFeature.
    """
    return _written(node) if isinstance(node, exp.Cast) else node


def as_text(node: Any) -> Any:
    """Return a value of any type as Spark's text of it. Raises UnsupportedFeature for a map or a structure."""
    kind = kind_of(node)
    made = node
    if kind in TEXTS or is_null(node):
        return node
    if kind == "FLOAT":
        made = _text_of_float(node)
    elif kind in FLOATS:
        made = fragment(_FLOAT_TEXT, x=node)
    elif kind in INTEGERS and not isinstance(node, exp.Column | exp.Literal | exp.Cast):
        # The type is Spark's. DuckDB may have a number with a fraction there.
        made = cast_to(cast_to(node, "BIGINT"), "STRING")
    elif kind in INSTANTS:
        made = cast_to(cast_to(node, "TIMESTAMP_NTZ"), "STRING")
    elif kind in BYTES:
        made = fragment("decode(:x)", x=node)
    elif kind == "ARRAY":
        made = _array_text(node)
    elif kind in ("MAP", "STRUCT", "INTERVAL"):
        raise needs_spark(f"the text of a value of type {kind}", "Take its parts")
    elif kind in UNKNOWN:
        made = _text_of_unknown(node)
    else:
        made = cast_to(node, "STRING")
    made.type = exp.DataType.build("STRING", dialect=DIALECT)
    return made


def texts_of(array: Any) -> Any:
    """Return an array whose elements are Spark's texts of them. Raises InvalidRequest, UnsupportedFeature."""
    element = _element(array)
    if kind_of(element) in TEXTS or kind_of(element) in UNKNOWN:
        return array
    if kind_of(element) in ("ARRAY", "MAP", "STRUCT"):
        raise InvalidRequest(f"SQL: values of type {kind_of(element)} in an array are not joined. Flatten it.")
    made = fragment("list_transform(:x, lambda element: :text)", x=array, text=as_text(element))
    made.type = exp.DataType.build("ARRAY<STRING>", dialect=DIALECT)
    return made


def _written(node: Any) -> Any:
    """Return a cast that the query writes, in DuckDB's form."""
    target, source = node.to.this.name, kind_of(node.this)
    if is_null(node.this):
        return node
    if target in TEXTS:
        return as_text(node.this)
    if target == source == "ARRAY":
        return _array(node)
    if target in ("MAP", "STRUCT"):
        if node.to == node.this.type:
            return node
        raise needs_spark(f"a cast to {node.to.sql(dialect=DIALECT)}", "Cast its parts")
    if source in UNKNOWN:
        raise needs_spark(
            f"a cast to {target} of {node.this.sql(dialect=DIALECT)}, whose type is not known,", "Name its type"
        )
    if not _is_known(source, target):
        raise InvalidRequest(
            f"SQL: Spark does not cast a value of type {source} to {target}. Cast it to a text between."
        )
    if target == "DECIMAL" and source in FLOATS:
        return _to_decimal(node)
    prepared = _prepared(node.this, source, target)
    if prepared is not node.this:
        node.set("this", prepared)
    return node


def _prepared(value: Any, source: str, target: str) -> Any:
    """Return what DuckDB casts to the value that Spark's cast has."""
    if source in TEXTS:
        return _readable(value, target)
    if target in INTEGERS:
        if source in _FRACTIONS:
            # Spark cuts the digits behind the point, DuckDB rounds.
            return fragment("trunc(:x)", x=value)
        if source in INSTANTS:
            return fragment("floor(epoch_us(:x) / 1000000.0)", x=value)
    if target == "FLOAT" and source == "DOUBLE":
        return fragment(
            "CASE WHEN isnan(:x) OR abs(:x) < 3.4028235677973364e38 THEN :x "
            "WHEN :x > 0 THEN CAST('inf' AS DOUBLE) WHEN :x < 0 THEN CAST('-inf' AS DOUBLE) END",
            x=value,
        )
    if source in INSTANTS and target in _FRACTIONS:
        seconds = (
            "CAST(epoch_us(:x) AS DECIMAL(24, 0)) * 0.000001" if target == "DECIMAL" else "epoch_us(:x) / 1000000.0"
        )
        return fragment(f"({seconds})", x=value)
    if target in INSTANTS and source in FLOATS:
        raise needs_spark("a cast of a DOUBLE to TIMESTAMP", "Cast it to DECIMAL(20, 6) before")
    if target in INSTANTS and source in NUMBERS:
        return fragment("to_timestamp(:x)", x=value)
    return value


def _to_decimal(node: Any) -> Any:
    """Return a cast of a DOUBLE or FLOAT. Spark rounds the digits that the text of the number has, which is another
    value near the middle of two decimals alone. What is not a number has no decimal.
    """
    scale = int(str(node.to.expressions[1].this)) if len(node.to.expressions) > 1 else 0
    value = cast_to(node.this, "DOUBLE")
    direct, of_text = (type(node)(this=each, to=node.to.copy()) for each in (value, cast_to(value, "STRING")))
    if scale > _SAFE_SCALE:
        return fragment("CASE WHEN isfinite(:x) THEN :text END", x=value, text=of_text)
    return fragment(
        "CASE WHEN NOT isfinite(:x) THEN NULL WHEN abs(:x) < 1e6 AND "
        f"abs(abs(:x * 1e{scale} - trunc(:x * 1e{scale})) - 0.5) > 0.001 THEN :direct ELSE :text END",
        x=value,
        direct=direct,
        text=of_text,
    )


def _is_known(source: str, target: str) -> bool:
    """Return whether Spark casts values of a type to another one."""
    if source in TEXTS:
        return True
    if target in BYTES:
        return source in BYTES
    if target == "DATE" or target in LOCAL_TIMES:
        return source == "DATE" or source in LOCAL_TIMES | INSTANTS
    if target in INSTANTS:
        return source in {"DATE"} | LOCAL_TIMES | INSTANTS | NUMBERS
    if target == "BOOLEAN":
        return source in {"BOOLEAN"} | NUMBERS
    return target not in NUMBERS or source in {"BOOLEAN"} | NUMBERS | INSTANTS


def _readable(value: Any, target: str) -> Any:
    """Return a text in the form that DuckDB reads as the type, or one that it cannot read where Spark cannot."""
    match target:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return _extracted(value, "[+-]?[0-9]+", _INTEGER)
        case "DOUBLE" | "FLOAT":
            return _extracted(value, _PLAIN_NUMBER, _FLOAT)
        case "DECIMAL":
            return _extracted(value, _PLAIN_NUMBER, _DECIMAL)
        case "BOOLEAN":
            return fragment(
                "CASE WHEN lower(trim(:x, ' ' || chr(9) || chr(10) || chr(13))) IN ('t', 'true', 'y', 'yes', '1') "
                "THEN 'true' WHEN lower(trim(:x, ' ' || chr(9) || chr(10) || chr(13))) IN ('f', 'false', 'n', 'no', "
                f"'0') THEN 'false' ELSE :x || '{NOT_READ}' END",
                x=value,
            )
        case "BINARY" | "VARBINARY":
            return fragment("encode(:x)", x=value)
        case "DATE":
            return _readable_time(value, _PLAIN_DATE, _DATE, _day(_DATE))
        case "TIMESTAMPTZ" | "TIMESTAMPLTZ":
            # DuckDB wants a blank before a name, and two digits of hours.
            name = rf"regexp_replace(regexp_extract(:x, '{_TIME}', 8), '^([A-Z].)', ' \1')"
            hours = rf"regexp_replace(regexp_extract(:x, '{_TIME}', 9), '^([+-])([0-9])(:|$)', '\10\2\3')"
            zone = f" || {name} || {hours}"
            return _readable_time(value, _PLAIN_TIME, _TIME, _day(_TIME) + _of_day() + zone)
        case "TIMESTAMP" | "TIMESTAMPNTZ":
            return _readable_time(value, _PLAIN_TIME, _TIME, _day(_TIME) + _of_day())
    return value


def _extracted(value: Any, plain: str, pattern: str) -> Any:
    """Return the part of a text that is a number. `plain`: what most texts are, which takes one test."""
    written = text_of(value)
    if written is not None and (found := re.search(pattern, written)) and "\n" not in written:
        return exp.Literal.string(found[1])
    return fragment(
        f"CASE WHEN regexp_full_match(:x, '{plain}') THEN :x "
        f"WHEN regexp_matches(:x, '{pattern}') THEN regexp_extract(:x, '{pattern}', 1) ELSE :x || '{NOT_READ}' END",
        x=value,
    )


def _readable_time(value: Any, plain: str, pattern: str, made: str) -> Any:
    written = text_of(value)
    if written is not None:
        if re.search(plain, written.rstrip("\n")) and written.isascii():
            return value
        if written.strip().lower() in _TIME_WORDS or re.match(r"\s*(-|T?[0-9]{1,2}:)", written):
            raise needs_spark(f"the time '{written.strip()}'", "Write the day, as in '2013-01-05'")
    return fragment(
        f"CASE WHEN regexp_matches(:x, '{plain}') THEN :x WHEN regexp_matches(:x, '{pattern}') THEN {made} "
        f"ELSE :x || '{NOT_READ}' END",
        x=value,
    )


def _day(pattern: str) -> str:
    """Return the SQL of the day in a text, whose month and day may be missing."""
    year, month, day = (f"regexp_extract(:x, '{pattern}', {group})" for group in (1, 2, 3))
    return f"{year} || '-' || coalesce(nullif({month}, ''), '1') || '-' || coalesce(nullif({day}, ''), '1')"


def _of_day() -> str:
    """Return the SQL of the time of the day in a text, whose parts may be missing."""
    hour, minute, second = (f"coalesce(nullif(regexp_extract(:x, '{_TIME}', {group}), ''), '0')" for group in (4, 5, 6))
    return f" || ' ' || {hour} || ':' || {minute} || ':' || {second} || '.' || regexp_extract(:x, '{_TIME}', 7) || '0'"


def _array(node: Any) -> Any:
    """Return a cast of an array, whose elements are cast one by one where DuckDB would cast them in another way."""
    to, source = node.to.expressions, node.this.type.expressions
    if len(to) != 1 or len(source) != 1:
        raise needs_spark(f"a cast of an array to {node.to.sql(dialect=DIALECT)}", "Cast its elements")
    element = exp.column("element")
    element.type = source[0].copy()
    cast = type(node)(this=element, to=to[0].copy())
    cast.type = to[0].copy()
    return fragment("list_transform(:x, lambda element: :cast)", x=node.this, cast=_written(cast))


def _array_text(node: Any) -> Any:
    return fragment(
        "'[' || array_to_string(list_transform(:x, lambda element: coalesce(:text, 'null')), ', ') || ']'",
        x=node,
        text=as_text(_element(node)),
    )


def _element(array: Any) -> Any:
    """Return the name that the elements of an array have in a lambda, with their type."""
    if len(array.type.expressions) != 1:
        raise needs_spark("the text of an array whose elements have no known type", "Take its elements")
    element = exp.column("element")
    element.type = array.type.expressions[0].copy()
    return element


def _text_of_float(node: Any) -> Any:
    """Return the text of a FLOAT, of which DuckDB writes all digits before the point."""
    large = "CASE WHEN abs(:x) >= 10000000 AND isfinite(:x) THEN spark_float_text(:x) ELSE :other END"
    return fragment(large, x=node, other=fragment(_FLOAT_TEXT, x=node))


def _text_of_unknown(node: Any) -> Any:
    """Return the text of a value whose type only DuckDB knows."""
    of_double = fragment(_FLOAT_TEXT, x=fragment("TRY_CAST(CAST(:x AS VARCHAR) AS DOUBLE)", x=node))
    of_float = _text_of_float(fragment("TRY_CAST(CAST(:x AS VARCHAR) AS REAL)", x=node))
    return fragment(
        "CASE typeof(:x) WHEN 'DOUBLE' THEN :double WHEN 'FLOAT' THEN :float "
        "WHEN 'BLOB' THEN decode(TRY_CAST(CAST(:x AS VARCHAR) AS BLOB)) "
        "WHEN 'TIMESTAMP WITH TIME ZONE' THEN regexp_replace(CAST(:x AS VARCHAR), '[+]00$', '') "
        "ELSE CAST(:x AS VARCHAR) END",
        x=node,
        double=of_double,
        float=of_float,
    )
