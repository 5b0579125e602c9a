"""What the parser of queries reads in another way than Spark, or takes where Spark does not: found in the words.

Source: docs/sql.md#queries.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot.tokens import TokenType

from lakehouse_core.format.data_types import in_backquotes
from lakehouse_core.planning.sql.tokens import SqlText

_BEFORE_NULLS: Final = frozenset(
    {"FIRST", "LAST", "FIRST_VALUE", "LAST_VALUE", "ANY_VALUE", "NTH_VALUE", "LAG", "LEAD"}
)
_AROUND_NULLS: Final = frozenset({"FIRST", "LAST", "ANY_VALUE"})
_PATTERNS: Final = ("LIKE", "ILIKE", "RLIKE", "REGEXP")
_PREDICATES: Final = frozenset({"IS", "IN", "BETWEEN", *_PATTERNS})
_COMPARISONS: Final = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"})


def check_spellings(sql: SqlText) -> None:
    """Raise InvalidRequest and UnsupportedFeature with the place of what Spark reads in another way, or not at all."""
    words = [str(token.text).upper() if _is_plain(token.token_type) else "" for token in sql.tokens]
    for number, word in enumerate(words):
        if not word:
            _check_text(sql, words, number)
        match word:
            case "IGNORE" | "RESPECT" if words[number + 1 : number + 2] == ["NULLS"]:
                _check_nulls(sql, words, number)
            case _ if word in _PREDICATES:
                _check_predicate(sql, words, number)


def _is_plain(kind: TokenType) -> bool:
    return kind not in (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER)


def _check_text(sql: SqlText, words: Sequence[str], number: int) -> None:
    """Refuse a text where a name is given: after AS, and after WITH."""
    token = sql.tokens[number]
    is_name = number > 0 and words[number - 1] in ("AS", "WITH")
    if token.token_type is not TokenType.IDENTIFIER and is_name:
        raise sql.invalid(
            int(token.start),
            f"a text in quotes stands for a name. Quote a name by backquotes: {in_backquotes(token.text)}",
        )


def _check_nulls(sql: SqlText, words: Sequence[str], number: int) -> None:
    is_behind = words[number - 1] == ")" and _function(words, number - 1) in _BEFORE_NULLS
    if not is_behind and _function(words, number) not in _AROUND_NULLS:
        raise sql.invalid(
            int(sql.tokens[number].start),
            f"{words[number]} NULLS stands behind the brackets of a function that picks a value, as in "
            f"last_value(a) {words[number]} NULLS",
        )


def _function(words: Sequence[str], number: int) -> str:
    """Return the word before the bracket that is open at a place."""
    depth = 0
    for place in range(number - 1, 0, -1):
        depth += (words[place] == ")") - (words[place] == "(")
        if depth < 0:
            return words[place - 1]
    return ""


def _check_predicate(sql: SqlText, words: Sequence[str], number: int) -> None:
    """Refuse a second test of what a test gives, which Spark takes in brackets only."""
    end, is_whole = _end(words, number)
    rest = words[end : end + 2] if end is not None else []
    if not rest:
        return
    if (
        rest[0] in _PREDICATES
        or (rest[0] == "NOT" and rest[-1] in _PREDICATES)
        or (is_whole and rest[0] in _COMPARISONS)
    ):
        raise sql.invalid(
            int(sql.tokens[number].start),
            f"{words[number]} is tested by {rest[0]} behind it. Put brackets around the first test, as in "
            "(a IN (1, 2)) IS NULL",
        )


def _end(words: Sequence[str], number: int) -> tuple[int | None, bool]:
    """Return the place behind a test, if it is a short one, and whether it ends there whatever follows."""
    after = words[number + 1 : number + 4]
    match words[number]:
        case "IS":
            negated = after[:1] == ["NOT"]
            is_constant = after[negated : negated + 1] in (["NULL"], ["TRUE"], ["FALSE"], ["UNKNOWN"])
            return (number + 2 + negated if is_constant else None), True
        case "IN" if after[:1] == ["("]:
            depth = 0
            for place in range(number + 1, len(words)):
                depth += (words[place] == "(") - (words[place] == ")")
                if depth == 0:
                    return place + 1, True
        case "BETWEEN" if after[1:2] == ["AND"]:
            return number + 4, False
        case word if word in _PATTERNS and after[:1] != ["("]:
            return number + 2, False
    return None, False
