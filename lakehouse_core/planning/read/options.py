"""Read options: find the read point in the merged options of a table and of one read.

Source: docs/semantics/reading.md#scan-modes.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options import ScanMode, incremental_mode, scan_start, tags_as_ids
from lakehouse_core.options.units import parse_int
from lakehouse_core.planning.read.read_point import (
    AsOf,
    AtSnapshot,
    AtTag,
    AtVersion,
    AtWatermark,
    Between,
    BetweenTimes,
    CompactedFull,
    FromCreationTime,
    FromFileCreationTime,
    IncrementalMode,
    Latest,
    LatestDelta,
    ReadPoint,
    ToAutoTag,
    millis_of,
)


def point_of(options: Mapping[str, str]) -> ReadPoint:
    """Return the read point that the options name; they are those of the table and of one read, merged.

    Times without a zone are UTC. Raises InvalidRequest if the options contradict each other or a value cannot be
    parsed.
    """
    start = scan_start(options)
    match start.mode, start.key:
        case ScanMode.COMPACTED_FULL, _:
            return CompactedFull()
        case ScanMode.LATEST_DELTA, _:
            return LatestDelta()
        case ScanMode.INCREMENTAL, str(key):
            return _increment(key, start.text, options)
        case _, str(key):
            return _POINTS[key](start.text)
    return Latest()


def _increment(key: str, text: str, options: Mapping[str, str]) -> ReadPoint:
    mode = IncrementalMode(incremental_mode(options))
    if key == "incremental-to-auto-tag":
        return ToAutoTag(text)
    if key == "incremental-between":
        low, high = _pair(text, key)
        return Between(start=low, end=high, mode=mode, tags_as_ids=tags_as_ids(options))
    earlier, later = _times(text)
    if later < earlier:
        raise InvalidRequest(f"Option {key} is {shown(text)}: it ends before it begins. Swap the two.")
    return BetweenTimes(start_millis=earlier, end_millis=later, mode=mode)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
_WHOLE: Final = re.compile(r"[+-]?\d+")


def _moment(text: str, key: str) -> datetime:
    """Return the time of a text in milliseconds since 1970, limited to the first and the last datetime."""
    millis = parse_int(key, text)
    if millis <= millis_of(_FIRST):
        return _FIRST
    return _LAST if millis >= millis_of(_LAST) else _EPOCH + timedelta(milliseconds=millis)


def _time(text: str, key: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidRequest(f"Option {key} is {shown(text)}: expected a time such as 2013-01-31 23:59:59.") from error


def _times(text: str) -> tuple[int, int]:
    low, high = _pair(text, "incremental-between-timestamp")
    if _WHOLE.fullmatch(low) and _WHOLE.fullmatch(high):
        return int(low), int(high)
    key = "incremental-between-timestamp"
    return millis_of(_time(low, key)), millis_of(_time(high, key))


def _pair(text: str, key: str) -> tuple[str, str]:
    low, comma, high = text.partition(",")
    if not comma or not low or not high or "," in high:
        raise InvalidRequest(
            f"Option {key} is {shown(text)}: expected start and end with a comma between them, as in 5,10."
        )
    return low, high


_POINTS: Final[Mapping[str, Callable[[str], ReadPoint]]] = {
    "scan.snapshot-id": lambda text: AtSnapshot(parse_int("scan.snapshot-id", text)),
    "scan.tag-name": AtTag,
    "scan.version": AtVersion,
    "scan.watermark": lambda text: AtWatermark(parse_int("scan.watermark", text)),
    "scan.timestamp": lambda text: AsOf(_time(text, "scan.timestamp")),
    "scan.timestamp-millis": lambda text: AsOf(_moment(text, "scan.timestamp-millis")),
    "scan.file-creation-time-millis": lambda text: FromFileCreationTime(
        _moment(text, "scan.file-creation-time-millis")
    ),
    "scan.creation-time-millis": lambda text: FromCreationTime(_moment(text, "scan.creation-time-millis")),
}
