"""Sets of row positions as indexes store them: 32-bit Roaring bitmaps in the portable form."""

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakehouse_core.format.file_index.container import corrupt


def parse_rows(data: bytes, start: int, length: int, row_count: int, what: str) -> BitMap:
    """Return the bitmap that lies at `start`. Raises CorruptTable unless it is one, of rows below `row_count`."""
    if start < 0 or length < 1 or start + length > len(data):
        raise corrupt(what, f"{length} bytes of a bitmap at byte {start} of {len(data)}")
    try:
        rows = BitMap.deserialize(data[start : start + length])
    except ValueError as error:
        raise corrupt(what, f"the bitmap at byte {start} cannot be decoded ({error})") from error
    return checked(rows, row_count, what)


def checked(rows: BitMap, row_count: int, what: str) -> BitMap:
    """Return the rows. Raises CorruptTable when one of them is beyond the file."""
    if rows and rows.max() >= row_count:
        raise corrupt(what, f"it speaks of row {rows.max()}, the file has {row_count} rows")
    return rows


def rows_to_bytes(rows: BitMap) -> bytes:
    """Return the portable form, runs where they are shorter, as Java writes it."""
    rows.run_optimize()
    data: bytes = rows.serialize()
    return data


def rows_where(flags: npt.NDArray[np.bool_]) -> BitMap:
    """Return the positions that are set."""
    return BitMap(np.flatnonzero(flags).astype(np.uint32))


def all_rows(row_count: int) -> BitMap:
    return BitMap(range(row_count))
