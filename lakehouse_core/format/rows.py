"""Rows: take rows of Arrow columns by NumPy row numbers."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows: TypeAlias = npt.NDArray[np.int64]

# Rows are numbers within their chunk, far below 2^31; Arrow's `take` is twice as fast with 32 bits and without checks.
_UNCHECKED = pc.TakeOptions(boundscheck=False)


def row_indices(rows: Rows, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return row numbers as `take_indices` wants them, null where `nulls` says so. REQUIRES: fewer than 2^31 rows."""
    indices = rows.astype(np.int32)
    if nulls is None:
        return pa.array(indices)
    return pa.Array.from_buffers(pa.int32(), len(indices), [validity_buffer(~nulls), pa.py_buffer(indices)])


def validity_buffer(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Return which values of a column are not null as Arrow keeps it: one bit each, None when all are."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def take_indices(column: pa.Array, indices: pa.Array) -> pa.Array:
    """Return the values in the rows of `row_indices`, which must exist."""
    return pc.call_function("take", [column, indices], _UNCHECKED)


def take(column: pa.Array, rows: Rows) -> pa.Array:
    """Return the values in these rows, which must exist."""
    return take_indices(column, row_indices(rows))


def take_all(columns: Sequence[pa.Array], rows: Rows) -> list[pa.Array]:
    """Return the values of all columns in these rows, which must exist."""
    indices = row_indices(rows)
    return [take_indices(column, indices) for column in columns]
