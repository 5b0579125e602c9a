"""Functions of texts and bytes that DuckDB would compute in another way than Spark.

Rule: an argument that is written in the query decides what is needed; only other arguments are tested row by row.
Source: docs/sql.md#without-spark.
"""

import re
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.planning.sql.duckdb.casts import BYTES, INTEGERS, as_text, texts_of
from lakehouse_core.planning.sql.duckdb.decimals import kind_of
from lakehouse_core.planning.sql.duckdb.fragments import (
    cast_to,
    fragment,
    integer_of,
    is_null,
    needs_spark,
    text_of,
)
from lakehouse_core.planning.sql.tokens import DIALECT

# Functions whose arguments of these names are texts.
_OF_TEXTS: Final[dict[type, tuple[str, ...]]] = {
    exp.Upper: ("this",),
    exp.Lower: ("this",),
    exp.Trim: ("this", "expression"),
    exp.Replace: ("this", "expression", "replacement"),
    exp.Repeat: ("this",),
    exp.StrPosition: ("this", "substr"),
    exp.Initcap: ("this",),
    exp.RegexpSplit: ("this", "expression"),
    exp.SplitPart: ("this", "delimiter"),
    exp.RegexpReplace: ("this", "expression", "replacement"),
    exp.RegexpExtract: ("this", "expression"),
    exp.RegexpLike: ("this", "expression"),
    exp.Like: ("this", "expression"),
    exp.ILike: ("this", "expression"),
    exp.Ascii: ("this",),
    exp.Translate: ("this", "from_", "to"),
    exp.Unhex: ("this",),
    exp.FromBase64: ("this",),
}
# Functions that have bytes of a text as well.
_OF_BYTES: Final = (
    exp.Length,
    exp.BitLength,
    exp.Substring,
    exp.Left,
    exp.Right,
    exp.Pad,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
    exp.MD5,
    exp.SHA,
    exp.SHA2,
    exp.ToBase64,
)
_OTHER_SHA2: Final = (224, 384, 512)
# What Java's replacement text of a regular expression may hold.
_REPLACEMENT_PART: Final = re.compile(
    r"\\(?P<plain>.)|\$(?P<group>[0-9])(?![0-9])|(?P<bad>[\\$])|(?P<rest>[^\\$]+)", re.S
)


def rewritten_text(node: Any) -> Any:
    """Return what DuckDB computes instead of a function of texts; the node itself if that is the same.

    The parts of the node are rewritten, and types are known. Raises UnsupportedFeature.
    """
    for name in _OF_TEXTS.get(type(node), ()):
        _set_text(node, name)
    match node:
        case exp.Concat() | exp.DPipe() | exp.ConcatWs():
            return _joined(node)
        case exp.Reverse():
            return _reversed(node)
        case exp.Hex():
            return _hex(node)
        case exp.Chr():
            return _character(node)
        case exp.Like() | exp.ILike():
            return _like(node)
    if isinstance(node, _OF_BYTES):
        return _of_bytes(node) if kind_of(node.this) in BYTES else _of_text(node)
    return _with_edges(node)


def _set_text(node: Any, name: str) -> None:
    part = node.args.get(name)
    if isinstance(part, exp.Expression) and not isinstance(part, exp.Any | exp.All | exp.Tuple):
        text = as_text(part)
        if text is not part:
            node.set(name, text.copy())


def _with_edges(node: Any) -> Any:
    """Return a function whose arguments are texts, with Spark's values at the edges."""
    match node:
        case exp.Upper():
            # The upper case of one letter is two letters.
            return fragment(
                "CASE WHEN contains(:x, 'ß') THEN :changed ELSE :plain END",
                x=node.this,
                changed=exp.Upper(this=fragment("replace(:x, 'ß', 'SS')", x=node.this)),
                plain=node,
            )
        case exp.Trim() if node.expression is None:
            # DuckDB takes other blanks as well.
            node.set("expression", exp.Literal.string(" "))
        case exp.Replace() if node.args.get("replacement") is None:
            node.set("replacement", exp.Literal.string(""))
        case exp.StrPosition() if node.args.get("position") is not None:
            return _position(node)
        case exp.Initcap():
            return fragment(
                "array_to_string(list_transform(str_split(lower(:x), ' '), lambda word: "
                "replace(upper(substring(word, 1, 1)), 'ẞ', 'Ss') || substring(word, 2)), ' ')",
                x=node.this,
            )
        case exp.RegexpSplit():
            return _split(node)
        case exp.SplitPart():
            return _split_part(node)
        case exp.RegexpReplace():
            return _regexp_replace(node)
        case exp.RegexpExtract():
            return _regexp_extract(node)
        case exp.Unhex():
            return fragment("CASE WHEN regexp_full_match(:x, '[0-9a-fA-F]*') THEN unhex(:x) END", x=node.this)
        case exp.FromBase64():
            return fragment(
                "from_base64(:x || repeat('=', (4 - length(:x) % 4) % 4))",
                x=fragment("rtrim(regexp_replace(:x, '[^A-Za-z0-9+/=]', '', 'g'), '=')", x=node.this),
            )
    return node


