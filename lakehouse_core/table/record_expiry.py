"""Rows whose time is over: they go when a compaction reads them, before any merge, and reads still show them till then.

Java counts in whole seconds, and TIMESTAMP as if it were UTC.
Source: docs/semantics/compaction.md#record-expiry.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.format.data_types import AtomicType, DataField, TypeRoot
from lakehouse_core.table.schema import TableSchema, time_field

Mask: TypeAlias = npt.NDArray[np.bool_]

# A BIGINT of as much or more holds milliseconds, a smaller one seconds.
_LEAST_MILLIS: Final = 1_000_000_000_000
_PER_MILLI: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiry:
    """Rows whose `field` lies before `deadline_seconds`, in seconds since 1970, are over; null never is."""

    field: DataField
    deadline_seconds: int


def record_expiry(schema: TableSchema, *, now_millis: int) -> RecordExpiry | None:
    """Return which rows of a table are over now, None where it keeps them all. Raises InvalidRequest."""
    options = schema.table_options.record_expiry
    if options is None or schema.is_append:
        return None
    return RecordExpiry(field=time_field(schema), deadline_seconds=now_millis // 1000 - options.age_seconds)


def is_expired(value: Any, expiry: RecordExpiry) -> bool:
    """Say whether a comparable value of the time column is over."""
    match value:
        case None:
            return False
        case (millis, _):
            seconds = _whole_seconds(millis)
        case _:
            seconds = _whole_seconds(value) if _is_millis(value, expiry.field) else value
    return bool(seconds < expiry.deadline_seconds)


def expired_rows(batch: pa.RecordBatch, expiry: RecordExpiry) -> Mask:
    """Return for each row whether its time is over."""
    column = batch.column(expiry.field.name)
    if pa.types.is_timestamp(column.type):
        millis = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // _PER_MILLI[column.type.unit]
        seconds = _truncated(millis)
    else:
        values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        seconds = np.where(_is_millis(values, expiry.field), _truncated(values), values)
    over: Mask = (seconds < expiry.deadline_seconds) & column.is_valid().to_numpy(zero_copy_only=False)
    return over


def _is_millis(value: Any, field: DataField) -> Any:
    """Of one value or of many."""
    assert isinstance(field.type, AtomicType)
    return (value >= _LEAST_MILLIS) & (field.type.root is TypeRoot.BIGINT)


def _whole_seconds(millis: int) -> int:
    """Java's division: towards zero."""
    return abs(millis) // 1000 * (1 if millis >= 0 else -1)


def _truncated(millis: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    seconds: npt.NDArray[np.int64] = np.sign(millis) * (np.abs(millis) // 1000)
    return seconds
