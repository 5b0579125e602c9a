"""A store that answers 503 for a minute, and recovers. Time runs faster, so that a test need not wait that long.

The client repeats requests as it does for users; its waits are shorter by the same factor.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import StoreSpec, with_storage
from lakehouse_core.storage.remote import clients
from lakehouse_core.storage.remote.s3 import s3_store
from tests.model.fault_verbs import check, check_nothing_left
from tests.model.s3_faults import held_by, served, trial_of
from tests.storage.s3_protocol import Answer
from tests.storage.s3_stub import Request, S3Stub

R = TypeVar("R")

UNAVAILABLE = Answer(503, code="ServiceUnavailable")
MINUTE_SECONDS = 60.0
# After these errors users do the same again.
RETRIABLE = (lc.StorageUnavailable, lc.CommitTimeout, lc.CommitOutcomeUnknown)


class FastClock(VirtualClock):
    """Deadlines and waits in a time that runs `speed` times as fast. What writers note as the time moves by waits
    alone.
    """

    def __init__(self, speed: float, *, seed: int = 0, now_millis: int = 1_700_000_000_000) -> None:
        super().__init__(seed=seed, now_millis=now_millis)
        self._speed = speed
        self._moving = threading.Lock()

    def monotonic_seconds(self) -> float:
        return time.monotonic() * self._speed

    def sleep(self, seconds: float) -> None:
        with self._moving:
            super().sleep(seconds)
        time.sleep(seconds / self._speed)


class Outage:
    """From the first request that `begins` accepts on, the stub answers 503 for a minute of the clock."""

    def __init__(self, stub: S3Stub, clock: FastClock, begins: Callable[[Request], bool]) -> None:
        self._stub, self._clock, self._begins = stub, clock, begins
        self._since: float | None = None
        self.refused: list[Request] = []
        stub.plan = self._plan

    @property
    def has_begun(self) -> bool:
        return self._since is not None

    @property
    def has_ended(self) -> bool:
        return self._since is not None and self._clock.monotonic_seconds() - self._since > MINUTE_SECONDS

    def wait_for_end(self) -> None:
        """Wait until the store answers again."""
        while not self.has_ended:
            self._clock.sleep(1)

    def _plan(self, request: Request) -> Answer | None:
        if self._since is None and self._begins(request):
            self._since = self._clock.monotonic_seconds()
        if not self.has_begun or self.has_ended:
            return None
        self.refused.append(request)
        return UNAVAILABLE


@contextmanager
def fast_stub(speed: float) -> Iterator[S3Stub]:
    """Serve a stub whose clients wait `speed` times as short before they repeat a request."""
    first_wait = clients.FIRST_WAIT_SECONDS
    clients.FIRST_WAIT_SECONDS = first_wait / speed
    try:
        with S3Stub() as stub:
            s3_store(with_storage(StoreSpec("s3", "lake/wh"), stub.storage))._check_writable()
            yield stub
    finally:
        clients.FIRST_WAIT_SECONDS = first_wait


def ride(
    stub: S3Stub, name: str, begins: Callable[[Request], bool], *, speed: float
) -> tuple[Outage, BaseException | None]:
    """Carry a verb out while the outage begins at one of its requests; return what was refused, and what it told.

    The table is as before or as after it, as it was told, and the verb ends well when it is repeated.
    """
    trial = trial_of(stub, name)
    clock = FastClock(speed, seed=2, now_millis=1_700_000_060_000)
    store = served(stub, trial.made)
    outage = Outage(stub, clock, begins)
    told: BaseException | None = None
    try:
        trial.verb.run(Catalog(store, clock=clock))
    except lc.LakehouseError as error:
        told = error
    held = held_by(stub, trial.made)
    try:
        assert outage.has_begun
        check(trial.verb, held, trial.before, trial.after, told)
        check_nothing_left(held)
    except (AssertionError, lc.LakehouseError) as error:
        error.add_note(f"{name}: answers 503 from {outage.refused[:1]} on; it told {told!r}")
        raise
    return outage, told


def until_done(clock: FastClock, act: Callable[[], R], told: list[lc.LakehouseError]) -> R:
    """As a pipeline does: act again while the errors say so. `told`: where they are kept."""
    while True:
        try:
            return act()
        except RETRIABLE as error:
            told.append(error)
            clock.sleep(2)
