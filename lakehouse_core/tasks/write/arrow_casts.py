"""Lossless casts from Arrow columns to table columns; a value that does not fit is refused with its row.

Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import DataField, arrow_type, type_from_arrow, type_to_sql, with_nullable


@dataclass(frozen=True, slots=True)
class Misfits:
    """The wording of errors for columns and values that do not fit. `in_sql`: name SQL types instead of Arrow types."""

    first_row: int
    advice: str
    in_sql: bool = False


def lossless_cast(source: pa.DataType, field: DataField, misfits: Misfits) -> Callable[[pa.Array], pa.Array]:
    """Return a function that casts a column without loss; the function raises ArrowInvalid for values that do not
    fit.
    """
    target = arrow_type(field.type)
    if source.equals(target):
        return lambda array: array
    if not _fits(source, target):
        raise refused_type(field, source, misfits)
    if pt.is_dictionary(source):
        convert = lossless_cast(_without_views(source.value_type), field, misfits)
        return lambda array: convert(_decoded(array))
    if _is_list_view(source):
        return lambda array: _as_list(array).cast(target)
    if _may_round(source, target):
        return lambda array: _exactly(array, target)
    if _is_widened_first(source, target):
        return lambda array: array.cast(_ANY_INTEGER).cast(target)
    return lambda array: _from_start(array).cast(target)


def refused_type(field: DataField, source: pa.DataType, misfits: Misfits) -> InvalidRequest:
    """Return the error for an Arrow type that cannot be cast to the table column's type."""
    wanted = type_to_sql(field.type)
    nullable = type_to_sql(with_nullable(field.type, True))
    found, into = (_sql_of(source), nullable) if misfits.in_sql else (str(source), str(arrow_type(field.type)))
    of_pandas = pt.is_large_string(source) or pt.is_timestamp(source)
    if arrow_type(field.type) == pa.date32() and of_pandas and not misfits.in_sql:
        # Texts and times of pandas, which has no type of its own for dates.
        into += ", in pandas with pandas.to_datetime(column).dt.date,"
    if arrow_type(field.type) == pa.date32() and pt.is_string_view(source) and not misfits.in_sql:
        into += ", in polars with polars.col(…).str.to_date(),"
    return InvalidRequest(f"Column {shown(field.name)} is {wanted} and the data has {found}: cast it to {into} first.")


def _sql_of(source: pa.DataType) -> str:
    try:
        return type_to_sql(type_from_arrow(source))
    except InvalidRequest:
        return str(source)


def _from_start(array: pa.Array) -> pa.Array:
    """Return a slice with offsets as an array of its own: Arrow's cast checks the values before the slice, too."""
    has_offsets = pt.is_nested(array.type) or pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    return pa.concat_arrays([array]) if array.offset and has_offsets else array


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    return values.cast(_without_views(values.type)).take(array.indices)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type without views, in which Arrow can select rows."""
    return pa.large_string() if pt.is_string_view(kind) else pa.large_binary() if pt.is_binary_view(kind) else kind


def _as_list(array: pa.Array) -> pa.Array:
    """Return list views as lists. Arrow's own cast reads the offsets of views as those of lists."""
    starts = np.asarray(array.offsets, np.int64)
    sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.asarray(array.sizes), 0).astype(np.int64)
    ends = np.cumsum(sizes)
    places = np.arange(sizes.sum()) - np.repeat(ends - sizes - starts, sizes)
    values = array.values
    taken = values.cast(_without_views(values.type)).take(pa.array(places))
    offsets = pa.array(np.concatenate([[0], ends]))
    return pa.LargeListArray.from_arrays(offsets, taken, mask=array.is_null())


# The type roots to which a kind of Arrow values may be cast; a safe cast then checks each value.
_ACCEPTED: Final = {
    "integer": frozenset({"integer", "floating", "decimal"}),
    "floating": frozenset({"floating", "integer"}),
    "decimal": frozenset({"decimal", "integer"}),
    "zoned": frozenset({"zoned", "naive"}),
}


