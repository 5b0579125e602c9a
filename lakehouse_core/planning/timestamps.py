"""Timestamps: the time at which a snapshot counts as committed: its writer's stamp, unless the storage's clock
contradicts it.

Rule: `timeMillis` never goes down along a history, so one stamp of a clock that is years ahead stays in all later ones.
Our writers make no such stamp; if another engine left one, the modification time of the snapshot's file counts.
"""

from dataclasses import dataclass
from typing import Protocol


class Stamped(Protocol):
    """A snapshot or a changelog with a time stamp."""

    @property
    def id(self) -> int: ...

    @property
    def time_millis(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Dated:
    """A snapshot or a changelog with its effective time."""

    id: int
    time_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The time of the next snapshot. `ahead_millis`: how far the writer's clock was ahead of the storage's, else 0."""

    time_millis: int
    ahead_millis: int = 0

    @property
    def note(self) -> str | None:
        """Return a note for the commit's report if the writer's clock was ahead."""
        if not self.ahead_millis:
            return None
        return (
            f"this machine's clock is {self.ahead_millis / 1000:.0f} s ahead of the storage's: the snapshot has the "
            "storage's time; set the clock right"
        )


def is_far(now_millis: int, previous_millis: int | None, *, max_skew_millis: int) -> bool:
    """Return whether now is so far from the last stamp that the storage's clock must be read, too."""
    return previous_millis is None or now_millis > previous_millis + max_skew_millis


def stamp(now_millis: int, storage_now_millis: int, *, max_skew_millis: int) -> Stamp:
    """Return the stamp of a writer whose clock says `now_millis`."""
    ahead = now_millis - storage_now_millis
    if ahead <= max_skew_millis:
        return Stamp(time_millis=now_millis)
    return Stamp(time_millis=storage_now_millis, ahead_millis=ahead)


def believed_now(now_millis: int, storage_now_millis: int, *, max_skew_millis: int) -> int:
    """Return the time to compare stamps with: this machine's, or the storage's if the two differ much."""
    return now_millis if abs(now_millis - storage_now_millis) <= max_skew_millis else storage_now_millis


def believed(stamped: Stamped, modified_millis: int | None, *, now_millis: int, max_skew_millis: int) -> Dated:
    """Return `stamped` with its own time or, if that is ahead of now, with that of its file.

    `modified_millis`: when the file was written, by the storage's clock, None if unknown. If both times are ahead of
    now, the time is now, because the age is unknown.
    """
    latest = now_millis + max_skew_millis
    times = (time for time in (stamped.time_millis, modified_millis) if time is not None and time <= latest)
    return Dated(stamped.id, next(times, now_millis))
