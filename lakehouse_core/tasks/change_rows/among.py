"""Among: the rows of a table whose columns have the values of a row of a small source.

Rule: a value is compared as a join compares it: integers of any width alike, and NULL is equal to nothing. What has the
same 64-bit hash is taken for equal: the join that follows compares the values.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.merge.key_filter import hash_filter, value_hashes
from lakehouse_core.merge.key_words import Words
from lakehouse_core.merge.positions import Flags

_FALSE_POSITIVE_RATE: Final = 1 / 64


class Among:
    """The values of columns of a table: integers, texts or dates. `rows`: the columns of the source, by the name of the
    column of the table with which each is equal.
    """

    def __init__(self, rows: pa.Table) -> None:
        columns = {name: comparable(rows.column(name)) for name in rows.column_names}
        self._rows = pa.table(columns).drop_null()
        self._hashes: Words = np.sort(value_hashes([column.combine_chunks() for column in self._rows.columns]))
        # Leaves few rows for the search, which takes longer.
        self._filter = hash_filter([self._hashes], len(self._hashes), false_positive_rate=_FALSE_POSITIVE_RATE)

    def only(self, names: Collection[str]) -> "Among | None":
        """Return what these columns alone tell of the rows; None: nothing."""
        known = self._rows.column_names
        kept = [name for name in known if name in names]
        if kept == known:
            return self
        return Among(self._rows.select(kept)) if kept else None

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return of each row whether it has the values of a row of the source."""
        columns = [comparable(batch.column(name)) for name in self._rows.column_names]
        hashes = value_hashes(columns)
        found = self._filter.may_hold(hashes)
        for column in columns:
            if column.null_count:
                found &= column.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(found)
        sought = hashes[rows]
        found[rows] = self._hashes.take(np.searchsorted(self._hashes, sought), mode="clip") == sought
        return found


def comparable(column: "pa.Array | pa.ChunkedArray") -> "pa.Array | pa.ChunkedArray":
    """Return a column of integers, texts or dates in the type in which it is compared."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_date(column.type):
        # Their days: Python has no dates beyond the year 9999.
        column = column.cast(pa.date32()).cast(pa.int32())
    # Values of a source may have any of Arrow's types for texts.
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.large_string())
