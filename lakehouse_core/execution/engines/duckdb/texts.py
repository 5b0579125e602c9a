"""Functions of texts in a typed query: what DuckDB computes in another way than Spark becomes a macro.

Source: docs/sql.md#without-spark.
"""

import re
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.execution.engines.duckdb.casts import BYTES, as_text
from lakehouse_core.execution.engines.duckdb.decimals import kind_of
from lakehouse_core.execution.engines.duckdb.spark_functions import call, needs_spark, whole_number

# What stands for a group in a replacement, and what a backslash before a character means, in Java.
_GROUP: Final = re.compile(r"\\(.)|\$(\d)|\$")


def rewritten_text(node: Any) -> Any:
    """Return a node with Spark's value; the node itself where DuckDB's is the same. Raises UnsupportedFeature."""
    match node:
        case exp.Substring() if kind_of(node.this) in BYTES or not _is_plain(node):
            return _substring(node)
        case exp.Left() | exp.Right() if not _is_at_least(node.expression, 0):
            node.set("expression", call("spark_not_negative", node.expression))
        case exp.Replace() if node.args.get("replacement") is None:
            node.set("replacement", exp.Literal.string(""))
        case exp.Pad():
            return _pad(node)
        case exp.StrPosition() if (position := node.args.get("position")) is not None:
            return call("spark_locate", node.args["substr"], node.this, position)
        case exp.RegexpSplit():
            return _split(node)
        case exp.SplitPart():
            return _split_part(node)
        case exp.RegexpReplace():
            return _replaced(node)
        case exp.Concat() | exp.ConcatWs():
            node.set("expressions", [as_text(each) for each in node.expressions])
        case exp.DPipe():
            node.set("this", as_text(node.this))
            node.set("expression", as_text(node.expression))
        case _:
            return _of_one_text(node)
    return node


def _of_one_text(node: Any) -> Any:
    match node:
        case exp.Upper():
            return call("spark_upper", node.this)
        case exp.Length() if kind_of(node.this) in BYTES:
            return call("octet_length", node.this)
        case exp.BitLength() if kind_of(node.this) in BYTES:
            bits = exp.Mul(this=call("octet_length", node.this), expression=exp.Literal.number(8))
            return exp.Paren(this=bits)
        case exp.Chr() if len(node.expressions) == 1:
            return call("spark_chr", node.expressions[0])
        case exp.Unhex():
            return call("spark_unhex", node.this)
    return node


def _is_plain(node: Any) -> bool:
    length = node.args.get("length")
    start = whole_number(node.args.get("start"))
    return start is not None and start != 0 and (length is None or _is_at_least(length, 0))


def _is_at_least(node: Any, least: int) -> bool:
    value = whole_number(node)
    return value is not None and value >= least


def _substring(node: Any) -> Any:
    if kind_of(node.this) in BYTES:
        raise needs_spark("substring of bytes", "Compare the bytes whole")
    start, length = node.args["start"], node.args.get("length")
    # What is behind the end is not there.
    return call("spark_substring", node.this, start, exp.Literal.number(2**31 - 1) if length is None else length)


def _pad(node: Any) -> Any:
    fill = node.args.get("fill_pattern")
    if fill is None or (isinstance(fill, exp.Literal) and str(fill.this)):
        return node
    return call("spark_lpad" if node.args.get("is_left") else "spark_rpad", node.this, node.expression, fill)


def _split(node: Any) -> Any:
    limit = node.args.get("limit")
    if limit is not None:
        value = whole_number(limit)
        if value is None or value > 0:
            raise needs_spark("split with a limit", "Leave the limit out")
        node.set("limit", None)
    return node if isinstance(node.expression, exp.Literal) else call("spark_split", node.this, node.expression)


def _split_part(node: Any) -> Any:
    delimiter, index = node.args["delimiter"], node.args["part_index"]
    if isinstance(delimiter, exp.Literal) and str(delimiter.this) and whole_number(index):
        return node
    return call("spark_split_part", node.this, delimiter, index)


def _replaced(node: Any) -> Any:
    """Return the node with a replacement as RE2 reads it, where `\\1` is the first group."""
    replacement = node.args.get("replacement")
    if not isinstance(replacement, exp.Literal):
        raise needs_spark("regexp_replace with a replacement that is computed", "Write it as a text")

    def read(found: re.Match[str]) -> str:
        escaped, group = found.group(1), found.group(2)
        if group is not None:
            return f"\\{group}"
        if escaped is None:
            raise needs_spark(
                "regexp_replace with '$' before something else than a number", "Write '\\\\$' for a dollar"
            )
        return "\\\\" if escaped == "\\" else str(escaped)

    node.set("replacement", exp.Literal.string(_GROUP.sub(read, str(replacement.this))))
    return node