def _of_text(node: Any) -> Any:
    """Return a function of a text that has another meaning for bytes."""
    if isinstance(node, exp.StartsWith | exp.EndsWith | exp.Contains):
        _set_text(node, "expression")
    _set_text(node, "this")
    match node:
        case exp.Substring():
            return _substring(node)
        case exp.Left() | exp.Right():
            return _not_negative(node, "expression")
        case exp.Pad():
            return _padded(node)
        case exp.SHA2():
            return _sha2(node)
        case exp.ToBase64():
            return fragment("to_base64(encode(:x))", x=node.this)
    return node


def _of_bytes(node: Any) -> Any:
    match node:
        case exp.Length():
            return fragment("octet_length(:x)", x=node.this)
        case exp.BitLength():
            return fragment("octet_length(:x) * 8", x=node.this)
        case exp.SHA2():
            return _sha2(node)
        case exp.MD5() | exp.SHA() | exp.ToBase64():
            return node
    raise needs_spark(f"{node.sql_name().lower()} of bytes", "Use it with a text")


def _substring(node: Any) -> Any:
    start = node.args.get("start")
    written = integer_of(start)
    if written == 0:
        node.set("start", exp.Literal.number(1))
    elif start is not None and written is None:
        # The place 0 is the first one.
        node.set("start", fragment("CASE WHEN :x = 0 THEN 1 ELSE :x END", x=start))
    return _not_negative(node, "length")


def _not_negative(node: Any, name: str) -> Any:
    """Return a function whose argument of that name, a number of characters, is not below 0."""
    length = node.args.get(name)
    written = integer_of(length)
    if written is not None and written < 0:
        node.set(name, exp.Literal.number(0))
    elif length is not None and written is None and not is_null(length):
        node.set(name, fragment("CASE WHEN :x < 0 THEN 0 ELSE :x END", x=length))
    return node


def _padded(node: Any) -> Any:
    fill = node.args.get("fill_pattern")
    if fill is None:
        return node
    fill = as_text(fill)
    node.set("fill_pattern", fill.copy())
    if text_of(fill) or is_null(fill):
        return node
    # Without a text that fills, what is longer is cut.
    padded = node.copy()
    padded.set("fill_pattern", fragment("nullif(:x, '')", x=fill))
    return fragment(
        "CASE WHEN :fill = '' THEN left(:x, CASE WHEN :n < 0 THEN 0 ELSE :n END) ELSE :padded END",
        fill=fill,
        x=node.this,
        n=node.expression,
        padded=padded,
    )


def _position(node: Any) -> Any:
    place = node.args["position"]
    written = integer_of(place)
    whole, part = node.this, node.args["substr"]
    if (written is not None and written < 1) or is_null(place):
        return fragment(
            "CASE WHEN :x IS NOT NULL AND :y IS NOT NULL OR :place IS NULL THEN 0 END", x=whole, y=part, place=place
        )
    found = fragment("strpos(substring(:x, :place), :y)", x=whole, y=part, place=place)
    return fragment(
        "CASE WHEN :place IS NULL THEN 0 WHEN :x IS NULL OR :y IS NULL THEN NULL WHEN :place < 1 THEN 0 "
        "WHEN :y = '' THEN 1 WHEN :found = 0 THEN 0 ELSE :found + :place - 1 END",
        x=whole,
        y=part,
        place=place,
        found=found,
    )


def _joined(node: Any) -> Any:
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else list(node.expressions)
    kinds = {kind_of(part) for part in parts if not is_null(part)}
    if kinds <= BYTES or ("ARRAY" in kinds and not isinstance(node, exp.ConcatWs)):
        return node
    if isinstance(node, exp.ConcatWs) and len(parts) == 1:
        return fragment("CASE WHEN :x IS NOT NULL THEN '' END", x=as_text(parts[0]))
    for part in parts:
        text = texts_of(part) if kind_of(part) == "ARRAY" else as_text(part)
        if text is not part:
            part.replace(text.copy())
    if isinstance(node, exp.Concat) and len(parts) == 1:
        return node.expressions[0]
    return node


def _reversed(node: Any) -> Any:
    if kind_of(node.this) == "ARRAY":
        return fragment("list_reverse(:x)", x=node.this)
    # DuckDB keeps the characters together that are shown as one.
    return fragment(
        "CASE WHEN strlen(:x) = length(:x) THEN reverse(:x) "
        "ELSE array_to_string(list_reverse(str_split(:x, '')), '') END",
        x=as_text(node.this),
    )


