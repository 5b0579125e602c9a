"""Difference: compare two states of a bucket, chunk by chunk, and yield the records that differ, in key order.

Rule: values are equal as stored: NaN equals NaN, -0.0 does not equal 0.0, and entries of a map have no order. Source:
docs/semantics/reading.md#difference-of-two-states.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.frontier import RunSlice, frontier_chunks
from lakehouse_core.merge.key_words import fixed_values, key_words
from lakehouse_core.merge.order import order_runs

_DELETE: Final = 3
_BEFORE: Final = 0


def differences(
    before: Iterable[pa.RecordBatch],
    after: Iterable[pa.RecordBatch],
    key_columns: Sequence[str],
    kind_column: str,
    *,
    names: Sequence[str],
    keeps_deletes: bool,
    chunk_rows: int,
    chunk_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `after` that `before` lacks or has with other values or as a delete, in non-empty batches.

    Both are in key order, each key once, with the columns `names`. With `keeps_deletes` also the deletes among them,
    and the records that only `before` has, as deletes.
    """
    positions = [list(names).index(name) for name in key_columns]
    for parts in frontier_chunks([before, after], positions, chunk_rows=chunk_rows, chunk_bytes=chunk_bytes):
        found = _chunk(parts, key_columns, kind_column, keeps_deletes=keeps_deletes)
        if found.num_rows:
            yield found


def _chunk(
    parts: Sequence[RunSlice], key_columns: Sequence[str], kind_column: str, *, keeps_deletes: bool
) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch for part in parts for batch in part.batches]).combine_chunks()
    (records,) = rows.to_batches()
    old_count = sum(part.row_count for part in parts if part.run == _BEFORE)
    order = order_runs(key_words([records.column(name) for name in key_columns]), records.num_rows)
    first, last = order.rows[order.starts], order.rows[order.ends]
    kinds = fixed_values(records.column(kind_column), np.int8)
    pairs = first != last
    told = np.where(pairs, True, last >= old_count)
    told[pairs] = ~_same(records, kind_column, kinds, first[pairs], last[pairs])
    gone = ~pairs & (last < old_count) & is_add(kinds[last])
    if not keeps_deletes:
        return records.take(pa.array(last[told & is_add(kinds[last])]))
    chosen = told | gone
    taken = records.take(pa.array(last[chosen]))
    new_kinds = np.where(gone, _DELETE, kinds[last])[chosen].astype(np.int8)
    position = records.schema.get_field_index(kind_column)
    return taken.set_column(position, records.schema.field(position), pa.array(new_kinds))


def _same(
    records: pa.RecordBatch,
    kind_column: str,
    kinds: npt.NDArray[np.int8],
    old: npt.NDArray[np.int64],
    new: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Return a mask of the pairs with equal values of which both records, or neither, are deletes."""
    same: npt.NDArray[np.bool_] = is_add(kinds[old]) == is_add(kinds[new])
    for name, column in zip(records.schema.names, records.columns, strict=True):
        if name != kind_column and len(old):
            same &= _equal(column.take(pa.array(old)), column.take(pa.array(new)))
    return same


def _equal(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    kind = left.type
    if pa.types.is_nested(kind):
        texts = ([repr(_unordered(value, kind)) for value in side.to_pylist()] for side in (left, right))
        return np.array([one == other for one, other in zip(*texts, strict=True)], bool)
    if pa.types.is_floating(kind):
        bits = pa.int32() if kind.bit_width == 32 else pa.int64()
        left, right = left.view(bits), right.view(bits)
    both = pc.fill_null(pc.equal(left, right), False)
    nulls = pc.and_(pc.is_null(left), pc.is_null(right))
    found: npt.NDArray[np.bool_] = pc.or_(both, nulls).to_numpy(zero_copy_only=False)
    return found


def _unordered(value: Any, kind: pa.DataType) -> Any:
    """Return a nested value in a form whose text is equal for equal values."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return sorted((repr(key), repr(_unordered(item, kind.item_type))) for key, item in value)
    if pa.types.is_struct(kind):
        return [_unordered(value[part.name], part.type) for part in kind]
    return [_unordered(item, kind.value_type) for item in value]
