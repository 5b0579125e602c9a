"""How columns are stored in ORC files: field ids as type attributes, times of day as integers, CHAR without blanks.

Source: Paimon format, "ORC".
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.data_types import (
    FIELD_ID_KEY,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    Root,
    RowType,
    atomic_parts,
)

# Stored in every ORC file; Arrow stores the metadata of fields as attributes of ORC's types.
_ID_ATTRIBUTE: Final = b"paimon.id"


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
    return any(part.root is Root.CHAR for part in atomic_parts(data_type))


def without_blanks(array: pa.Array, data_type: DataType) -> pa.Array:
    """Return the values without the blanks that CHARs end with, at any depth: Java fills them up, and drops them again.

    REQUIRES: the array has the Arrow type of `data_type`.
    """
    match data_type:
        case AtomicType():
            return pc.utf8_rtrim(array, characters=" ") if data_type.root is Root.CHAR else array
        case ArrayType(element):
            values = without_blanks(_used(array, array.values), element)
            return pa.ListArray.from_arrays(_from_zero(array), values, type=array.type, mask=array.is_null())
        case MapType(key, value):
            return _map(array, key, value)
        case MultisetType(element):
            return _map(array, element, AtomicType(Root.INT))
        case RowType(fields):
            parts = [without_blanks(array.field(index), field.type) for index, field in enumerate(fields)]
            return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())


def _map(array: pa.Array, key: DataType, value: DataType) -> pa.Array:
    keys = without_blanks(_used(array, array.keys), key)
    items = without_blanks(_used(array, array.items), value)
    return pa.MapArray.from_arrays(_from_zero(array), keys, items, type=array.type, mask=array.is_null())


def _used(array: pa.Array, values: pa.Array) -> pa.Array:
    """The part of the child values that a list or map array, maybe a slice, holds."""
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return values.slice(start, stop - start)


def _from_zero(array: pa.Array) -> pa.Array:
    return pc.subtract(array.offsets, array.offsets[0])
