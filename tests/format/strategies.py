"""Any data type, and any value of one, for laws."""

import string
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from lakehouse_core.format.data_types import (
    INTEGER_BITS,
    MAX_LENGTH,
    MILLIS_PER_DAY,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    assign_field_ids,
)

# Hypothesis also tries the texts that it finds in our sources, and this one names no column.
NAMES = st.text(string.ascii_letters + "_é€ .`'", min_size=1, max_size=8).filter(
    lambda name: bool(name.strip()) and name != "rowkind"
)
LENGTHS = st.one_of(st.integers(1, 40), st.just(MAX_LENGTH))


ATOMIC_ROOTS = [root for root in TypeRoot if root not in (TypeRoot.VARIANT, TypeRoot.BLOB)]


def of_root(root: TypeRoot) -> st.SearchStrategy[AtomicType]:
    """Any type of that root."""
    match root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return LENGTHS.map(lambda length: AtomicType(root, length=length))
        case TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return st.integers(0, 9).map(lambda precision: AtomicType(root, precision=precision))
        case TypeRoot.DECIMAL:
            digits = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))
            return digits.map(lambda both: AtomicType(root, precision=both[0], scale=both[1]))
    return st.just(AtomicType(root))


def atomic_types() -> st.SearchStrategy[AtomicType]:
    return st.sampled_from(ATOMIC_ROOTS).flatmap(of_root)


def _constructed(parts: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.one_of(
        st.builds(ArrayType, parts),
        st.builds(MultisetType, parts),
        st.builds(MapType, parts, parts),
        st.builds(RowType, fields(parts, max_size=3)),
    )


def data_types(max_leaves: int = 6) -> st.SearchStrategy[DataType]:
    """Any type; ROW fields are numbered from 0 within each row."""
    return st.recursive(atomic_types(), _constructed, max_leaves=max_leaves)


@st.composite
def fields(draw: st.DrawFn, types: st.SearchStrategy[DataType], max_size: int = 4) -> tuple[DataField, ...]:
    """Fields of different names, numbered depth-first from 0."""
    names = draw(st.lists(NAMES, min_size=1, max_size=max_size, unique=True))
    comments = st.one_of(st.none(), NAMES)
    declared = [DataField(-1, name, draw(types), draw(comments)) for name in names]
    return assign_field_ids(declared, 0)[0]


def values(data_type: DataType) -> st.SearchStrategy[Any]:
    """Comparable values of the type, nulls among them, within what Arrow holds."""
    return st.one_of(st.none(), _values(data_type))


def _values(data_type: DataType) -> st.SearchStrategy[Any]:
    match data_type:
        case AtomicType():
            return _atomic_values(data_type)
        case ArrayType(element):
            return st.lists(values(element), max_size=3).map(tuple)
        case MultisetType(element):
            return _pairs(element, st.integers(1, 9))
        case MapType(key, value):
            return _pairs(key, values(value))
        case RowType(fields):
            return st.tuples(*[values(field.type) for field in fields])


def _pairs(key: DataType, items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(_values(key), items), max_size=3).map(tuple)


def _atomic_values(data_type: AtomicType) -> st.SearchStrategy[Any]:
    root = data_type.root
    if root in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[root] - 1)
        return st.integers(-limit, limit - 1)
    match root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return st.floats(width=32 if root is TypeRoot.FLOAT else 64, allow_nan=False)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return st.text(max_size=min(data_type.length or 1, 12))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return st.binary(max_size=min(data_type.length or 1, 12))
        case TypeRoot.DECIMAL:
            assert data_type.precision is not None
            limit = 10**data_type.precision - 1
            return st.integers(-limit, limit).map(lambda unscaled: Decimal(f"{unscaled}E-{data_type.scale}"))
        case TypeRoot.DATE:
            return st.integers(-719162, 2932896)
        case TypeRoot.TIME:
            return st.integers(0, MILLIS_PER_DAY - 1)
        case _:
            return _timestamps(data_type.precision or 0)


def _timestamps(precision: int) -> st.SearchStrategy[tuple[int, int]]:
    # Nanoseconds reach from 1677 to 2262; coarser units hold every year here.
    low, high = (-9_000_000_000, 9_000_000_000) if precision > 6 else (-62_135_596_800, 253_402_300_799)
    step = 10 ** (9 - precision)

    def split(seconds: int, nanos: int) -> tuple[int, int]:
        kept = nanos // step * step
        return seconds * 1_000 + kept // 1_000_000, kept % 1_000_000

    return st.builds(split, st.integers(low, high), st.integers(0, 999_999_999))
