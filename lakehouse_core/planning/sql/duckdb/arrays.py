"""Arrays and maps in a typed query: functions that DuckDB computes in another way than Spark, and LATERAL VIEW.

Source: docs/sql.md#without-spark.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.duckdb.casts import (
    INSTANTS,
    INTEGERS,
    LOCAL_TIMES,
    UNKNOWN,
    as_text,
    texts_of,
)
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import (
    cast_to,
    fragment,
    integer_of,
    is_null,
    needs_spark,
    text_of,
)
from lakehouse_core.planning.sql.duckdb.spark_functions import call
from lakehouse_core.planning.sql.tokens import DIALECT

_EXPLODING: Final = (exp.Explode, exp.Posexplode)
_TIMES: Final = INSTANTS | LOCAL_TIMES | {"DATE"}
_CLOCK: Final = re.compile("HOUR|MINUTE|SECOND", re.IGNORECASE)
# The columns that a function makes of an array or a map, in DuckDB's SQL.
_OF_ARRAYS: Final = ("unnest(:x)",)
_OF_PLACES: Final = ("unnest(range(len(:x)))", "unnest(:x)")
_OF_MAPS: Final = ("unnest(map_keys(:x))", "unnest(map_values(:x))")


def rewritten_array(node: Any) -> Any:
    """Return a node with Spark's value; the node itself where DuckDB's is the same. Raises UnsupportedFeature."""
    match node:
        case exp.ArraySize():
            return cast_to(call("cardinality", node.this) if kind_of(node.this) == "MAP" else node, "INT")
        case exp.ArrayContains():
            return call("spark_array_contains", node.this, node.expression)
        case exp.ArrayPosition():
            return cast_to(call("spark_array_position", node.this, node.expression), "BIGINT")
        case exp.Bracket() if kind_of(node.this) == "ARRAY" and len(node.expressions) == 1:
            name = "spark_element_at" if node.args.get("offset") else "spark_element"
            return call(name, node.this, node.expressions[0])
        case exp.ArrayDistinct():
            return call("spark_distinct", node.this)
        case exp.Flatten():
            return call("spark_flatten", node.this)
        case exp.GenerateSeries():
            return _sequence(node)
        case exp.Reverse() if kind_of(node.this) == "ARRAY":
            return call("list_reverse", node.this)
        case exp.ArraySlice():
            return _slice(node)
        case exp.ArrayToString():
            return _joined(node)
        case exp.Explode() if kind_of(node.this) == "MAP" and not isinstance(node.parent, exp.Lateral):
            raise needs_spark(
                "explode of a map, which gives two columns,", "Use LATERAL VIEW explode(…) t AS key, value"
            )
        case exp.Posexplode() if not isinstance(node.parent, exp.Lateral):
            raise needs_spark("posexplode outside of LATERAL VIEW", "Use LATERAL VIEW posexplode(…) t AS place, value")
    return node


def _sequence(node: Any) -> Any:
    ends, step = (node.args["start"], node.args["end"]), node.args.get("step")
    wrong = {kind_of(each) for each in ends} - INTEGERS - UNKNOWN - _TIMES
    if wrong:
        raise InvalidRequest(f"SQL: sequence takes integers, dates or times, found {min(wrong)}. Cast it.")
    element = node.type.expressions[0] if node.type.expressions else None
    if element is not None and element.this.name in _TIMES:
        found = _times(ends, step, element)
    elif step is None:
        found = call("spark_sequence", *ends)
    else:
        found = call("spark_not_empty", call("generate_series", *ends, step))
    return found if element is None else cast_to(found, node.type.sql(dialect=DIALECT))


def _times(ends: Sequence[Any], step: Any, element: Any) -> Any:
    is_date = element.this.name == "DATE"
    times = [cast_to(each, "TIMESTAMP_NTZ" if is_date else element.sql(dialect=DIALECT)) for each in ends]
    if step is None:
        return call("spark_days", *times)
    if is_date and _CLOCK.search(step.sql(dialect=DIALECT)):
        raise InvalidRequest(
            "SQL: the step of a sequence of dates is days, months or years. Cast its start to TIMESTAMP."
        )
    return call("spark_not_empty", call("generate_series", *times, step))


def _joined(node: Any) -> Any:
    """Return the joined texts of an array; NULL where the separator or what stands for NULL is."""
    separator, instead = node.expression, node.args.get("null")
    if is_null(separator) or (instead is not None and is_null(instead)):
        return cast_to(exp.Null(), "STRING")
    if text_of(separator) is None:
        raise needs_spark("array_join with a separator that is not written in the query", "Write it as a text")
    texts = texts_of(node.this)
    if instead is None:
        return fragment(
            "CASE WHEN :x IS NOT NULL THEN coalesce(array_to_string(:texts, :by), '') END",
            x=node.this,
            texts=texts,
            by=separator,
        )
    return fragment(
        "CASE WHEN :x IS NOT NULL AND :instead IS NOT NULL THEN coalesce(array_to_string("
        "list_transform(:texts, lambda element: coalesce(element, :instead)), :by), '') END",
        x=node.this,
        texts=texts,
        by=separator,
        instead=as_text(instead),
    )


def _slice(node: Any) -> Any:
    start, length = node.args["start"], node.args["end"]
    if not integer_of(start):
        node.set("start", call("spark_slice_start", start))
    if (count := integer_of(length)) is None or count < 0:
        node.set("end", call("spark_slice_length", length))
    return node


def rewritten_view(node: Any) -> Any:
    """Return a query whose LATERAL VIEW is a join with rows of a query, unless DuckDB's own has the same rows.

    Raises UnsupportedFeature.
    """
    if not isinstance(node, exp.Select) or not node.args.get("laterals"):
        return node
    views = [(each, _texts(each)) for each in node.args["laterals"] if isinstance(each.this, _EXPLODING)]
    if all(texts == _OF_ARRAYS and not view.args.get("outer") for view, texts in views):
        return node
    # All of them become joins, for one may name the columns of those before it.
    for view, texts in views:
        names, is_outer = view.alias_column_names, view.args.get("outer")
        if len(names) != len(texts):
            raise needs_spark("LATERAL VIEW without a name for each column", "Write … AS key, value")
        columns = [
            exp.alias_(fragment(text, x=view.this.this), name, quoted=True)
            for text, name in zip(texts, names, strict=True)
        ]
        rows = exp.Lateral(this=exp.Select(expressions=columns).subquery(), alias=view.args["alias"].copy())
        join = exp.Join(this=rows, side="LEFT", on=exp.true()) if is_outer else exp.Join(this=rows, kind="CROSS")
        view.pop()
        node.append("joins", join)
    return node


def _texts(view: Any) -> tuple[str, ...]:
    if isinstance(view.this, exp.Posexplode):
        return _OF_PLACES
    is_map = kind_of(view.this.this) == "MAP" or len(view.alias_column_names) == len(_OF_MAPS)
    return _OF_MAPS if is_map else _OF_ARRAYS
