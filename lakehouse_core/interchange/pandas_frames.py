"""pandas frames ↔ Arrow, without rounding and without guessed types.

Rule: nothing here imports pandas; it comes as an argument, or with a frame.
"""

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lakehouse_core.errors import InvalidRequest, shown

# For type annotations only: none of these packages is imported here.
Frame: TypeAlias = Any
Series: TypeAlias = Any

_NULLABLE: Final[Mapping[pa.DataType, str]] = {
    pa.int8(): "Int8Dtype",
    pa.int16(): "Int16Dtype",
    pa.int32(): "Int32Dtype",
    pa.int64(): "Int64Dtype",
}


def to_pandas(table: pa.Table, pandas: ModuleType) -> Frame:
    """Return a table as a frame. Raises InvalidRequest naming the column that pandas cannot hold."""
    columns = {name: _series(name, table.column(name), pandas) for name in table.column_names}
    return pandas.DataFrame(columns, index=pandas.RangeIndex(table.num_rows), copy=False)


def _series(name: str, column: pa.ChunkedArray, pandas: ModuleType) -> Series:
    try:
        if pt.is_nested(column.type):
            # As NumPy arrays, integers with nulls among them would be rounded.
            return pandas.Series(column.to_pylist(), dtype=object)
        nullable = _NULLABLE.get(column.type) if column.null_count else None
        if nullable is None:
            return column.to_pandas()
        return column.to_pandas(types_mapper=lambda kind: getattr(pandas, nullable)())
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"Column {shown(name)}: pandas cannot hold its values ({error}). Use to_arrow()."
        ) from error


def frame_columns(data: object) -> dict[Any, Series] | None:
    """Return the columns of a frame by their labels, None for an object that is not a frame.

    Index levels with a name are columns; index levels without a name are row numbers and left out. Raises
    InvalidRequest.
    """
    # A caller that holds a frame has imported pandas already.
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return None
    frame: Frame = data
    levels = [(label, place) for place, label in enumerate(frame.index.names) if label is not None]
    given = [(label, frame.index.get_level_values(place).to_series()) for label, place in levels]
    given += [(label, frame.iloc[:, place]) for place, label in enumerate(frame.columns)]
    found: dict[Any, Series] = {}
    for label, series in given:
        if label in found:
            raise InvalidRequest(f"The data has two columns {shown(label)}. Rename or drop one.")
        found[label] = series
    return found


def frame_of(columns: Mapping[Any, Series]) -> Frame:
    """Return a frame of columns of equal length, matched by position, whatever their indexes are."""
    return sys.modules["pandas"].DataFrame({label: column.array for label, column in columns.items()})


def series_of(data: object) -> Series | None:
    """Return a column or an index as a column, None for any other object."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, pandas.Series | pandas.Index) or isinstance(data, pandas.MultiIndex):
        return None
    return data if isinstance(data, pandas.Series) else data.to_series()


def array_of(series: Series) -> pa.Array | None:
    """Return a part of a column as Arrow, with missing values as null; None when only its values give the type.

    Raises InvalidRequest for a type that Arrow lacks.
    """
    pandas = sys.modules["pandas"]
    if series.dtype == object and pandas.api.types.infer_dtype(series, skipna=True) not in ("string", "bytes", "empty"):
        return None
    try:
        found = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(f"Column {shown(series.name)}: Arrow has no type for {series.dtype}: {error}") from error
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def without_values(series: Series) -> Series | None:
    """Return a column of floating point numbers that are all missing as one without a type, None for another column:
    pandas gives this type to columns of which it knows nothing.
    """
    return series.astype(object) if series.dtype == np.float64 and not series.notna().any() else None


def values_of(series: Series) -> Iterator[Any]:
    """Yield the values of an object column as Python's, None for values that pandas counts as missing."""
    pandas = sys.modules["pandas"]
    for value in series:
        if value is None or (pandas.api.types.is_scalar(value) and pandas.isna(value)):
            yield None
        elif isinstance(value, np.datetime64):
            yield pandas.Timestamp(value)
        elif isinstance(value, np.generic):
            yield value.item()
        else:
            yield value
