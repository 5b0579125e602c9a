"""Aggregate types: the column types that each aggregate function accepts.

Java 2.0.0 checks types at the first write of an aggregation table, and those of min and max at the first merge, where
BOOLEAN and nested types fail. Here a wrong type fails when the table is created.
Source: docs/semantics/merge-engines.md#aggregate-functions; the factories of Java 2.0.0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import InvalidRequest, near_names
from lakehouse_core.format.data_types import (
    MAX_LENGTH,
    NUMBER_ROOTS,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    type_to_sql,
)

PRIMARY_KEY: Final = "primary-key"
LAST_VALUE: Final = "last_value"
LAST_NON_NULL_VALUE: Final = "last_non_null_value"
NESTED_UPDATE: Final = "nested_update"
NESTED_PARTIAL_UPDATE: Final = "nested_partial_update"
MERGE_MAP_WITH_KEYTIME: Final = "merge_map_with_keytime"

# Aliases of function names.
ALIASES: Final[Mapping[str, str]] = {"first_not_null_value": "first_non_null_value"}

_NO_ORDER: Final = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})


@dataclass(frozen=True, slots=True)
class _Accepted:
    text: str
    takes: Callable[[DataType], bool]


def _atomic(text: str, *roots: TypeRoot) -> _Accepted:
    return _Accepted(text, lambda data_type: isinstance(data_type, AtomicType) and data_type.root in roots)


def _is_string(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.VARCHAR and data_type.length == MAX_LENGTH


def _has_extremes(data_type: DataType) -> bool:
    return is_comparable(data_type) and data_type != AtomicType(TypeRoot.BOOLEAN, data_type.nullable)


def _is_map_of_rows(data_type: DataType) -> bool:
    return isinstance(data_type, MapType) and isinstance(data_type.value, RowType) and len(data_type.value.fields) >= 2


def _is_array_of_rows(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType) and isinstance(data_type.element, RowType)


_ANY: Final = _Accepted("any type", lambda _: True)
_NUMBERS: Final = _atomic("numeric types", *sorted(NUMBER_ROOTS))
_COMPARABLE: Final = _Accepted("types without parts but BOOLEAN", _has_extremes)
_BOOLEANS: Final = _atomic("BOOLEAN", TypeRoot.BOOLEAN)
_BYTES: Final = _atomic("VARBINARY and BYTES", TypeRoot.VARBINARY)
_ROWS: Final = _Accepted("ARRAY<ROW<…>>", _is_array_of_rows)

FUNCTIONS: Final[Mapping[str, _Accepted]] = {
    PRIMARY_KEY: _ANY,
    "sum": _NUMBERS,
    "product": _NUMBERS,
    "min": _COMPARABLE,
    "max": _COMPARABLE,
    LAST_VALUE: _ANY,
    LAST_NON_NULL_VALUE: _ANY,
    "first_value": _ANY,
    "first_non_null_value": _ANY,
    "bool_and": _BOOLEANS,
    "bool_or": _BOOLEANS,
    "listagg": _Accepted("STRING (a VARCHAR without length)", _is_string),
    "collect": _Accepted("ARRAY", lambda data_type: isinstance(data_type, ArrayType)),
    "merge_map": _Accepted("MAP", lambda data_type: isinstance(data_type, MapType)),
    MERGE_MAP_WITH_KEYTIME: _Accepted("MAP<…, ROW<…>> whose rows have two fields or more", _is_map_of_rows),
    NESTED_UPDATE: _ROWS,
    NESTED_PARTIAL_UPDATE: _ROWS,
    "hll_sketch": _BYTES,
    "theta_sketch": _BYTES,
    "rbm32": _BYTES,
    "rbm64": _BYTES,
}


def function_named(option: str, name: str) -> str:
    """Return the function that the option's value means. Raises InvalidRequest with near matches for an unknown one."""
    if (meant := ALIASES.get(name, name)) in FUNCTIONS:
        return meant
    near = near_names(name.strip().lower(), [*FUNCTIONS, *ALIASES], cutoff=0.6)
    hint = f"did you mean {near}?" if near else f"take one of {', '.join(FUNCTIONS)}."
    raise InvalidRequest(f"Option {option} is {name!r}, which is not an aggregate function: {hint}")


def check_function_type(column: str, function: str, data_type: DataType) -> None:
    """Raise InvalidRequest naming column, type and function when the function does not take the column's type."""
    accepted = FUNCTIONS[function]
    if not accepted.takes(data_type):
        raise InvalidRequest(
            f"Column {column} is {type_to_sql(data_type)}, which the aggregate function {function} does not take: it "
            f"takes {accepted.text}."
        )


def is_character_string(data_type: DataType) -> bool:
    """Return whether the type is CHAR or VARCHAR of any length."""
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS


def is_comparable(data_type: DataType) -> bool:
    """Return whether values of the type can be ordered here."""
    return isinstance(data_type, AtomicType) and data_type.root not in _NO_ORDER
