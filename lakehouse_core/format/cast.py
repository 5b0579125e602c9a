"""Casts: convert values of an old file to the column's present type, with Java's semantics.

`cast_rules` defines the existing casts; those of text, numbers, decimals and times have separate modules.
Source: docs/semantics/tables.md#casts.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast_decimals import decimal_to_floating, to_decimal
from lakehouse_core.format.cast_numbers import to_boolean, to_integer
from lakehouse_core.format.cast_rules import can_cast, is_same
from lakehouse_core.format.cast_text import from_text, to_text
from lakehouse_core.format.cast_times import from_timestamp, to_timestamp, zoned_to_date
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    arrow_type,
    column_of,
    type_to_sql,
    values_of,
)

_MAX_ARRAY_BYTES: Final = 2**31 - 1


def cast_array(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Return the values of `source` as values of `target`, of `target`'s Arrow type.

    Decimals are rounded HALF_UP, and NULL where they do not fit; strings and binaries are cut to their length, CHAR and
    BINARY filled up to it; timestamps lose digits beyond their precision. A ROW field that the source lacks is NULL.
    TIMESTAMP and TIMESTAMP_LTZ are converted in UTC. Raises UnsupportedFeature naming both types if there is no cast,
    if a text has no value, or if Arrow's nanoseconds cannot hold a time.
    """
    wanted = arrow_type(source)
    if array.type != wanted:
        array = array.cast(wanted)
    if is_same(source, target):
        # Arrow's own cast matches struct fields by name: a renamed field would be null.
        return array.view(arrow_type(target))
    match source, target:
        case AtomicType(), AtomicType() if can_cast(source, target):
            return _cast_atomic(array, source, target)
        case AtomicType(), AtomicType() if can_cast(source, target, explicit=True):
            return _cast_explicit(array, source, target)
        case _, AtomicType() if can_cast(source, target, explicit=True):
            return to_text(array, source)
        case ArrayType(element), ArrayType(target_element):
            return _cast_list(array, element, target_element)
        case MapType(key, value), MapType(target_key, target_value) if is_same(key, target_key):
            return _cast_map(array, value, target, target_value)
        case RowType(), RowType():
            return _cast_row(array, source, target)
    raise UnsupportedFeature(
        f"Values of {type_to_sql(source)} cannot be read as {type_to_sql(target)}: no cast exists."
    )


def cast_value(value: Any, source: DataType, target: DataType) -> Any:
    """Return one comparable value, as `cast_array` casts it. Raises UnsupportedFeature as that does."""
    (cast,) = values_of(cast_array(column_of([value], source), source, target), target)
    return cast


def _cast_explicit(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if target.root in STRING_ROOTS:
        text = to_text(array, source)
        # Java decodes bytes into strings of any length.
        return text if source.root in BINARY_ROOTS else _fit_text(text, target)
    if target.root in BINARY_ROOTS:
        return _fit_bytes(array.cast(pa.binary()), target)
    if source.root in STRING_ROOTS:
        return from_text(array, target)
    match target.root:
        case TypeRoot.BOOLEAN:
            return to_boolean(array)
        case TypeRoot.DECIMAL:
            return to_decimal(array.cast(pa.int8()), AtomicType(TypeRoot.TINYINT), target)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            plain = array.cast(pa.int8()) if source.root is TypeRoot.BOOLEAN else array
            return plain.cast(arrow_type(target), safe=False)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return to_timestamp(array, source, target)
        case TypeRoot.DATE:
            return zoned_to_date(array, source)
        case TypeRoot.TIME:
            return from_timestamp(array, source, target)
    return to_integer(array, source, target)


def _cast_atomic(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    match target.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _fit_text(array, target)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _fit_bytes(array, target)
        case TypeRoot.DECIMAL:
            return to_decimal(array, source, target)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE if source.root is TypeRoot.DECIMAL:
            return decimal_to_floating(array, source, target)
        case TypeRoot.DATE | TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if (
            source.root in TIMESTAMP_ROOTS
        ):
            return from_timestamp(array, source, target)
        case _:
            # Java rounds integers to the nearest float, too.
            return array.cast(arrow_type(target), safe=False)


def _fit_text(array: pa.Array, target: AtomicType) -> pa.Array:
    length = target.length
    assert length is not None
    cut = pc.utf8_slice_codeunits(array, 0, length)
    if target.root is TypeRoot.VARCHAR:
        return cut
    # `utf8_rpad` counts nulls, and four bytes for each character, so it refuses values that would fit.
    _check_filled_size(array, target)
    return pa.array([None if value is None else value.ljust(length) for value in cut.to_pylist()], pa.string())


def _fit_bytes(array: pa.Array, target: AtomicType) -> pa.Array:
    length = target.length
    assert length is not None
    cut = pc.binary_slice(array, 0, length)
    if target.root is TypeRoot.VARBINARY:
        return cut
    _check_filled_size(array, target)
    return pa.array([None if value is None else value.ljust(length, b"\0") for value in cut.to_pylist()], pa.binary())


def _check_filled_size(array: pa.Array, target: AtomicType) -> None:
    assert target.length is not None
    if (len(array) - array.null_count) * target.length > _MAX_ARRAY_BYTES:
        raise UnsupportedFeature(
            f"{len(array)} values filled up to {type_to_sql(target)} exceed what one batch holds: declare it shorter."
        )


def _cast_list(array: pa.Array, element: DataType, target_element: DataType) -> pa.Array:
    offsets, values = _offsets(array), array.values
    field = pa.field("element", arrow_type(target_element), target_element.nullable)
    cast = _cast_between(values, offsets, lambda part: cast_array(part, element, target_element))
    return pa.ListArray.from_arrays(_from_zero(offsets), cast, type=pa.list_(field), mask=array.is_null())


def _cast_map(array: pa.Array, value: DataType, target: DataType, target_value: DataType) -> pa.Array:
    offsets = _offsets(array)
    items = _cast_between(array.items, offsets, lambda part: cast_array(part, value, target_value))
    keys = _cast_between(array.keys, offsets, lambda part: part)
    return pa.MapArray.from_arrays(_from_zero(offsets), keys, items, type=arrow_type(target), mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of a list or map array; of a slice too, where they do not begin at 0."""
    return array.offsets


def _from_zero(offsets: pa.Array) -> pa.Array:
    return pc.subtract(offsets, offsets[0])


def _cast_between(values: pa.Array, offsets: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> pa.Array:
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    return cast(values.slice(start, stop - start))


def _cast_row(array: pa.Array, source: RowType, target: RowType) -> pa.Array:
    positions = {field.id: index for index, field in enumerate(source.fields)}
    children, fields = [], []
    for field in target.fields:
        wanted = arrow_type(field.type)
        if (index := positions.get(field.id)) is None:
            children.append(pa.nulls(len(array), wanted))
        else:
            # `field` of a struct array honours the slice, and the parent's nulls come from the mask below.
            children.append(cast_array(array.field(index), source.fields[index].type, field.type))
        fields.append(pa.field(field.name, wanted, field.type.nullable))
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
