"""Limits: a read of a few rows opens only a few files.

Source: docs/semantics/reading.md#limits-and-counts.
"""

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from lakehouse_core.table.split import Split


def needed_splits(splits: Collection[Split], limit: int) -> Collection[Split]:
    """Return splits that certainly hold `limit` rows: the first ones with a known row count, or all splits if these
    hold too few rows. REQUIRES: the read has no condition on rows.
    """
    chosen: list[Split] = []
    rows = 0
    for split in splits:
        if rows >= limit:
            return tuple(chosen)
        if (known := split.exact_row_count) is not None:
            chosen.append(split)
            rows += known
    return tuple(chosen) if rows >= limit else splits


def first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows of the batches, and take no more batches than needed."""
    left = limit
    if left <= 0:
        return
    for batch in batches:
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows
        if left <= 0:
            return
