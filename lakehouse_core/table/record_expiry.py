"""Record expiry: a compaction drops expired records when it reads them, before any merge. Until then reads return them.

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

# A BIGINT of this value or more is in milliseconds, a smaller one in seconds.
_LEAST_MILLIS: Final = 1_000_000_000_000
_PER_MILLI: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiry:
    """Rows with a `field` before `deadline_seconds`, in seconds since 1970, have expired; rows with null never
    expire.
    """

    field: DataField
    deadline_seconds: int


def record_expiry(schema: TableSchema, *, now_millis: int) -> RecordExpiry | None:
    """Return which rows of a table have expired at `now_millis`, None if its rows never expire. Raises
    InvalidRequest.
    """
    options = schema.table_options.record_expiry
    if options is None or schema.is_append:
        return None
    return RecordExpiry(field=time_field(schema), deadline_seconds=now_millis // 1000 - options.age_seconds)


def is_expired(value: Any, expiry: RecordExpiry) -> bool:
    """Return whether a comparable value of the time column has expired."""
    match value:
        case None:
            return False
        case (millis, _):
            seconds = _whole_seconds(millis)
        case _:
            seconds = _whole_seconds(value) if _is_millis(value, expiry.field) else value
    return bool(seconds < expiry.deadline_seconds)


def expired_rows(batch: pa.RecordBatch, expiry: RecordExpiry) -> Mask:
    """Return a mask of the expired rows."""
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
    """Return whether one value, or each of many, is in milliseconds."""
    assert isinstance(field.type, AtomicType)
    return (value >= _LEAST_MILLIS) & (field.type.root is TypeRoot.BIGINT)


def _whole_seconds(millis: int) -> int:
    """Return whole seconds, rounded towards zero as in Java."""
    return abs(millis) // 1000 * (1 if millis >= 0 else -1)


def _truncated(millis: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    seconds: npt.NDArray[np.int64] = np.sign(millis) * (np.abs(millis) // 1000)
    return seconds
