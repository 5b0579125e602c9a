"""Part facts: what manifest entries say about the parts of a batch, each of which becomes a file, for all at once.

Rule: the facts are those that `RowFacts` and `BoundsCollector` find file by file; what one of many small files takes is
the calls made for it. Source: docs/format/manifest.md#manifest-record, docs/format/statistics.md#column-statistics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.data_files.bounds import ordered_type, stats_modes
from lakehouse_core.format.binary_row import serialize_rows
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    STRING_ROOTS,
    AtomicType,
    DataField,
    TypeRoot,
    arrow_type,
)
from lakehouse_core.format.rows import Rows
from lakehouse_core.options import FileStyle
from lakehouse_core.table.data_file import SimpleStats
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.stats import KEY_MODE, ColumnBounds, encode_stats, longest_bound, reduce_bounds

_PART: Final = "part"
_UNORDERED: Final = AtomicType(TypeRoot.INT)
_ONLY_NULLS: Final = pc.CountOptions(mode="only_null")

Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """Facts of the parts of one batch of records, in the order of the parts."""

    row_counts: list[int]
    delete_row_counts: list[int]
    min_keys: list[bytes]
    max_keys: list[bytes]
    min_sequence_numbers: list[int]
    max_sequence_numbers: list[int]
    key_stats: list[SimpleStats]
    value_stats: list[SimpleStats]
    value_stats_cols: tuple[str, ...] | None


def part_facts(records: pa.RecordBatch, ends: Rows, schema: TableSchema, style: FileStyle) -> PartFacts:
    """Return the facts of the parts of a batch of records of a key table. `ends`: where each part ends; no part is
    empty, and each is in key order.
    """
    starts = np.concatenate([[0], ends[:-1]])
    row_counts = ends - starts
    bounds = _bounds(records, np.repeat(np.arange(len(ends)), row_counts), starts, schema.fields)
    numbers = _numbers(records, SEQUENCE_NUMBER)
    kinds = _numbers(records, VALUE_KIND)
    keys = [records.column(field.name) for field in schema.key_fields]
    key_types = [field.type for field in schema.key_fields]
    modes = stats_modes(schema, style)
    named = [(field, mode) for field, mode in zip(schema.fields, modes, strict=True)]
    is_dense = schema.table_options.stats_dense
    kept = [(field, mode) for field, mode in named if not is_dense or (mode != "none" and field.name in bounds)]
    return PartFacts(
        row_counts=row_counts.tolist(),
        delete_row_counts=np.add.reduceat((kinds & 1).astype(np.int64), starts).tolist(),
        min_keys=serialize_rows([column.take(pa.array(starts)) for column in keys], key_types).to_pylist(),
        max_keys=serialize_rows([column.take(pa.array(ends - 1)) for column in keys], key_types).to_pylist(),
        min_sequence_numbers=np.minimum.reduceat(numbers, starts).tolist(),
        max_sequence_numbers=np.maximum.reduceat(numbers, starts).tolist(),
        key_stats=_stats(bounds, [(field, KEY_MODE) for field in schema.key_fields], len(ends)),
        value_stats=_stats(bounds, kept, len(ends)),
        value_stats_cols=None if len(kept) == len(named) else tuple(field.name for field, _ in kept),
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The smallest and the greatest value of one column in each part, null where unknown, and the null counts."""

    low: pa.Array
    high: pa.Array
    null_counts: Counts


