"""Store assignment of SQL: the values of a statement as Spark stores them in a column.

Rule: `format/store_assignment` says which values a column takes. A text or bytes longer than the column are refused,
but for blanks at the end of a text, which are cut. A digit of a second that the column lacks is refused by the write.
Source: docs/decisions/0033-lengths-hold-in-sql.md.
"""

from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    arrow_type,
    type_from_arrow,
    type_to_sql,
    with_nullable,
)
from lakehouse_core.format.store_assignment import EqualKeys, as_map, can_store, is_kept, list_parts, stored
from lakehouse_core.planning.sql.types import spark_text

ArrayOrChunks = TypeVar("ArrayOrChunks", pa.Array, pa.ChunkedArray)

_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def length_limit(data_type: DataType) -> int | None:
    """Return how many characters or bytes a value has at most, None without a limit."""
    if isinstance(data_type, AtomicType) and data_type.root in (*_TEXTS, *_BYTES) and data_type.length != MAX_LENGTH:
        return data_type.length
    return None


def is_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in _TEXTS


def parts_of(data_type: DataType) -> tuple[DataType, ...]:
    """Return the types of elements, of keys and values, or of fields; none of a plain value."""
    match as_map(data_type):
        case ArrayType(element):
            return (element,)
        case MapType(key, value):
            return (key, value)
        case RowType(fields):
            return tuple(field.type for field in fields)
    return ()


def has_limit(data_type: DataType) -> bool:
    """Return whether a value of the type, or a part of one, has a limited length."""
    return length_limit(data_type) is not None or any(map(has_limit, parts_of(data_type)))


def too_long(field: DataField) -> InvalidRequest:
    """Return the error for a value that is longer than its column."""
    return InvalidRequest(
        f"Column {shown(field.name)} is {type_to_sql(with_nullable(field.type, True))}, and a value is longer. Nothing "
        "was changed: cut it, as by left(…), or widen the column with ALTER TABLE … ALTER COLUMN … TYPE."
    )


def out_of_range(field: DataField) -> InvalidRequest:
    """Return the error for a number that is too great for its column, or none at all."""
    wanted = type_to_sql(with_nullable(field.type, True))
    return InvalidRequest(
        f"Column {shown(field.name)} is {wanted}, and a value is out of its range. Nothing was changed: leave the row "
        "out, or widen the column with ALTER TABLE … ALTER COLUMN … TYPE."
    )


def equal_keys(field: DataField) -> InvalidRequest:
    """Return the error for keys of a map that become one key in its column."""
    return InvalidRequest(
        f"Column {shown(field.name)} is {type_to_sql(with_nullable(field.type, True))}, and several keys of a map are "
        "the same key in this type. Nothing was changed: make a map that has each key once, or widen the column."
    )


def not_stored(source: pa.DataType, field: DataField) -> str | None:
    """Return why a column does not take values of a type, None if it does."""
    given = _known(nulls_typed(source, field.type))
    if given is None or can_store(given, field.type):
        return None
    wanted, found = (spark_text(with_nullable(each, True)) for each in (field.type, given))
    return f"column {shown(field.name)} is {wanted}, and the value is {found}. Cast it, as in CAST(… AS {wanted})"


def assigned_type(source: pa.DataType, field: DataField) -> pa.DataType:
    """Return the type of `assigned_column`."""
    source = nulls_typed(source, field.type)
    given = _known(source)
    if given is None or not can_store(given, field.type) or is_kept(given, field.type):
        return source
    return stored(pa.nulls(0, source), given, field.type).type


def assigned_column(column: ArrayOrChunks, field: DataField) -> ArrayOrChunks:
    """Return values of a query as those of a column; of a type that it does not take, as they are. Raises
    InvalidRequest for one that is too long or out of range, and for a map with equal keys.
    """
    kind = nulls_typed(column.type, field.type)
    given = _known(kind)
    if given is None or not can_store(given, field.type):
        return column
    column = column if kind == column.type else column.cast(kind)
    if not is_kept(given, field.type):
        column = _stored(column, given, field)
    limit = length_limit(field.type)
    if not _is_long(column, field.type):
        return column
    if limit is None or not is_text(field.type):
        raise too_long(field)
    cut = pc.utf8_slice_codeunits(column, 0, limit)
    behind = pc.utf8_rtrim(pc.utf8_slice_codeunits(column, limit), characters=" ")
    if pc.any(pc.greater(pc.utf8_length(behind), 0)).as_py():
        raise too_long(field)
    return cut


def nulls_typed(source: pa.DataType, target: DataType) -> pa.DataType:
    """Return the type of values of a query, in which NULL has the type of what it is stored in."""
    if pa.types.is_null(source):
        return arrow_type(target)
    match as_map(target):
        case ArrayType(element) if pa.types.is_list(source):
            return pa.list_(_with_nulls_typed(source.value_field, element))
        case MapType(key, value) if pa.types.is_map(source):
            return pa.map_(_with_nulls_typed(source.key_field, key), _with_nulls_typed(source.item_field, value))
        case RowType(fields) if pa.types.is_struct(source) and source.num_fields == len(fields):
            return pa.struct([_with_nulls_typed(one, other.type) for one, other in zip(source, fields, strict=True)])
    return source


def _with_nulls_typed(part: pa.Field, target: DataType) -> pa.Field:
    return part.with_type(nulls_typed(part.type, target))


def _known(source: pa.DataType) -> DataType | None:
    """Return the type of a table that a type of Arrow is; None for one that no table has."""
    try:
        return type_from_arrow(source)
    except InvalidRequest:
        return None


def _stored(column: ArrayOrChunks, given: DataType, field: DataField) -> ArrayOrChunks:
    try:
        if isinstance(column, pa.ChunkedArray):
            chunks = [stored(chunk, given, field.type) for chunk in column.chunks]
            return pa.chunked_array(chunks, assigned_type(column.type, field))
        return stored(column, given, field.type)
    except pa.ArrowInvalid as error:
        raise out_of_range(field) from error
    except EqualKeys as error:
        raise equal_keys(field) from error


def _is_long(column: ArrayOrChunks, data_type: DataType) -> bool:
    """Return whether a value, or a part of one, is longer than its type says. Values of another type are not."""
    kind, limit = column.type, length_limit(data_type)
    if limit is not None:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            lengths = pc.utf8_length(column)
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            lengths = pc.binary_length(column)
        else:
            return False
        return bool(pc.any(pc.greater(lengths, limit)).as_py())
    if not has_limit(data_type):
        return False
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return any(_has_long_part(chunk, data_type) for chunk in chunks)


def _has_long_part(array: pa.Array, data_type: DataType) -> bool:
    kind, parts = array.type, parts_of(data_type)
    if pa.types.is_map(kind) and isinstance(data_type, MapType):
        return any(_is_long(part, one) for part, one in zip(list_parts(array)[1:], parts, strict=True))
    is_array = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if is_array and isinstance(data_type, ArrayType):
        return _is_long(array.flatten(), parts[0])
    if pa.types.is_struct(kind) and len(parts) == kind.num_fields:
        return any(_is_long(part, one) for part, one in zip(array.flatten(), parts, strict=True))
    return False
