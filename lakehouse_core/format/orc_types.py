"""How columns are stored in ORC files: field ids as type attributes, times of day as integers, CHAR without blanks,
text no longer than its type.

Source: docs/format/data-files.md#orc.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.data_types import (
    FIELD_ID_KEY,
    MAX_LENGTH,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_parts,
)

# Stored in every ORC file; Arrow stores the metadata of fields as attributes of ORC's types.
_ID_ATTRIBUTE: Final = b"paimon.id"

_Edit: TypeAlias = Callable[[pa.Array, AtomicType], pa.Array]


def orc_field(field: pa.Field) -> pa.Field:
    """Return a field, which carries Parquet's ids, as the ORC writer takes it, at every level."""
    metadata = field.metadata or {}
    attributes = {_ID_ATTRIBUTE: metadata[FIELD_ID_KEY]} if FIELD_ID_KEY in metadata else None
    return pa.field(field.name, _orc_type(field.type), field.nullable, attributes)


def _orc_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(orc_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(orc_field(kind.key_field), orc_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([orc_field(part) for part in kind])
    return kind


def has_char(data_type: DataType) -> bool:
    """Whether CHAR occurs in the type, at any depth."""
    return any(part.root is TypeRoot.CHAR for part in atomic_parts(data_type))


def has_bounded_text(data_type: DataType) -> bool:
    """Whether text with a length occurs in the type, at any depth."""
    return any(part.root in STRING_ROOTS and part.length != MAX_LENGTH for part in atomic_parts(data_type))


def without_blanks(array: pa.Array, data_type: DataType) -> pa.Array:
    """Return the values without the blanks that CHARs end with, at any depth: Java fills them up, and drops them again.

    REQUIRES: the array has the Arrow type of `data_type`.
    """
    return _edited(array, data_type, _trimmed)


def fitted(array: pa.Array, data_type: DataType) -> pa.Array:
    """Return the values as an ORC file holds them: text cut to its length, CHAR without blanks at its end.

    Java cuts when it writes and when it reads. REQUIRES: the array has the Arrow type of `data_type`.
    """
    return _edited(array, data_type, _cut)


def _trimmed(array: pa.Array, kind: AtomicType) -> pa.Array:
    return pc.utf8_rtrim(array, characters=" ") if kind.root is TypeRoot.CHAR else array


def _cut(array: pa.Array, kind: AtomicType) -> pa.Array:
    if kind.root in STRING_ROOTS and (pc.max(pc.utf8_length(array)).as_py() or 0) > (kind.length or 0):
        array = pc.utf8_slice_codeunits(array, 0, kind.length)
    return _trimmed(array, kind)


def _edited(array: pa.Array, data_type: DataType, edit: _Edit) -> pa.Array:
    match data_type:
        case AtomicType():
            return edit(array, data_type)
        case ArrayType(element):
            values = _edited(_used(array, array.values), element, edit)
            return pa.ListArray.from_arrays(_from_zero(array), values, type=array.type, mask=array.is_null())
        case MapType(key, value):
            return _map(array, key, value, edit)
        case MultisetType(element):
            return _map(array, element, AtomicType(TypeRoot.INT), edit)
        case RowType(fields):
            parts = [_edited(array.field(index), field.type, edit) for index, field in enumerate(fields)]
            return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())


def _map(array: pa.Array, key: DataType, value: DataType, edit: _Edit) -> pa.Array:
    keys = _edited(_used(array, array.keys), key, edit)
    items = _edited(_used(array, array.items), value, edit)
    return pa.MapArray.from_arrays(_from_zero(array), keys, items, type=array.type, mask=array.is_null())


def _used(array: pa.Array, values: pa.Array) -> pa.Array:
    """The part of the child values that a list or map array, maybe a slice, holds."""
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return values.slice(start, stop - start)


def _from_zero(array: pa.Array) -> pa.Array:
    return pc.subtract(array.offsets, array.offsets[0])
