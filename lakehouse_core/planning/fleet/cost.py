"""Cost: what an operation takes, in bytes to rewrite, requests to the store and seconds, and the budget that limits it.

Rule: seconds follow from bytes and requests by the rates; no other estimate of time is made.
Source: docs/decisions/0019-value-of-maintenance.md.
"""

from dataclasses import dataclass, fields
from math import isfinite
from typing import Final

from lakehouse_core.calls import checks_arguments
from lakehouse_core.display import count_text, size_text
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.stored import is_int64


def is_amount(value: object) -> bool:
    """Return whether a value is a number of 0 or more that a float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value) and value >= 0
    except OverflowError:
        return False


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How fast this package reads and rewrites: one core, Parquet with zstd 1, the warehouse on a local disk.

    `merged_bytes_per_second`: in addition to reading the bytes. `operation_seconds`: of an operation without any byte,
    mostly its commit. `kept_gigabyte_seconds`: the seconds of reading that a gigabyte kept for a day is worth, by the
    prices of public stores and machines; `kept_object_requests`: those that an object costs each day by being there.
    Raises InvalidRequest for a number that is not above 0.
    """

    read_bytes_per_second: float = 300e6
    merged_bytes_per_second: float = 400e6
    rewritten_bytes_per_second: float = 60e6
    request_seconds: float = 0.0002
    operation_seconds: float = 0.05
    kept_gigabyte_seconds: float = 60.0
    kept_object_requests: float = 1.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not is_amount(value) or value <= 0:
                raise InvalidRequest(f"Rates: {each.name}={shown(value)}: expected a number above 0.")


RATES: Final = Rates()
_GIGABYTE: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The bytes that operations rewrite, their requests to the store, and the seconds that both take."""

    bytes: int = 0
    requests: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            bytes=self.bytes + other.bytes,
            requests=self.requests + other.requests,
            seconds=self.seconds + other.seconds,
        )

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            bytes=self.bytes - other.bytes,
            requests=self.requests - other.requests,
            seconds=self.seconds - other.seconds,
        )

    def __str__(self) -> str:
        return f"{size_text(self.bytes)}, {count_text(self.requests, 'request')}, {self.seconds:.3g} s"


NOTHING: Final = Cost()


def operation_cost(*, rewritten_bytes: int = 0, read_bytes: int = 0, requests: int, rates: Rates = RATES) -> Cost:
    """Return the cost of one operation. `read_bytes`: those that it reads without rewriting them."""
    seconds = (
        rates.operation_seconds
        + requests * rates.request_seconds
        + rewritten_bytes / rates.rewritten_bytes_per_second
        + read_bytes / rates.read_bytes_per_second
    )
    return Cost(bytes=rewritten_bytes, requests=requests, seconds=seconds)


def kept_seconds(freed_bytes: int, freed_objects: int = 0, *, rates: Rates = RATES) -> float:
    """Return the seconds of reading a day that bytes and objects are worth which are not kept any more."""
    return (
        freed_bytes / _GIGABYTE * rates.kept_gigabyte_seconds
        + freed_objects * rates.kept_object_requests * rates.request_seconds
    )


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that maintenance may spend: bytes to rewrite, requests to the store, seconds; None: not limited.

    Raises InvalidRequest for a number below 0, and when nothing is limited.
    """

    bytes: int | None = None
    requests: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("bytes", "requests"):
            value = getattr(self, name)
            if value is not None and (not is_int64(value) or value < 0):
                raise InvalidRequest(f"Budget: {name}={shown(value)}: expected a whole number of 0 or more.")
        seconds = self.seconds
        if seconds is not None and not is_amount(seconds):
            raise InvalidRequest(f"Budget: seconds={shown(seconds)}: expected a number of 0 or more.")
        if self.bytes is None and self.requests is None and seconds is None:
            raise InvalidRequest("Budget: nothing is limited. Give bytes, requests or seconds.")

    def holds(self, cost: Cost) -> bool:
        """Return whether the budget is enough for `cost`."""
        return not self.exceeded_by(cost)

    def exceeded_by(self, cost: Cost) -> tuple[str, ...]:
        """Return which of bytes, requests and seconds `cost` exceeds."""
        # A sum of seconds has a rounding error.
        limits = (
            ("bytes", cost.bytes, self.bytes),
            ("requests", cost.requests, self.requests),
            ("seconds", cost.seconds - 1e-6, self.seconds),
        )
        return tuple(name for name, spent, limit in limits if limit is not None and spent > limit)

    def without(self, cost: Cost) -> "Budget":
        """Return what is left of the budget, 0 where `cost` exceeds it."""
        return Budget(
            bytes=None if self.bytes is None else max(self.bytes - cost.bytes, 0),
            requests=None if self.requests is None else max(self.requests - cost.requests, 0),
            seconds=None if self.seconds is None else max(self.seconds - cost.seconds, 0.0),
        )

    def share(self, cost: Cost) -> float:
        """Return the share of the budget that `cost` takes, of what it takes the most of; 0 for what is not limited."""
        limits = ((cost.bytes, self.bytes), (cost.requests, self.requests), (cost.seconds, self.seconds))
        return max((max(spent, 0) / limit for spent, limit in limits if limit), default=0.0)

    def __str__(self) -> str:
        parts = [
            "" if self.bytes is None else size_text(self.bytes),
            "" if self.requests is None else count_text(self.requests, "request"),
            "" if self.seconds is None else f"{self.seconds:g} s",
        ]
        return ", ".join(filter(None, parts))
