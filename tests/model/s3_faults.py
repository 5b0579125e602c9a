"""One request of one verb fails on a strict S3 server, or all from then on: readers see before or after, never between.

A request is known by its method, its key and how many such requests came before: requests that run at once come in any
order. The client repeats none, so each failure reaches our own code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore, ObjectStore, StoreSpec, with_storage
from lakehouse_core.storage.remote import clients
from lakehouse_core.storage.remote.s3 import s3_store
from lakehouse_core.storage.remote.store import RemoteStore
from tests.model.fault_verbs import (
    ALL_VERBS,
    DROP_ENDS_SECONDS,
    UNKNOWN,
    Seen,
    Verb,
    catalog_of,
    check,
    check_nothing_left,
    left_over,
    make,
    seen,
    state_of,
)
from tests.model.held_store import HeldStore
from tests.storage.s3_protocol import Answer
from tests.storage.s3_stub import Fault, Request, S3Stub

FAULTS: Mapping[str, Fault | Answer] = {
    "before": Fault.BEFORE,
    "after": Fault.AFTER,
    "lost": Fault.LOST,
    "dropped": Fault.DROPPED,
    "throttled": Fault.THROTTLED,
    "refused": Answer(403, code="AccessDenied"),
}
# No store without folders renames tables.
VERBS = {name: verb for name, verb in ALL_VERBS.items() if name != "rename table"}
CASES = [(name, fault, stays) for name in VERBS for fault in FAULTS for stays in (False, True)]


def search(seed: int) -> None:
    """One verb and one fault, at each request; the seeds 0 to len(CASES) - 1 are all there is."""
    name, fault, stays = CASES[seed % len(CASES)]
    with stub_without_repeats() as stub:
        sweep(stub, name, fault, stays=stays)


@contextmanager
def stub_without_repeats() -> Iterator[S3Stub]:
    repeats = clients.READ_RETRIES
    clients.READ_RETRIES = 0
    try:
        with S3Stub() as stub:
            # Each process asks a store once whether it honours conditions.
            _store(stub)._check_writable()
            yield stub
    finally:
        clients.READ_RETRIES = repeats


def sweep(
    stub: S3Stub,
    name: str,
    fault: str,
    *,
    stays: bool = False,
    chosen: Callable[[Sequence[Request]], Sequence[Request]] = lambda requests: requests,
) -> int:
    """Let each chosen request of a verb fail in its turn, where it `stays` with all that come later; return how many
    there were.
    """
    trial = trial_of(stub, name)
    wanted = chosen(trial.requests)
    for request in wanted:
        store = served(stub, trial.made)
        stub.plan = _failing(request, FAULTS[fault], stays=stays)
        told: BaseException | None = None
        try:
            trial.verb.run(catalog_of(store, 2))
        except lc.LakehouseError as error:
            told = error
        held = held_by(stub, trial.made)
        may_leave = stays or trial.verb.resumes or _may_leave_files(request)
        state = (may_leave, state_of(held, told))
        if state in trial.checked:
            continue
        try:
            if not may_leave and not isinstance(told, UNKNOWN):
                assert left_over(held) == []
            check(trial.verb, held, trial.before, trial.after, told)
            check_nothing_left(held)
            trial.checked.add(state)
        except (AssertionError, lc.LakehouseError) as error:
            error.add_note(f"{name}: {fault}{', stays' if stays else ''} at {request}; it told {told!r}")
            raise
    return len(wanted)


@dataclass(frozen=True)
class Trial:
    """A verb, what was made before it, what users see before and after it, its requests by their keys, and the states
    that were found right.
    """

    verb: Verb
    made: MemoryStore
    before: Seen
    after: Seen
    requests: Sequence[Request]
    checked: set[object] = field(default_factory=set)


@cache
def trial_of(stub: S3Stub, name: str) -> Trial:
    verb = VERBS[name]
    made = MemoryStore(clock=VirtualClock())
    make(made, verb)
    before = seen(catalog_of(made, 1))
    verb.run(catalog_of(served(stub, made), 2))
    requests = sorted(set(stub.requests), key=lambda request: (request.key, request.verb, request.count))
    return Trial(verb, made, before, seen(catalog_of(held_by(stub, made), 3)), requests)


def _failing(wanted: Request, fault: Fault | Answer, *, stays: bool) -> Callable[[Request], Fault | Answer | None]:
    has_begun = False

    def plan(request: Request) -> Fault | Answer | None:
        nonlocal has_begun
        is_it = request == wanted
        has_begun = has_begun or is_it
        return fault if is_it or (stays and has_begun) else None

    return plan


def served(stub: S3Stub, made: MemoryStore) -> ObjectStore:
    """Return a store on the stub, which has the same objects at the same time, and nothing else."""
    stub.restart({f"wh/{info.key}": made.read(info.key) for info in made.list("")})
    stub.now_millis = made.now_millis
    return _store(stub)


def _store(stub: S3Stub) -> RemoteStore:
    return s3_store(with_storage(StoreSpec("s3", "lake/wh"), stub.storage), clock=VirtualClock())


def held_by(stub: S3Stub, made: MemoryStore) -> MemoryStore:
    """Return a store in memory, which is faster, with what the stub has now, at the time when no drop is held."""
    clock = VirtualClock(now_millis=made.now_millis())
    held = HeldStore(clock=clock)
    held.write({key.removeprefix("wh/"): stored.data for key, stored in stub.lake.objects.items()})
    clock.advance(DROP_ENDS_SECONDS)
    return held


def _may_leave_files(request: Request) -> bool:
    """Whether files may stay that no metadata names: they could not be deleted, or the caller alone knows of them."""
    return request.verb in {"delete", "delete all"} or "/lakehouse/pending/" in request.key