def _fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of `source` keep their meaning as values of `target`."""
    if pt.is_dictionary(source):
        return _fits(source.value_type, target)
    if source.equals(target) or pt.is_null(source):
        return True
    if kind := _kind(target):
        return _kind(source) in _ACCEPTED.get(kind, {kind})
    if pt.is_list(target):
        return _is_any_list(source) and _nested_fits(source.value_type, target.value_type)
    if pt.is_map(target):
        keys = pt.is_map(source) and _nested_fits(source.key_type, target.key_type)
        return keys and _nested_fits(source.item_type, target.item_type)
    if pt.is_struct(target):
        # Fields of a struct are matched by name, never by position.
        same = pt.is_struct(source) and [part.name for part in source] == [part.name for part in target]
        return same and all(_nested_fits(a.type, b.type) for a, b in zip(source, target, strict=True))
    return False


def _nested_fits(source: pa.DataType, target: pa.DataType) -> bool:
    if _is_list_view(source):
        return False
    return _fits(source, target) and not _may_round(source, target) and not _is_widened_first(source, target)


def _kind(arrow: pa.DataType) -> str | None:
    if pt.is_timestamp(arrow):
        return "naive" if arrow.tz is None else "zoned"
    for kind, tests in _KINDS.items():
        if any(test(arrow) for test in tests):
            return kind
    return None


_KINDS: Final = {
    "boolean": (pt.is_boolean,),
    "integer": (pt.is_integer,),
    "floating": (pt.is_floating,),
    "decimal": (pt.is_decimal,),
    "text": (pt.is_string, pt.is_large_string, pt.is_string_view),
    "binary": (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
    "date": (pt.is_date,),
    "time": (pt.is_time,),
}


def _is_any_list(arrow: pa.DataType) -> bool:
    return bool(pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow) or _is_list_view(arrow))


def _is_list_view(arrow: pa.DataType) -> bool:
    return bool(pt.is_list_view(arrow) or pt.is_large_list_view(arrow))


def _may_round(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow's cast to floating point may round without an error."""
    if not pt.is_floating(target):
        return False
    return bool(pt.is_integer(source) or (pt.is_floating(source) and source.bit_width > target.bit_width))


# Arrow casts integers to decimals only if every value of the integer type would fit.
_ANY_INTEGER: Final = pa.decimal128(20, 0)


def _is_widened_first(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pt.is_integer(source) and pt.is_decimal(target))


def _exactly(array: pa.Array, target: pa.DataType) -> pa.Array:
    cast = array.cast(target, safe=False)
    back = cast.cast(array.type, safe=False)
    changed = pc.not_equal(back, array)
    if pt.is_floating(array.type):
        changed = pc.and_(changed, pc.invert(pc.is_nan(array)))
    if pc.any(changed).as_py():
        raise pa.ArrowInvalid("rounded")
    return cast


def misfit_row(
    array: pa.Array, convert: Callable[[pa.Array], pa.Array], field: DataField, misfits: Misfits
) -> InvalidRequest:
    """Return the error for the first row whose cast fails; bisection finds the row."""
    start, count = 0, len(array)
    while count > 1:
        half = count // 2
        if _converts(array.slice(start, half), convert):
            start, count = start + half, count - half
        else:
            count = half
    # Python cannot hold every value (nanoseconds, far years), so Arrow formats the value.
    value = " ".join(array.slice(start, 1).to_string().split())[1:-1].strip()
    place = f"Row {misfits.first_row + start}, column {shown(field.name)}"
    kind = type_to_sql(with_nullable(field.type, True))
    return InvalidRequest(f"{place}: {value[:100]} does not fit {kind} without loss. {misfits.advice}")


def _converts(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> bool:
    try:
        convert(array)
    except pa.ArrowInvalid:
        return False
    return True
