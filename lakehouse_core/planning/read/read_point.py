"""Read points: the state or the changes of a table that a read gets.

Source: docs/semantics/reading.md#scan-modes, docs/semantics/reading.md#increments.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias, cast, get_args

from lakehouse_core.calls import checks_arguments
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.stored import check_text, is_int64
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, CommitKind
from lakehouse_core.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest snapshot, with the newest schema."""


# The default of functions that read the newest state.
LATEST: Final = Latest()


@checks_arguments
@dataclass(frozen=True, slots=True)
class AtSnapshot:
    """The snapshot of this id, with its schema."""

    id: int

    def __post_init__(self) -> None:
        if not is_int64(self.id):
            raise InvalidRequest(f"AtSnapshot({shown(self.id)}): expected a snapshot id, a whole number from 1.")


@checks_arguments
@dataclass(frozen=True, slots=True)
class AtTag:
    """The snapshot that the tag names, also after the snapshot expired."""

    name: str

    def __post_init__(self) -> None:
        check_text("AtTag: the name", self.name)


@checks_arguments
@dataclass(frozen=True, slots=True)
class AtVersion:
    """The version of SQL's VERSION AS OF: a tag of this name, else `watermark-<n>`, else a snapshot id in digits."""

    version: str

    def __post_init__(self) -> None:
        if not isinstance(self.version, str):
            raise InvalidRequest(
                f"AtVersion({shown(self.version)}): expected the name of a tag, or '12' or 'watermark-12'."
            )
        check_text("AtVersion: the name", self.version)


@checks_arguments
@dataclass(frozen=True, slots=True, init=False)
class AsOf:
    """The newest snapshot committed at this time or before.

    The time is a datetime, or its text in ISO 8601 ("2013-01-31T12:00:00Z"); a date is its first moment. A time without
    a zone is UTC.
    """

    time: datetime

    def __init__(self, time: datetime | date | str) -> None:
        object.__setattr__(self, "time", _time_of(time, "AsOf"))

    @property
    def time_millis(self) -> int:
        """Return the time in milliseconds since 1970, in UTC."""
        return millis_of(self.time)


@checks_arguments
@dataclass(frozen=True, slots=True)
class AtWatermark:
    """The first snapshot whose watermark is this one or later; a snapshot without a watermark has that of the one
    before.
    """

    watermark: int

    def __post_init__(self) -> None:
        if not is_int64(self.watermark):
            raise InvalidRequest(f"AtWatermark({shown(self.watermark)}): expected a whole number of 64 bits.")


@dataclass(frozen=True, slots=True)
class CompactedFull:
    """The newest snapshot of a compaction; of a full compaction if the table's options schedule full ones. Without such
    a snapshot, the newest one.
    """


@dataclass(frozen=True, slots=True)
class LatestDelta:
    """The rows that the newest snapshot appended; none if it is not an APPEND."""


@dataclass(frozen=True, slots=True, init=False)
class FromFileCreationTime:
    """The newest snapshot, restricted to files created at this time or later; the time is given as for `AsOf`."""

    time: datetime

    def __init__(self, time: datetime | date | str) -> None:
        object.__setattr__(self, "time", _time_of(time, "FromFileCreationTime"))

    @property
    def time_millis(self) -> int:
        return millis_of(self.time)


@dataclass(frozen=True, slots=True, init=False)
class FromCreationTime:
    """The first snapshot committed at this time or later; if the time is outside the range of the existing snapshots,
    the newest snapshot, restricted to files created at this time or later. The time is given as for `AsOf`.
    """

    time: datetime

    def __init__(self, time: datetime | date | str) -> None:
        object.__setattr__(self, "time", _time_of(time, "FromCreationTime"))

    @property
    def time_millis(self) -> int:
        return millis_of(self.time)


class IncrementalMode(StrEnum):
    """The source of an incremental read. AUTO: changelogs if the table has a changelog producer, else deltas."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The changes between two tags, as a diff of their states, or those of the snapshots (start, end], by `mode`.

    `tags_as_ids`: two tags also mean the range of their snapshots.
    """

    start: str
    end: str
    mode: IncrementalMode = IncrementalMode.AUTO
    tags_as_ids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenTimes:
    """The changes after `start` until `end`, both in milliseconds since 1970."""

    start_millis: int
    end_millis: int
    mode: IncrementalMode = IncrementalMode.AUTO


@dataclass(frozen=True, slots=True)
class ToAutoTag:
    """The difference between an automatic tag and the previous one."""

    name: str


StatePoint: TypeAlias = (
    Latest
    | AtSnapshot
    | AtTag
    | AtVersion
    | AsOf
    | AtWatermark
    | CompactedFull
    | FromFileCreationTime
    | FromCreationTime
)
IncrementPoint: TypeAlias = LatestDelta | Between | BetweenTimes | ToAutoTag
ReadPoint: TypeAlias = StatePoint | IncrementPoint
"""What `Table.scan(at=…)` takes: the state, or the changes, that a read has."""


