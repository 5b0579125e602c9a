"""Column statistics of files: collected while writing, stored as rows of minima and maxima, read to skip files.

Bounds may be wider than the values, never narrower.
Source: docs/format/statistics.md#column-statistics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import deserialize_row, serialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import EMPTY_STATS, SimpleStats

# The statistics mode of keys, independent of the table's mode.
KEY_MODE: Final = "truncate(128)"
_MAX_CODE_POINT: Final = 0x10FFFF
_LONGEST_BOUND: Final = 65_536
_SURROGATES: Final = (0xD800, 0xDFFF)

DecodedStats: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...], tuple[int | None, ...]]


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Minimum and maximum as comparable values, both included; None if all rows are null or the bound is unknown."""

    minimum: Any
    maximum: Any
    null_count: int | None


NOTHING_KNOWN: Final = ColumnBounds(None, None, None)

# The value for statistics that are in a manifest but were not decoded. Compare with `is`.
UNREAD_STATS = SimpleStats(min_values=b"", max_values=b"", null_counts=None)


def unknown_stats(arity: int) -> SimpleStats:
    """Return statistics of `arity` columns with unknown bounds."""
    null_bits = bytearray((arity + 63 + 8) // 64 * 8)
    for index in range(8, 8 + arity):
        null_bits[index // 8] |= 1 << index % 8
    row = arity.to_bytes(4, "big") + bytes(null_bits) + bytes(8 * arity)
    return SimpleStats(min_values=row, max_values=row, null_counts=(None,) * arity)


def decode_stats(stats: SimpleStats, types: Sequence[DataType]) -> DecodedStats:
    """Return minima, maxima and null counts, one each for every column of `types`; None: unknown.

    Empty statistics mean that every column is unknown. Raises CorruptTable.
    """
    nothing = (None,) * len(types)
    if stats is UNREAD_STATS or stats == EMPTY_STATS:
        return nothing, nothing, nothing
    minima = deserialize_row(stats.min_values, types)
    maxima = deserialize_row(stats.max_values, types)
    if not stats.null_counts:
        return minima, maxima, nothing
    if len(stats.null_counts) != len(types):
        raise CorruptTable(
            f"column statistics have {len(stats.null_counts)} null counts for {len(types)} columns: "
            "the manifest contradicts the schema; keep it and run `lakehouse verify`."
        )
    return minima, maxima, stats.null_counts


def encode_stats(bounds: Sequence[ColumnBounds], types: Sequence[DataType]) -> SimpleStats:
    """Return statistics of all columns of `types`, in their order, as for keys and partitions."""
    return SimpleStats(
        min_values=serialize_row([one.minimum for one in bounds], types),
        max_values=serialize_row([one.maximum for one in bounds], types),
        null_counts=tuple(one.null_count for one in bounds),
    )


def value_stats(
    names: Sequence[str], types: Sequence[DataType], bounds: Sequence[ColumnBounds], *, is_dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Return the statistics of a file's value columns and the names they cover (None: all of them).

    Dense statistics leave out unknown columns.
    """
    if not is_dense:
        return encode_stats(bounds, types), None
    known = [index for index, one in enumerate(bounds) if one != NOTHING_KNOWN]
    stats = encode_stats([bounds[index] for index in known], [types[index] for index in known])
    return stats, None if len(known) == len(names) else tuple(names[index] for index in known)


def reduce_bounds(bounds: ColumnBounds, mode: str) -> ColumnBounds:
    """Return the bounds that a statistics mode keeps: `none`, `counts`, `full` or `truncate(n)`.

    In every mode a bound has at most 65,536 characters or bytes, so that manifests stay readable.
    """
    if mode == "none":
        return NOTHING_KNOWN
    length = longest_bound(mode)
    return ColumnBounds(None, None, bounds.null_count) if length is None else _truncated(bounds, length)


def longest_bound(mode: str) -> int | None:
    """Return the characters or bytes of the longest bound that a statistics mode keeps, None: it keeps no bounds."""
    match mode:
        case "none" | "counts":
            return None
        case "full":
            return _LONGEST_BOUND
        case _:
            return min(int(mode.removeprefix("truncate(").removesuffix(")")), _LONGEST_BOUND)


def _truncated(bounds: ColumnBounds, length: int) -> ColumnBounds:
    if isinstance(bounds.maximum, str):
        maximum: str | bytes | None = _cut_text(bounds.maximum, length)
    elif isinstance(bounds.maximum, bytes):
        maximum = _cut_bytes(bounds.maximum, length)
    else:
        return bounds
    if maximum is None:
        return ColumnBounds(None, None, bounds.null_count)
    return ColumnBounds(bounds.minimum[:length], maximum, bounds.null_count)


def _cut_text(maximum: str, length: int) -> str | None:
    """Return a text of at most `length` characters that is not below `maximum`, None if there is none."""
    if len(maximum) <= length:
        return maximum
    for end in range(length, 0, -1):
        code = ord(maximum[end - 1]) + 1
        if code <= _MAX_CODE_POINT:
            # Java's increment gives a surrogate here, which Java writes as "?", a wrong bound.
            return maximum[: end - 1] + chr(_SURROGATES[1] + 1 if code == _SURROGATES[0] else code)
    return None


def _cut_bytes(maximum: bytes, length: int) -> bytes | None:
    if len(maximum) <= length:
        return maximum
    for end in range(length, 0, -1):
        if maximum[end - 1] < 0xFF:
            return maximum[: end - 1] + bytes([maximum[end - 1] + 1])
    return None
