"""Store assignment of Spark's SQL: which values a column takes, and what they become in it.

Rule: a number loses its fraction in an integer, and is rounded in a decimal or a floating-point number; one that is out
of range is an error. Each plain value has a text. No text becomes another value.
Source: docs/sql.md#changing-tables.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast_decimals import to_decimal
from lakehouse_core.format.cast_text import to_text
from lakehouse_core.format.cast_times import to_timestamp, zoned_to_date
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    arrow_type,
)

_FLOATING: Final = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_NUMBERS: Final = frozenset({*INTEGER_BITS, *_FLOATING, TypeRoot.DECIMAL})
_TIMES: Final = frozenset({*TIMESTAMP_ROOTS, TypeRoot.DATE})
_WITH_TEXT: Final = _NUMBERS | _TIMES | {TypeRoot.BOOLEAN}


def can_store(source: DataType, target: DataType) -> bool:
    """Return whether a column of `target` takes values of `source`. Fields of a ROW are matched by position, and have
    the same names.
    """
    match source, target:
        case AtomicType(root=given), AtomicType(root=wanted):
            if wanted in STRING_ROOTS:
                return given in STRING_ROOTS or given in _WITH_TEXT
            kinds = (_NUMBERS, _TIMES, BINARY_ROOTS)
            return given == wanted or any(given in kind and wanted in kind for kind in kinds)
        case ArrayType(element), ArrayType(target_element):
            return can_store(element, target_element)
        case MapType(key, value), MapType(target_key, target_value):
            return can_store(key, target_key) and can_store(value, target_value)
        case RowType(fields), RowType(target_fields):
            return [each.name for each in fields] == [each.name for each in target_fields] and all(
                can_store(one.type, other.type) for one, other in zip(fields, target_fields, strict=True)
            )
    return False


def is_kept(source: DataType, target: DataType) -> bool:
    """Return whether a column takes values as they are, whatever the length of texts and the digits of seconds."""
    match source, target:
        case AtomicType(root=given), AtomicType(root=wanted):
            if given is TypeRoot.DECIMAL:
                return (given, source.precision, source.scale) == (wanted, target.precision, target.scale)
            return given == wanted or any({given, wanted} <= kind for kind in (STRING_ROOTS, BINARY_ROOTS))
        case ArrayType(element), ArrayType(other):
            return is_kept(element, other)
        case MapType(key, value), MapType(other_key, other_value):
            return is_kept(key, other_key) and is_kept(value, other_value)
        case RowType(fields), RowType(others):
            return len(fields) == len(others) and all(
                is_kept(one.type, other.type) for one, other in zip(fields, others, strict=True)
            )
    return False


def stored(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Return values as a column takes them, where times keep their digits, and texts and bytes their length.

    Times without a zone are in UTC. Raises ArrowInvalid for a number that is out of range. REQUIRES: `can_store`.
    """
    if is_kept(source, target):
        return array
    match source, target:
        case AtomicType(), AtomicType():
            return _stored_atomic(array, source, target)
        case ArrayType(element), ArrayType(other):
            lists = array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_type))
            return _with_parts(lists, [lists.values], [lambda part: stored(part, element, other)])
        case MapType(key, value), MapType(other_key, other_value):
            casts = [lambda part: stored(part, key, other_key), lambda part: stored(part, value, other_value)]
            return _with_parts(array, [array.keys, array.items], casts)
        case RowType(fields), RowType(others):
            pairs = zip(array.flatten(), fields, others, strict=True)
            parts = [stored(part, one.type, other.type) for part, one, other in pairs]
            return pa.StructArray.from_arrays(parts, names=[each.name for each in others], mask=array.is_null())
    return array


def _stored_atomic(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    root = target.root
    if root in _FLOATING:
        # A number that is too great is infinite.
        return array.cast(arrow_type(target), safe=False)
    if root in INTEGER_BITS:
        return (array if source.root in INTEGER_BITS else pc.trunc(array)).cast(arrow_type(target))
    if root is TypeRoot.DECIMAL:
        return _decimal(array, source, target)
    if root in STRING_ROOTS and source.root not in STRING_ROOTS:
        texts = to_text(array, source)
        return pc.replace_substring_regex(texts, r"\.?0*$", "") if _has_fraction(source) else texts
    if root is TypeRoot.DATE:
        return zoned_to_date(array, source)
    if root in TIMESTAMP_ROOTS and source.root is TypeRoot.DATE:
        return to_timestamp(array, source, target)
    if root in TIMESTAMP_ROOTS:
        return array.cast(pa.timestamp(array.type.unit, arrow_type(target).tz))
    return array


def _has_fraction(source: AtomicType) -> bool:
    return source.root in TIMESTAMP_ROOTS and bool(source.precision)


def _decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    try:
        found = to_decimal(array, source, target)
    except UnsupportedFeature as error:
        raise pa.ArrowInvalid(str(error)) from error
    if found.null_count > array.null_count:
        raise pa.ArrowInvalid("out of range")
    return found


def _with_parts(array: pa.Array, parts: list[pa.Array], casts: list[Callable[[pa.Array], pa.Array]]) -> pa.Array:
    """Return an array of lists or maps whose parts are cast."""
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    cast = [one(part.slice(start, stop - start)) for part, one in zip(parts, casts, strict=True)]
    offsets = pc.subtract(array.offsets, array.offsets[0])
    if len(cast) == 1:
        return pa.ListArray.from_arrays(offsets, *cast, mask=array.is_null())
    return pa.MapArray.from_arrays(offsets, *cast, mask=array.is_null())
