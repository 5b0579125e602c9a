"""One call of one verb fails, or its process dies there, where a database decides: of the store, or a SQL statement.

Each is a call: statements, commits of transactions, requests of the store, in one order.
"""

from collections.abc import Callable, Sequence
from traceback import clear_frames

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import SqlAddress
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, Fault, FaultKind, ProcessDied
from tests.model.decided_lake import DecidedLake, Unconditional
from tests.model.fault_verbs import (
    ALL_VERBS,
    DROP_ENDS_SECONDS,
    UNKNOWN,
    catalog_of,
    check,
    check_nothing_left,
    left_over,
    make,
    seen,
)

# No store without folders renames tables.
VERBS = {name: verb for name, verb in ALL_VERBS.items() if name != "rename table"}
KINDS = (
    FaultKind.DIE_BEFORE,
    FaultKind.DIE_AFTER,
    FaultKind.FAIL_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.LOST_BEFORE,
)


def is_sql(call: Call) -> bool:
    return call.method in ("sql", "commit")


def sweep(
    address: SqlAddress, name: str, kind: FaultKind, *, chosen: Callable[[Sequence[Call]], Sequence[Call]]
) -> int:
    """Let each chosen call of a verb fail in its turn; return how many there were."""
    verb = VERBS[name]
    made = DecidedLake.new(address)
    make(made.store(), verb)
    before = seen(catalog_of(made.store(), 1))
    done = made.copied()
    whole = Unconditional(done.inner)
    verb.run(catalog_of(done.store(whole), 2))
    after = seen(catalog_of(done.store(), 3))
    wanted = chosen(whole.calls)
    for call in wanted:
        lake = made.copied()
        told: BaseException | None = None
        try:
            verb.run(catalog_of(lake.store(Unconditional(lake.inner, [Fault(at=call.number, kind=kind)])), 2))
        except (lc.LakehouseError, ProcessDied) as error:
            # The cursors of a process that died would keep the file of SQLite locked.
            clear_frames(error.__traceback__)
            told = error
        if name.startswith("drop"):
            # Whoever lists the mark of a drop writes its file if it has none, and only then its time begins.
            list(lake.store().list(""))
        # The mark of a drop that was killed is held no longer.
        lake.clock.advance(DROP_ENDS_SECONDS)
        try:
            if not (verb.resumes or isinstance(told, UNKNOWN) or _may_leave_files(whole.calls[call.number - 1 :])):
                assert left_over(lake.store()) == []
            check(verb, lake.store(), before, after, told)
            # Who has no database sees the same tables in the files.
            assert seen(Catalog(lake.inner, clock=VirtualClock())).tables == after.tables
            check_nothing_left(lake.store())
        except (AssertionError, lc.LakehouseError) as error:
            error.add_note(f"{name}: {kind} at call {call.number}, {call.method} {call.key}; it told {told!r}")
            raise
        lake.forget()
    return len(wanted)


def _may_leave_files(calls: Sequence[Call]) -> bool:
    """Return whether files may stay that no metadata names if the first of the calls fails.

    They could not be deleted, or the caller alone knows of them. A SQL statement belongs to the request after it.
    """
    request = next((call for call in calls if not is_sql(call)), calls[0])
    return request.method == "delete" or "/lakehouse/pending/" in request.key