def checked_point(at: object) -> ReadPoint:
    """Return `at`, a read point. Raises InvalidRequest, with advice, for other values: a number or a text would be
    ambiguous.
    """
    if isinstance(at, get_args(ReadPoint)):
        return cast(ReadPoint, at)
    raise InvalidRequest(f"at={shown(at)}: {_advice(at)}.")


def _advice(at: object) -> str:
    match at:
        case bool() | float():
            pass
        case int():
            return f"for the snapshot of this id write at=lc.AtSnapshot({shown(at)})"
        case datetime():
            return f"for the newest snapshot at this time write at=lc.AsOf({shown(at.isoformat())})"
        case date():
            return f"for the newest snapshot when this day began write at=lc.AsOf({shown(at.isoformat())})"
        case str() if at.isascii() and at.isdigit() and len(at) < 10:
            return f"for the snapshot of this id write at=lc.AtSnapshot({at})"
        case str() if at.casefold() == "latest":
            return "for the newest snapshot write at=lc.Latest()"
        case str() if _is_time(at):
            return f"for the newest snapshot at this time write at=lc.AsOf({shown(at)})"
        case str():
            return f"for the snapshot of a tag write at=lc.AtTag({shown(at)})"
        case Snapshot():
            return f"for this snapshot write at=lc.AtSnapshot({at.id})"
        case type() if at in get_args(ReadPoint):
            return f"{at.__name__} is a class: write at=lc.{at.__name__}({'' if at in _WITHOUT_VALUE else '…'})"
    return "expected a point such as lc.Latest(), lc.AtSnapshot(12), lc.AtTag('eod') or lc.AsOf('2013-01-31T12:00:00Z')"


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except InvalidRequest:
        return False
    return True


_WITHOUT_VALUE: Final = (Latest, CompactedFull, LatestDelta)


def is_pinned(point: ReadPoint) -> bool:
    """Return whether rows are read in the schema of the snapshot; otherwise in the newest schema."""
    return isinstance(point, AtSnapshot | AtTag | AtVersion | AsOf | AtWatermark)


def what_increments(point: IncrementPoint) -> str:
    """Return the name of the read point or scan option by which a user requests these changes."""
    match point:
        case LatestDelta():
            return "LatestDelta()"
        case Between():
            return "incremental-between"
        case BetweenTimes():
            return "incremental-between-timestamp"
        case ToAutoTag():
            return "incremental-to-auto-tag"


def is_compacted(snapshot: Snapshot, delta_commits: int | None) -> bool:
    """Return whether `CompactedFull` may take the snapshot.

    `delta_commits`: the number of commits between full compactions, None if none are scheduled.
    """
    if snapshot.commit_kind is not CommitKind.COMPACT:
        return False
    identifier = snapshot.commit_identifier
    return delta_commits is None or identifier % delta_commits == 0 or identifier == BATCH_IDENTIFIER


def shown_time(time_millis: int) -> str:
    """Return milliseconds since 1970 as text in UTC, which `AsOf` accepts."""
    return (_EPOCH + timedelta(milliseconds=time_millis)).isoformat(timespec="milliseconds")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time_of(time: object, name: str) -> datetime:
    match time:
        # pandas.NaT is a datetime without a time and a year.
        case datetime() if isinstance(time.year, int):
            return time
        case date() if not isinstance(time, datetime):
            return datetime(time.year, time.month, time.day, tzinfo=UTC)
        case str() if _is_time(time):
            return parse_time(time)
    raise InvalidRequest(
        f"{name}({shown(time)}): expected a datetime, a date, or text in ISO 8601, as in "
        f"{name}('2013-01-31T12:00:00Z')."
    )


def parse_time(text: str) -> datetime:
    """Return the time of a text in ISO 8601 or in milliseconds since 1970; UTC without a zone. Raises
    InvalidRequest.
    """
    if _MILLIS.fullmatch(text):
        try:
            return _EPOCH + timedelta(milliseconds=int(text))
        except OverflowError as error:
            raise InvalidRequest(
                f"Time {shown(text)}: it lies beyond year 9999. Give milliseconds since 1970."
            ) from error
    try:
        return _zoned(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidRequest(f"Time {shown(text)}: expected ISO 8601, as in 2013-01-31T23:59:59Z.") from error


def millis_of(time: datetime) -> int:
    """Return the time in milliseconds since 1970; without a zone it is UTC."""
    return (_zoned(time) - _EPOCH) // timedelta(milliseconds=1)


def _zoned(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


_MILLIS: Final = re.compile(r"\d{10,16}")