def _hex(node: Any) -> Any:
    kind = kind_of(node.this)
    if kind in ("DOUBLE", "FLOAT", "DECIMAL"):
        node.set("this", cast_to(fragment("trunc(:x)", x=node.this), "BIGINT"))
    elif kind not in INTEGERS and kind not in BYTES:
        _set_text(node, "this")
    return node


def _character(node: Any) -> Any:
    number = node.expressions[0] if node.expressions else node.this
    written = integer_of(number)
    if written is not None and 0 < written < 256:
        return node
    # Of the number the last eight bits count.
    return fragment(
        "CASE WHEN :x < 0 THEN '' WHEN :x >= 0 THEN chr(CAST(CAST(:x AS BIGINT) & 255 AS INTEGER)) END", x=number
    )


def _like(node: Any) -> Any:
    if isinstance(node.expression, exp.Any | exp.All):
        patterns = node.expression.this
        patterns = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
        together = exp.or_ if isinstance(node.expression, exp.Any) else exp.and_
        negate = node.args.get("negate")
        likes = [
            _like(type(node)(this=node.this.copy(), expression=as_text(each).copy(), negate=negate))
            for each in patterns
        ]
        return exp.Paren(this=together(*likes, copy=False))
    written = text_of(node.expression)
    if isinstance(node.parent, exp.Escape) or (written is not None and "\\" not in written) or is_null(node.expression):
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _split(node: Any) -> Any:
    limit = node.args.get("limit")
    if limit is not None:
        written = integer_of(limit)
        if written is None or written > 1:
            raise needs_spark("split with a limit", "Leave it out")
        node.set("limit", None)
        if written == 1:
            return fragment("CASE WHEN :y IS NOT NULL AND :x IS NOT NULL THEN [:x] END", x=node.this, y=node.expression)
    if text_of(node.expression) is not None:
        return node
    return fragment("CASE WHEN :y IS NOT NULL THEN :whole END", y=node.expression, whole=node)


def _split_part(node: Any) -> Any:
    node.type = exp.DataType.build("STRING", dialect=DIALECT)
    delimiter, number = node.args["delimiter"], node.args["part_index"]
    if integer_of(number) == 0:
        raise needs_spark("split_part of part 0", "The first part is 1")
    if text_of(delimiter):
        return node
    whole = fragment("CASE WHEN :n IN (1, -1) THEN :x WHEN :n IS NOT NULL THEN left(:x, 0) END", x=node.this, n=number)
    return fragment("CASE WHEN :y = '' THEN :whole ELSE :part END", y=delimiter, whole=whole, part=node)


def _regexp_replace(node: Any) -> Any:
    replacement, place = node.args.get("replacement"), node.args.get("position")
    if place is not None and (integer_of(place) or 0) < 1:
        raise needs_spark("regexp_replace from a place that is not a number above 0 in the query", "Use substring")
    if is_null(replacement):
        return node
    written = text_of(replacement)
    if written is None:
        raise needs_spark("regexp_replace with a replacement that is not a text in the query", "Use replace")
    made = []
    for part in _REPLACEMENT_PART.finditer(written):
        if part["bad"]:
            raise needs_spark(f"regexp_replace with the replacement '{written}'", "Name groups as $1 to $9")
        made.append(f"\\{part['group']}" if part["group"] else (part["plain"] or part["rest"]).replace("\\", "\\\\"))
    node.set("replacement", exp.Literal.string("".join(made)))
    return node


def _regexp_extract(node: Any) -> Any:
    group = node.args.get("group")
    written = 1 if group is None else integer_of(group)
    if written is None and not is_null(group):
        raise needs_spark("regexp_extract of a group that is not a number in the query", "Write its number")
    pattern = text_of(node.expression)
    if pattern is None or is_null(group):
        return node
    try:
        groups = re.compile(pattern).groups
    except re.error:
        return node
    if written is not None and not 0 <= written <= groups:
        raise needs_spark(f"regexp_extract of group {written} of '{pattern}', which has {groups}", "Name one of them")
    return node


def _sha2(node: Any) -> Any:
    bits = node.args.get("length")
    written = 256 if bits is None else integer_of(bits)
    if is_null(bits) or (written is not None and written not in (0, 256, *_OTHER_SHA2)):
        return fragment("CASE WHEN FALSE THEN sha256(:x) END", x=node.this)
    if written not in (0, 256):
        raise needs_spark("sha2 of another length than 256", "Use 256")
    node.set("length", exp.Literal.number(256))
    return node
