"""Limits: a reader that wants a few rows shall open a few files.

Source: docs/semantics/reading.md#limits-and-counts.
"""

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from lakehouse_core.table.split import Split


def needed_splits(splits: Collection[Split], limit: int | None) -> Collection[Split]:
    """Return splits that surely hold `limit` rows: the first of those whose rows are known, or all when these are too
    few. REQUIRES: no row of them is tested for a condition.
    """
    if limit is None:
        return splits
    chosen: list[Split] = []
    rows = 0
    for split in splits:
        if rows >= limit:
            return tuple(chosen)
        if (known := split.exact_row_count) is not None:
            chosen.append(split)
            rows += known
    return tuple(chosen) if rows >= limit else splits


def first_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows of the batches, and ask for no batch more than needed."""
    if limit is None:
        yield from batches
        return
    left = limit
    if left <= 0:
        return
    for batch in batches:
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows
        if left <= 0:
            return
