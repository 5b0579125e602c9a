"""Conditions on columns, as values, made by `col(...)` or from SQL.

Literals are kept as the caller gave them until a schema binds them (`bind`), which turns them into comparable values
and refuses what the column cannot hold. SQL's three-valued logic: a comparison with NULL is unknown, and an unknown
result keeps no row. For users NaN is greater than every number and equal to itself, as in Paimon and Spark; `bind`
expresses that in comparisons of IEEE 754, where NaN is unequal to everything and neither less nor greater.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias, assert_never, cast

from lakehouse_core.errors import InvalidRequest, shown


class Comparison(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def mirrored(self) -> "Comparison":
        """The comparison that means the same with its two sides exchanged: `a < b` is `b > a`."""
        return _MIRRORED.get(self, self)


_MIRRORED: Final = {
    Comparison.LESS: Comparison.GREATER,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER_OR_EQUAL,
    Comparison.GREATER: Comparison.LESS,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS_OR_EQUAL,
}


class _Condition:
    """The operators of every condition: `&` and `|` join conditions, `~` negates one."""

    __slots__ = ()

    def __and__(self, other: "Predicate") -> "And":
        return And((cast("Predicate", self), other))

    def __or__(self, other: "Predicate") -> "Or":
        return Or((cast("Predicate", self), other))

    def __invert__(self) -> "Not":
        return Not(cast("Predicate", self))

    def __bool__(self) -> bool:
        # Otherwise Python would silently evaluate `a > 1 and b < 2` as `b < 2`.
        raise InvalidRequest("A condition has no truth value: join conditions with & and |, negate with ~.")


@dataclass(frozen=True, slots=True)
class Compare(_Condition):
    column: str
    comparison: Comparison
    value: Any


@dataclass(frozen=True, slots=True)
class In(_Condition):
    """The column is one of `values`. Without values: false, and unknown for NULL. Bound values are sorted."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull(_Condition):
    column: str


@dataclass(frozen=True, slots=True)
class StartsWith(_Condition):
    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Not(_Condition):
    part: "Predicate"


@dataclass(frozen=True, slots=True)
class And(_Condition):
    parts: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class Or(_Condition):
    parts: "tuple[Predicate, ...]"


Predicate: TypeAlias = Compare | In | IsNull | StartsWith | Not | And | Or


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column to compare: `col("amount") > 10`, `col("id").isin([1, 2])`, `col("note").is_null()`."""

    name: str

    def __eq__(self, value: object) -> Compare:  # type: ignore[override]
        return Compare(self.name, Comparison.EQUAL, value)

    def __ne__(self, value: object) -> Compare:  # type: ignore[override]
        return Compare(self.name, Comparison.NOT_EQUAL, value)

    def __lt__(self, value: Any) -> Compare:
        return Compare(self.name, Comparison.LESS, value)

    def __le__(self, value: Any) -> Compare:
        return Compare(self.name, Comparison.LESS_OR_EQUAL, value)

    def __gt__(self, value: Any) -> Compare:
        return Compare(self.name, Comparison.GREATER, value)

    def __ge__(self, value: Any) -> Compare:
        return Compare(self.name, Comparison.GREATER_OR_EQUAL, value)

    __hash__ = None  # type: ignore[assignment]

    def isin(self, values: Iterable[Any]) -> In:
        """Return the condition that the column is one of the values. Raises InvalidRequest unless `values` is a list of
        values.
        """
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidRequest(f"col({shown(self.name)}).isin({shown(values)}): expected a list of values.")
        try:
            return In(self.name, tuple(values))
        except Exception as error:  # Whatever a source of values raises.
            raise InvalidRequest(f"col({shown(self.name)}).isin: the values end with {shown(error)}.") from error

    def between(self, low: Any, high: Any) -> And:
        """Return the condition that the column is between `low` and `high`, both included."""
        return And((self >= low, self <= high))

    def is_null(self) -> IsNull:
        return IsNull(self.name)

    def is_not_null(self) -> Not:
        return Not(IsNull(self.name))

    def startswith(self, prefix: str) -> StartsWith:
        return StartsWith(self.name, prefix)


def col(name: str) -> Column:
    """Return the column `name`, ready to be compared. Raises InvalidRequest unless it is text."""
    if not isinstance(name, str):
        raise InvalidRequest(f"col({shown(name)}): expected the name of a column.")
    return Column(name)


def is_predicate(value: object) -> bool:
    """Return whether `value` is a condition."""
    return isinstance(value, _Condition)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the columns that the condition names."""
    match predicate:
        case Compare(column) | In(column) | IsNull(column) | StartsWith(column):
            return frozenset((column,))
        case Not(part):
            return columns_of(part)
        case And(parts) | Or(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case _:
            assert_never(predicate)


def conjuncts(predicate: Predicate | None) -> Iterator[Predicate]:
    """Yield the conditions that must all hold; none when there is no predicate."""
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from conjuncts(part)
    elif predicate is not None:
        yield predicate


def all_of(parts: Iterable[Predicate]) -> Predicate | None:
    """Return the condition that every one of `parts` holds; None without parts."""
    found = tuple(parts)
    return None if not found else found[0] if len(found) == 1 else And(found)


def only_columns(predicate: Predicate | None, columns: Iterable[str]) -> Predicate | None:
    """Return the conjuncts on `columns` only, None without any. Dropping the others keeps more rows, never fewer."""
    allowed = frozenset(columns)
    return all_of(part for part in conjuncts(predicate) if columns_of(part) <= allowed)


def without_columns(predicate: Predicate | None, columns: Iterable[str]) -> Predicate | None:
    """Return the conjuncts that `only_columns` leaves out."""
    allowed = frozenset(columns)
    return all_of(part for part in conjuncts(predicate) if not columns_of(part) <= allowed)
