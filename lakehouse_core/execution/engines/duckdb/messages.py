"""What DuckDB says of a query or a value that is wrong, in the words of this project and with Spark's names of types.

Rule: a text that is not in the table passes as it is, without DuckDB's name for its kind of error.
"""

import re
from collections.abc import Callable
from typing import Final

from lakehouse_core.errors import shown
from lakehouse_core.planning.sql.duckdb.spark_functions import FAILED, NOT_READ

# DuckDB's names of types, where they are not those of SQL.
_TYPE_NAMES: Final = {
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INT64": "BIGINT",
    "BOOL": "BOOLEAN",
    "INTEGER": "INT",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}
_KIND: Final = re.compile(r"(Binder|Catalog|Conversion|Invalid Input|Out of Range|Parser) Error: ")
# How RE2 begins to say what is wrong with a pattern.
_OF_PATTERNS: Final = (
    r"missing [)\]]|unexpected \)|trailing \\|no argument for |bad repetition |invalid (?:esc|char|perl|rep|nam)"
)


def _type(name: str) -> str:
    if name.endswith("[]"):
        return f"ARRAY<{_type(name.removesuffix('[]'))}>"
    return _TYPE_NAMES.get(name, name)


def _not_read(text: str, kind: str) -> str:
    return f"The text {shown(text)} cannot be read as {_TYPE_NAMES.get(kind, kind).upper()}"


def _not_grouped(column: str) -> str:
    return (
        f"column {column} is neither in GROUP BY nor inside an aggregate function. Add it to GROUP BY, or take one of "
        f"its values, as in any_value({column})"
    )


def _more_digits(what: str, digits: str) -> str:
    side = "fewer digits behind the point" if digits == "38" else "more digits"
    return f"the {what} of decimals needs more than {digits} digits. Cast a side to a DECIMAL of {side}"


def _too_large(value: str, kind: str) -> str:
    return f"{value} is out of the range of {_type(kind)}. Cast it to a greater type"


# What the whole message is, and what it becomes, by the groups of the pattern. The first one that fits counts.
_WORDS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (rf"Could not convert string '([^']*){re.escape(FAILED)}' to INT8.*", lambda text: text),
    (r"Could not convert string ['\"](.*)['\"] to (\w+(?:\([\d,]+\))?)", _not_read),
    (
        r"(?:invalid )?(date|timestamp) field (?:format|value out of range): \"(.*?)\".*",
        lambda kind, text: _not_read(text, kind),
    ),
    (r"Date out of range: (-?\d+-\d+-\d+)", lambda text: f"{text} is not a date"),
    (r"Type \w+ with value (.*) can't be cast because .* destination type (\w+)(?: when .*)?", _too_large),
    (r"Casting value \"(.*)\" to type (\S+) failed: value is out of range!.*", _too_large),
    (
        r"Overflow in (\w+) of (INT\d+) \((.*)\)!?",
        lambda _, kind, text: f"{text} is out of the range of {_type(kind)}. Cast a side to a greater type",
    ),
    (r"Overflow in (\w+) of DECIMAL\((\d+)\) .*", _more_digits),
    (
        r"Unimplemented type for cast \((.*?) -> (.*?)\)(?: when casting .*)?",
        lambda one, other: (
            f"a value of type {_type(one)} is not cast to {_type(other)}. Compare or use values of one type"
        ),
    ),
    (r"column \"(.*)\" must appear in the GROUP BY clause or .*", _not_grouped),
    (
        r"WHERE clause cannot contain aggregates!?",
        lambda: "WHERE takes no aggregate function. Put the condition into HAVING",
    ),
    (
        r"WHERE clause cannot contain window functions!?",
        lambda: "WHERE takes no window function. Select it in a query of FROM, and compare it outside",
    ),
    (
        r"GROUP BY clause cannot contain (?:aggregates|window functions)!?",
        lambda: "GROUP BY takes no function of several rows. Select it in a query of FROM, and group outside",
    ),
    (
        r"aggregate function calls cannot be nested",
        lambda: "an aggregate function has no other one inside. Compute the inner one in a query of FROM",
    ),
    (
        r"Window functions are not supported here",
        lambda: "a window function needs OVER (…) behind it, and stands in SELECT or ORDER BY",
    ),
    (
        r"GROUPING (?:statement|child) .*",
        lambda: "grouping takes a column of GROUP BY, with ROLLUP, CUBE or GROUPING SETS",
    ),
    (
        r"Set operations can only apply to expressions with the same number of result columns",
        lambda: "the queries of UNION, EXCEPT or INTERSECT have different numbers of columns. Select as many in each",
    ),
    (
        r"Subquery returns (\d+) columns - expected (\d+)",
        lambda found, expected: f"a query inside another one has {found} columns, expected {expected}",
    ),
    (
        r"More than one row returned by a subquery used as an expression.*",
        lambda: "a query that stands for one value has several rows. Take one of them, as by max(…), or test by IN",
    ),
    (r"LIMIT/OFFSET cannot be negative", lambda: "LIMIT and OFFSET take a number from 0 on"),
    (
        r"Cannot extract field '(.*)' from expression \"(.*)\" because it is not .*",
        lambda field, column: f"{column} is not a struct, and has no field {field}",
    ),
    (r"Could not find key \"(.*)\" in struct", lambda field: f"a struct has no field {field}. Check the name"),
    (r"Map keys must be unique", lambda: "a map has one key twice. Give each key once"),
    (
        r"UNNEST\(\) can only be applied to .* not (.*)",
        lambda kind: f"explode takes an array or a map, found a value of type {_type(kind)}",
    ),
    (r"QUANTILE can only take parameters in the range .*", lambda: "a percentile is a number from 0 to 1"),
    (rf"((?:{_OF_PATTERNS}).*)", lambda why: f"a regular expression is not understood: {why}"),
    (
        r"No function matches the given name and argument types '(.*)'.*",
        lambda call: f"the arguments of {call} do not fit. Give as many as the function takes, and cast them",
    ),
    (r"Argument for ntile must be greater than zero", lambda: "ntile takes a number from 1 on"),
)
_PATTERNS: Final = tuple((re.compile(pattern, re.DOTALL), words) for pattern, words in _WORDS)


def in_own_words(message: str) -> str:
    """Return a message of DuckDB as it is told to a user, without the point at its end."""
    found = _KIND.sub("", message.replace(NOT_READ, ""), count=1)
    first = found.splitlines()[0]
    # A text of the user may have several lines; advice of DuckDB follows in others.
    for told in (found.split("\n\nLINE ", maxsplit=1)[0].rstrip("."), first.rstrip(".")):
        for pattern, words in _PATTERNS:
            if (match := pattern.fullmatch(told)) is not None:
                return words(*match.groups())
    return first.rstrip(".!")
