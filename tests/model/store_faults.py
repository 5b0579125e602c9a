"""The store fails at one call of one verb, or the process dies there: readers see before or after, never between."""

from collections.abc import Callable

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, MemoryStore, ProcessDied
from tests.model.fault_verbs import (
    ALL_VERBS,
    UNKNOWN,
    catalog_of,
    check,
    check_nothing_left,
    left_over,
    make,
    seen,
    state_of,
)

KINDS = (
    FaultKind.DIE_BEFORE,
    FaultKind.DIE_AFTER,
    FaultKind.FAIL_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.LOST_BEFORE,
    FaultKind.ENOSPC,
)
CASES = [(verb, kind) for verb in ALL_VERBS for kind in KINDS]


def search(seed: int) -> None:
    """One verb, one kind of fault, at each call; the seeds 0 to len(CASES) - 1 are all there is."""
    name, kind = CASES[seed % len(CASES)]
    sweep(name, kind)


def sweep(name: str, kind: FaultKind, *, is_wanted: Callable[[Call], bool] = lambda call: True) -> int:
    """Let each wanted call of a verb fail in its turn; return how many there were."""
    verb = ALL_VERBS[name]
    made = MemoryStore(clock=VirtualClock())
    make(made, verb)
    before = seen(catalog_of(made, 1))
    done = copied(made)
    whole = FaultyStore(done)
    verb.run(catalog_of(whole, 2))
    after = seen(catalog_of(done, 3))
    wanted = [call for call in whole.calls if is_wanted(call)]
    checked = set()
    for call in wanted:
        store = copied(made)
        told: BaseException | None = None
        try:
            verb.run(catalog_of(FaultyStore(store, [Fault(at=call.number, kind=kind)]), 2))
        except (lc.LakehouseError, ProcessDied) as error:
            told = error
        state = (_may_leave_files(call), state_of(store, told))
        if state in checked:
            continue
        checked.add(state)
        try:
            if not verb.resumes and not isinstance(told, UNKNOWN) and not _may_leave_files(call):
                assert left_over(store) == []
            check(verb, store, before, after, told)
            check_nothing_left(store)
        except (AssertionError, lc.LakehouseError) as error:
            error.add_note(f"{name}: {kind} at call {call.number}, {call.method} {call.key}; it told {told!r}")
            raise
    return len(wanted)


def _may_leave_files(call: Call) -> bool:
    """Whether files may stay that no metadata names: they could not be deleted, or the caller alone knows of them."""
    return call.method == "delete" or "/lakehouse/pending/" in call.key


def copied(store: MemoryStore) -> MemoryStore:
    """Return a store of its own with the same objects, at the same time."""
    copy = MemoryStore(clock=VirtualClock(now_millis=store.now_millis()))
    copy.write({info.key: store.read(info.key) for info in store.list("")})
    return copy
