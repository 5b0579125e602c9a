"""Among: the rows of a table whose columns have the values of a row of a small source.

Rule: a value is compared as a join compares it: integers of any width alike, and NULL is equal to nothing. What has the
same 64-bit hash is taken for equal: the join that follows compares the values.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.merge.key_filter import hash_filter, value_hashes
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.positions import Flags

_FALSE_POSITIVE_RATE: Final = 1 / 64
# Of numbers in a narrow range each has a flag, in about as many bytes as eight hashes.
_MOST_FLAGS_PER_VALUE: Final = 64
# To hash each text of a table takes longer than to look for it among so many.
_FEW_TEXTS: Final = 10_000


class Among:
    """The values of columns of a table: integers, texts or dates. `rows`: the columns of the source, by the name of the
    column of the table with which each is equal.
    """

    def __init__(self, rows: pa.Table) -> None:
        columns = {name: comparable(rows.column(name)) for name in rows.column_names}
        self._rows = pa.table(columns).drop_null()
        values = [column.combine_chunks() for column in self._rows.columns]
        self._values = _values(values)

    def __reduce__(self) -> tuple[Any, ...]:
        # What finds the values takes more bytes than they do.
        return Among, (self._rows,)

    def only(self, names: Collection[str]) -> "Among | None":
        """Return what these columns alone tell of the rows; None: nothing."""
        known = self._rows.column_names
        kept = [name for name in known if name in names]
        if kept == known:
            return self
        return Among(self._rows.select(kept)) if kept else None

    def may_hold(self, batch: pa.RecordBatch) -> Flags:
        """Return False for most of the rows that do not have the values of a row of the source, and for no other."""
        return self._values.may_hold(self._columns(batch))

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return of each row whether it has the values of a row of the source."""
        columns = self._columns(batch)
        found = self._values.holds(columns)
        for column in columns:
            if column.null_count:
                found &= column.is_valid().to_numpy(zero_copy_only=False)
        return found

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [comparable(batch.column(name)) for name in self._rows.column_names]


def _values(columns: Sequence[pa.Array]) -> "_Numbers | _FewTexts | _Hashes":
    if len(columns) > 1:
        return _Hashes(columns)
    (column,) = columns
    if not pa.types.is_integer(column.type):
        return _FewTexts(column) if len(column) <= _FEW_TEXTS else _Hashes(columns)
    values = fixed_values(column, np.int64)
    is_narrow = len(values) and int(values.max()) - int(values.min()) < _MOST_FLAGS_PER_VALUE * len(values)
    return _Numbers(column) if is_narrow else _Hashes(columns)


class _Numbers:
    """Integers in a narrow range."""

    def __init__(self, column: pa.Array) -> None:
        values = fixed_values(column, np.int64)
        self._low = values.min().astype(np.uint64)
        places = values.astype(np.uint64) - self._low
        # The last flag is that of all numbers outside of the range.
        self._end = places.max() + np.uint64(1)
        self._flags: Flags = np.zeros(int(self._end) + 1, np.bool_)
        self._flags[places.view(np.int64)] = True

    def holds(self, columns: Sequence[pa.Array]) -> Flags:
        (column,) = columns
        places = fixed_values(column, np.int64).view(np.uint64) - self._low
        found: Flags = self._flags.take(np.minimum(places, self._end).view(np.int64))
        return found

    may_hold = holds


class _FewTexts:
    """Texts, each of which is compared."""

    def __init__(self, column: pa.Array) -> None:
        self._texts = column

    def holds(self, columns: Sequence[pa.Array]) -> Flags:
        found: Flags = pc.is_in(columns[0], self._texts).to_numpy(zero_copy_only=False)
        return found

    may_hold = holds


class _Hashes:
    """The hashes of rows."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._hashes = np.sort(value_hashes(columns))
        self._filter = hash_filter([self._hashes], len(self._hashes), false_positive_rate=_FALSE_POSITIVE_RATE)

    def may_hold(self, columns: Sequence[pa.Array]) -> Flags:
        return self._filter.may_hold(value_hashes(columns))

    def holds(self, columns: Sequence[pa.Array]) -> Flags:
        hashes = value_hashes(columns)
        found = self._filter.may_hold(hashes)
        # Values in order are searched faster.
        rows = np.flatnonzero(found)
        rows = rows[np.argsort(hashes[rows])]
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
    kind = pa.int64() if pa.types.is_integer(column.type) else pa.large_string()
    return column if column.type == kind else column.cast(kind)
