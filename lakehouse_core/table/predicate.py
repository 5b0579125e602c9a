"""Conditions on columns as values: made by `col(...)` or from SQL, tested against statistics and against rows.

Literals are kept as the caller gave them until a schema binds them (`bind`), which turns them into the comparable
values of `format.binary_row` and refuses what does not fit the column. SQL's three-valued logic: a comparison with
NULL is unknown, and unknown keeps nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias


class Comparison(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    column: str
    comparison: Comparison
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class StartsWith:
    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Not:
    part: "Predicate"


@dataclass(frozen=True, slots=True)
class And:
    parts: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    parts: "tuple[Predicate, ...]"


Predicate: TypeAlias = Compare | In | IsNull | StartsWith | Not | And | Or
