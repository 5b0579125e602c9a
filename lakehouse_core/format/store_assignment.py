"""Store assignment of Spark's SQL: which values a column takes, and what they become in it.

Rule: a number loses its fraction in an integer, and is rounded in a decimal or a floating-point number; one that is out
of range is an error. Each plain value has a text. No text becomes another value.
Source: docs/sql.md#changing-tables.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast_decimals import to_decimal
from lakehouse_core.format.cast_text import to_text
from lakehouse_core.format.cast_times import to_timestamp, zoned_to_date
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
    with_nullable,
)

_TIMES: Final = frozenset({*TIMESTAMP_ROOTS, TypeRoot.DATE})
_MOST: Final = (1 << 63) - 1
_WITH_TEXT: Final = NUMBER_ROOTS | _TIMES | {TypeRoot.BOOLEAN}


class EqualKeys(Exception):
    """Keys of one map, which differ, are the same in the type that stores them."""


def as_map(data_type: DataType) -> DataType:
    """Return the type as engines of SQL know it: a MULTISET is a MAP to how often an element is there."""
    if isinstance(data_type, MultisetType):
        return MapType(with_nullable(data_type.element, False), AtomicType(TypeRoot.INT))
    return data_type


def can_store(source: DataType, target: DataType) -> bool:
    """Return whether a column of `target` takes values of `source`. Fields of a ROW are matched by position, and have
    the same names in any case.
    """
    match as_map(source), as_map(target):
        case AtomicType(root=given), AtomicType(root=wanted):
            if wanted in STRING_ROOTS:
                return given in STRING_ROOTS or given in _WITH_TEXT
            kinds = (NUMBER_ROOTS, _TIMES, BINARY_ROOTS)
            return given == wanted or any(given in kind and wanted in kind for kind in kinds)
        case ArrayType(element), ArrayType(target_element):
            return can_store(element, target_element)
        case MapType(key, value), MapType(target_key, target_value):
            return can_store(key, target_key) and can_store(value, target_value)
        case RowType(fields), RowType(target_fields):
            return len(fields) == len(target_fields) and all(
                one.name.casefold() == other.name.casefold() and can_store(one.type, other.type)
                for one, other in zip(fields, target_fields, strict=True)
            )
    return False


def is_kept(source: DataType, target: DataType) -> bool:
    """Return whether a column takes values as they are, whatever the length of texts and the digits of seconds."""
    match as_map(source), as_map(target):
        case AtomicType(root=given) as one, AtomicType(root=wanted) as other:
            if given is TypeRoot.DECIMAL:
                return (given, one.precision, one.scale) == (wanted, other.precision, other.scale)
            return given == wanted or any({given, wanted} <= kind for kind in (STRING_ROOTS, BINARY_ROOTS))
        case ArrayType(element), ArrayType(target_element):
            return is_kept(element, target_element)
        case MapType(key, value), MapType(target_key, target_value):
            return is_kept(key, target_key) and is_kept(value, target_value)
        case RowType(fields), RowType(target_fields):
            return len(fields) == len(target_fields) and all(
                part.name == target_part.name and is_kept(part.type, target_part.type)
                for part, target_part in zip(fields, target_fields, strict=True)
            )
    return False


def stored(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Return values as a column takes them, where times keep their digits, and texts and bytes their length.

    Times without a zone are in UTC. Raises ArrowInvalid for a number that is out of range, EqualKeys. REQUIRES:
    `can_store`.
    """
    if is_kept(source, target):
        return array
    match as_map(source), as_map(target):
        case AtomicType() as given, AtomicType() as wanted:
            # Encoded values, and seconds, which no table has.
            plain = array if array.type == arrow_type(given) else array.cast(arrow_type(given))
            return _stored_atomic(plain, given, wanted)
        case ArrayType(element), ArrayType(other):
            lists = array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_type))
            return _with_parts(lists, [lambda part: stored(part, element, other)])
        case MapType(key, value), MapType(other_key, other_value):
            casts = [lambda part: stored(part, key, other_key), lambda part: stored(part, value, other_value)]
            maps = _with_parts(array, casts)
            if not is_kept(key, other_key) and _have_equal_keys(maps):
                raise EqualKeys
            return maps
        case RowType(fields), RowType(others):
            pairs = zip(array.flatten(), fields, others, strict=True)
            parts = [stored(part, one.type, other.type) for part, one, other in pairs]
            return pa.StructArray.from_arrays(parts, names=[each.name for each in others], mask=array.is_null())
    return array