def _bounds(
    records: pa.RecordBatch, part_of: Counts, starts: Counts, fields: Sequence[DataField]
) -> Mapping[str, _Bounds]:
    """Return the bounds of every ordered column, by name."""
    types = {field.name: kind for field in fields if (kind := ordered_type(field)) is not None}
    columns = {name: records.column(name) for name in types}
    # Columns get numbers for names: one of the table may have the name of the parts.
    numbered = [str(number) for number in range(len(types))]
    table = pa.Table.from_arrays([*columns.values(), pa.array(part_of)], [*numbered, _PART])
    with_nulls = [number for number, column in zip(numbered, columns.values(), strict=True) if column.null_count]
    found = pa.TableGroupBy(table, _PART, use_threads=False).aggregate(
        [
            *((number, "min_max") for number in numbered),
            *((number, "count", _ONLY_NULLS) for number in with_nulls),
        ]
    )
    bounds = {}
    for number, (name, kind) in zip(numbered, types.items(), strict=True):
        both = found.column(f"{number}_min_max").combine_chunks()
        nulls = found.column(f"{number}_count").to_numpy() if number in with_nulls else np.zeros(len(starts), np.int64)
        told = _Bounds(both.field("min"), both.field("max"), nulls)
        if kind.root in BINARY_ROOTS:
            nothing = pa.nulls(len(starts), columns[name].type)
            told = _Bounds(nothing, nothing, nulls)
        elif kind.root in FLOAT_ROOTS:
            told = _of_floats(told, columns[name], starts)
        bounds[name] = told
    return bounds


def _of_floats(bounds: _Bounds, column: pa.Array, starts: Counts) -> _Bounds:
    """Return no bounds where a value is NaN, which engines order differently, and each zero with the sign that leaves
    out neither of the two.
    """
    is_nan = pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False)
    unknown = np.logical_or.reduceat(is_nan, starts) | bounds.low.is_null().to_numpy(zero_copy_only=False)

    def signed(values: pa.Array, zero: float) -> pa.Array:
        numbers = values.fill_null(0).to_numpy()
        return pa.array(np.where(numbers == 0, numbers.dtype.type(zero), numbers), values.type, mask=unknown)

    return _Bounds(signed(bounds.low, -0.0), signed(bounds.high, 0.0), bounds.null_counts)


def _stats(bounds: Mapping[str, _Bounds], columns: Sequence[tuple[DataField, str]], count: int) -> list[SimpleStats]:
    """Return the statistics of each part for these columns, each reduced by its mode."""
    if not columns:
        return [encode_stats((), ())] * count
    # A null takes the same place in each type without an order; rows of atomic types are encoded all at once.
    types = [ordered_type(field) or _UNORDERED for field, _ in columns]
    reduced = [
        _reduced(bounds.get(field.name), kind, mode, count) for (field, mode), kind in zip(columns, types, strict=True)
    ]
    return [
        SimpleStats(min_values=low, max_values=high, null_counts=nulls)
        for low, high, nulls in zip(
            serialize_rows([low for low, _, _ in reduced], types).to_pylist(),
            serialize_rows([high for _, high, _ in reduced], types).to_pylist(),
            zip(*(nulls for _, _, nulls in reduced), strict=True),
            strict=True,
        )
    ]


def _reduced(
    bounds: _Bounds | None, kind: AtomicType, mode: str, count: int
) -> tuple[pa.Array, pa.Array, Sequence[int | None]]:
    """Return the smallest values, the greatest ones and the null counts that a mode keeps."""
    nothing = pa.nulls(count, arrow_type(kind))
    if bounds is None or mode == "none":
        return nothing, nothing, [None] * count
    nulls = bounds.null_counts.tolist()
    length = longest_bound(mode)
    if length is None:
        return nothing, nothing, nulls
    low, high = bounds.low, bounds.high
    if kind.root in STRING_ROOTS and _longest(low, high) > length:
        pairs = zip(low.to_pylist(), high.to_pylist(), strict=True)
        cut = [reduce_bounds(ColumnBounds(*pair, None), mode) for pair in pairs]
        low = pa.array([each.minimum for each in cut], low.type)
        high = pa.array([each.maximum for each in cut], high.type)
    return low, high, nulls


def _longest(*columns: pa.Array) -> int:
    """Return the bytes of the longest text, which are at least its characters."""
    return max(pc.max(pc.binary_length(column)).as_py() or 0 for column in columns)


def _numbers(records: pa.RecordBatch, name: str) -> npt.NDArray[np.signedinteger]:
    numbers: npt.NDArray[np.signedinteger] = records.column(name).to_numpy()
    return numbers
