"""Which state of a table is read. Source: Paimon semantics, "Startup / scan modes", batch."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from lakehouse_core.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest snapshot, with the newest schema."""


@dataclass(frozen=True, slots=True)
class AtSnapshot:
    """The snapshot of this id, with its schema."""

    id: int

    def __post_init__(self) -> None:
        if isinstance(self.id, bool) or not isinstance(self.id, int):
            raise InvalidRequest(f"AtSnapshot({self.id!r}): expected a snapshot id, a whole number from 1.")


@dataclass(frozen=True, slots=True)
class AtTag:
    """The snapshot that the tag names, also after the snapshot expired."""

    name: str


@dataclass(frozen=True, slots=True)
class AsOf:
    """The newest snapshot committed at this time or before; a datetime without a zone is UTC."""

    time: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.time, datetime):
            raise InvalidRequest(f"AsOf({self.time!r}): expected a datetime.")

    @property
    def time_millis(self) -> int:
        """The time in milliseconds since 1970, in UTC."""
        zoned = self.time if self.time.tzinfo is not None else self.time.replace(tzinfo=UTC)
        return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


ReadPoint: TypeAlias = Latest | AtSnapshot | AtTag | AsOf


def shown_time(time_millis: int) -> str:
    """Return milliseconds since 1970 as a time in UTC that `AsOf` and people understand."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_millis)).isoformat(timespec="milliseconds")


def newest_until(low: int, high: int, time_millis: int, *, time_of: Callable[[int], int]) -> int | None:
    """Return the highest id of low … high whose time is not after `time_millis`, None when the lowest one's is.

    Times never go down along the ids (invariant I8), so `time_of` is asked for a few of them only.
    """
    if time_of(low) > time_millis:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if time_of(middle) <= time_millis:
            low = middle
        else:
            high = middle - 1
    return low
