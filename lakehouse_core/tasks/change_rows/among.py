"""Among: the rows of a table whose columns have the values of a row of a small source.

Rule: a value is compared as a join compares it: integers of any width alike, and NULL is equal to nothing.
Source: docs/semantics/row-changes.md#merge.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc


class Among:
    """The values of columns of a table: integers, texts or dates. `rows`: the columns of the source, by the name of the
    column of the table with which each is equal.
    """

    def __init__(self, rows: pa.Table) -> None:
        columns = {name: comparable(rows.column(name)) for name in rows.column_names}
        self._values: Mapping[str, pa.Array] = {name: _sorted(column) for name, column in columns.items()}
        # One column is told by its values.
        self._rows = pa.table(columns).drop_null() if len(columns) > 1 else None

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that have the values of a row of the source, in any order."""
        for name, values in self._values.items():
            if batch.num_rows:
                batch = batch.filter(_is_among(comparable(batch.column(name)), values))
        return batch if self._rows is None or not batch.num_rows else _equal(batch, self._rows)


def comparable(column: "pa.Array | pa.ChunkedArray") -> "pa.Array | pa.ChunkedArray":
    """Return a column of integers, texts or dates in the type in which it is compared."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_date(column.type):
        # Their days: Python has no dates beyond the year 9999.
        column = column.cast(pa.date32()).cast(pa.int32())
    # Values of a source may have any of Arrow's types for texts.
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.large_string())


def _sorted(column: pa.ChunkedArray) -> pa.Array:
    values = pc.drop_null(pc.unique(column))
    return values.take(pc.sort_indices(values))


def _is_among(column: pa.Array, values: pa.Array) -> pa.Array:
    # Rows of a key table are in order, so only a few of the values can be in a batch.
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return pa.repeat(pa.scalar(False), len(column))
    first = bisect_left(values, low, key=lambda value: value.as_py())
    end = bisect_right(values, high, key=lambda value: value.as_py())
    return pc.is_in(column, values.slice(first, end - first))


def _equal(batch: pa.RecordBatch, rows: pa.Table) -> pa.RecordBatch:
    names: Sequence[str] = rows.column_names
    keys = pa.table({name: comparable(batch.column(name)) for name in names})
    numbered = keys.append_column("", pa.array(range(batch.num_rows), pa.int64()))
    found = numbered.join(rows, keys=list(names), join_type="left semi").column("")
    return batch.take(found.combine_chunks())