def _stored_atomic(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    root = target.root
    if root in FLOAT_ROOTS:
        # By its text a decimal becomes the nearest one. A number that is too great is infinite.
        numbers = array.cast(pa.string()) if source.root is TypeRoot.DECIMAL else array
        return numbers.cast(arrow_type(target), safe=False)
    if root in INTEGER_BITS:
        return _integers(array, source, target)
    if root is TypeRoot.DECIMAL:
        return _decimal(array, source, target)
    if root in STRING_ROOTS and source.root not in STRING_ROOTS:
        return _texts(array, source)
    if root is TypeRoot.DATE:
        return zoned_to_date(array, source)
    if root in TIMESTAMP_ROOTS and source.root is TypeRoot.DATE:
        return to_timestamp(array, source, target)
    if root in TIMESTAMP_ROOTS:
        return array.cast(pa.timestamp(array.type.unit, arrow_type(target).tz))
    return array


def _integers(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if source.root in INTEGER_BITS:
        return array.cast(arrow_type(target))
    whole = pc.trunc(array)
    if source.root in FLOAT_ROOTS and target.root is TypeRoot.BIGINT:
        # The greatest BIGINT is no DOUBLE, and the one next to it is 2^63, which Spark takes for it.
        is_most = pc.equal(whole, float(_MOST + 1))
        return pc.if_else(is_most, _MOST, pc.if_else(is_most, None, whole).cast(pa.int64()))
    return whole.cast(arrow_type(target))


def _texts(array: pa.Array, source: AtomicType) -> pa.Array:
    texts = to_text(array, source)
    if source.root not in _TIMES:
        return texts
    if source.root is not TypeRoot.DATE and source.precision:
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "")
    # A year of more than four digits has a sign, one of fewer has zeros.
    texts = pc.replace_substring_regex(texts, r"^(\d{5})", r"+\1")
    return pc.replace_substring_regex(texts, r"^-(\d{3}-)", r"-0\1")


def _decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    try:
        found = to_decimal(array, source, target)
    except UnsupportedFeature as error:
        raise pa.ArrowInvalid(str(error)) from error
    if found.null_count > array.null_count:
        raise pa.ArrowInvalid("out of range")
    return found


def _with_parts(array: pa.Array, casts: Sequence[Callable[[pa.Array], pa.Array]]) -> pa.Array:
    """Return an array of lists or maps whose parts are cast."""
    offsets, *parts = list_parts(array)
    cast = [one(part) for part, one in zip(parts, casts, strict=True)]
    kind = pa.MapArray if pa.types.is_map(array.type) else pa.ListArray
    return kind.from_arrays(offsets, *cast, mask=array.is_null())


def _have_equal_keys(maps: pa.Array) -> bool:
    offsets, keys, _ = list_parts(maps)
    if pa.types.is_nested(keys.type):
        keys = pa.array([repr(key) for key in keys.to_pylist()], pa.string())
    numbers = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    pairs = pa.table([numbers, keys], ["map", "key"]).group_by(["map", "key"]).aggregate([])
    return len(pairs) < len(keys)


def list_parts(array: pa.Array) -> list[pa.Array]:
    """Return where each list or map begins and ends, from 0, and the elements, or the keys and the values, of all that
    are not null.
    """
    # What is behind a null is no element, and Arrow's own selection leaves it out.
    rows = array.take(pa.array(np.arange(len(array)))) if array.null_count else array
    start, stop = rows.offsets[0].as_py(), rows.offsets[-1].as_py()
    parts = [rows.keys, rows.items] if pa.types.is_map(rows.type) else [rows.values]
    return [pc.subtract(rows.offsets, start), *(part.slice(start, stop - start) for part in parts)]
