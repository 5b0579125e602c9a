"""Verbs about whole branches, killed at each call or interrupted there by another verb: nothing that a root needs is
deleted, nothing acknowledged is lost, and what is left can be finished or removed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.branches.closing import open_branches
from lakehouse_core.execution.branches.create import create_branch
from lakehouse_core.execution.branches.delete import delete_branch
from lakehouse_core.execution.branches.rename import rename_branch
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.tags import delete_tag
from lakehouse_core.metadata.roots import branch_names
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, ProcessDied
from tests.contexts import context_of
from tests.execution.small_table import SmallTable
from tests.oracle.reachable import reachable
from tests.pairs import each_with_one

Action = Callable[[TableContext], object]
ENDS = (lc.SnapshotExpired, lc.NotFound, lc.CommitConflict, lc.InvalidRequest)
REFUSED = (*ENDS, lc.CommitOutcomeUnknown)


def table_with_branch() -> SmallTable:
    """Return a table whose branch "old" began at the tag "t" and has two snapshots of its own."""
    table = SmallTable()
    for number in range(3):
        table.write({1: f"v{number}", number: "x"})
    table.tag("t", at=2)
    create_branch(table.context, "old", lc.AtTag("t"))
    write_to(table.context.on_branch("old"), table, {7: "a"})
    write_to(table.context.on_branch("old"), table, {7: "b"})
    table.compact()
    return table


def write_to(context: TableContext, table: SmallTable, rows: dict[int, str | None]) -> None:
    """Write rows to the branch of `context`, in the store of `context`."""
    main, store = table.context, table.store
    table.context, table.store = context, context.store
    try:
        table.write(rows)
    finally:
        table.context, table.store = main, store


def expire_main(context: TableContext) -> None:
    expire(context, retain_max=1)


def expire_old(context: TableContext) -> None:
    expire(context.on_branch("old"), retain_max=1)


def create_from_tag(context: TableContext) -> None:
    create_branch(context, "new", lc.AtTag("t"))


def create_from_snapshot(context: TableContext) -> None:
    create_branch(context, "new", lc.AtSnapshot(1))


def delete_old(context: TableContext) -> None:
    delete_branch(context, "old")


def rename_old(context: TableContext) -> None:
    rename_branch(context, "old", "new")


def untag(context: TableContext) -> None:
    delete_tag(context, "t")


def states(table: SmallTable) -> dict[str, object]:
    """Return what a reader of each branch sees."""
    found: dict[str, object] = {}
    for name in (None, *open_branches(table.context)):
        latest = context_of(table.store, table.clock).on_branch(name).snapshots.latest()
        found[name or "main"] = None if latest is None else table.visible(latest)
    return found


def remove_halves(context: TableContext) -> None:
    for name in set(branch_names(context.store)) - set(open_branches(context)):
        # A late hint is no branch.
        with suppress(lc.NotFound):
            delete_branch(context, name)


def check_sound(table: SmallTable) -> None:
    """Finish what is half done, then compare the files that are there with those that a root needs."""
    context = context_of(table.store, table.clock)
    remove_halves(context)
    expire(context)
    needed = set()
    for name in (None, *open_branches(context)):
        needed |= reachable(context.on_branch(name), table.folders, delta_is_changelog=True)
    there = {key for key in table.objects() if key.split("/")[0] in ("manifest", "index") or "bucket-" in key}
    assert needed <= there
    assert there - needed == set()
    assert table.findings() == []
    assert not [key for key in table.objects() if key.startswith("lakehouse/plan-")]


def calls_of(action: Action, table: SmallTable) -> int:
    counting = FaultyStore(table.store)
    action(context_of(counting, table.clock))
    return len(counting.calls)


RACES = [
    (create_from_snapshot, expire_main),
    (expire_main, create_from_snapshot),
    (create_from_tag, untag),
    (untag, create_from_tag),
    (delete_old, expire_main),
    (expire_main, delete_old),
    (delete_old, expire_old),
    (expire_old, delete_old),
    (rename_old, expire_old),
    (expire_old, rename_old),
    (rename_old, expire_main),
    (expire_main, rename_old),
    (rename_old, delete_old),
    (delete_old, rename_old),
    (create_from_tag, rename_old),
    (untag, delete_old),
    (delete_old, untag),
]

# `make test` takes these, `make test-long` the others.
QUICK = [(rename_old, delete_old)]


@pytest.mark.parametrize(
    ("runs", "interrupts"),
    [
        pytest.param(
            *pair, id=f"{pair[0].__name__}, {pair[1].__name__}", marks=[pytest.mark.long] * (pair not in QUICK)
        )
        for pair in RACES
    ],
)
def test_two_verbs_at_once_leave_every_branch_whole(runs: Action, interrupts: Action, every: int) -> None:
    for number in range(1, calls_of(runs, table_with_branch()) + 1, every):
        table = table_with_branch()
        before = states(table)

        def attempt(action: Action, context: TableContext) -> None:
            with suppress(*ENDS):
                action(context)

        def interrupt(call: Call, number: int = number, table: SmallTable = table) -> None:
            if call.number == number:
                clock = VirtualClock(seed=1, now_millis=table.clock.now_millis())
                attempt(interrupts, context_of(table.store, clock))

        attempt(runs, context_of(FaultyStore(table.store, on_call=interrupt), table.clock))

        after = states(table)
        assert after["main"] == before["main"], number
        for name in ("old", "new"):
            expected = before["old"] if name == "old" or rename_old in (runs, interrupts) else None
            if name in after and expected is not None and create_from_tag not in (runs, interrupts):
                assert after[name] == expected, number
        check_sound(table)
        assert states(table)["main"] == before["main"], number


@pytest.mark.parametrize("verb", [delete_old, rename_old])
def test_a_commit_to_a_branch_that_goes_is_in_it_or_is_told_not_to_be(verb: Action, every: int) -> None:
    outcomes = set()
    whole = table_with_branch()
    for number in range(
        1, calls_of(lambda context: write_to(context.on_branch("old"), whole, {9: "c"}), whole) + 1, every
    ):
        table = table_with_branch()
        told: list[BaseException] = []

        def interrupt(call: Call, number: int = number, table: SmallTable = table) -> None:
            if call.number == number:
                verb(context_of(table.store, VirtualClock(seed=1, now_millis=table.clock.now_millis())))

        store = FaultyStore(table.store, on_call=interrupt)
        try:
            write_to(context_of(store, table.clock).on_branch("old"), table, {9: "c"})
        except REFUSED as error:
            told.append(error)

        if verb is rename_old and not any(isinstance(each, lc.CommitOutcomeUnknown) for each in told):
            has_row = ("d", 9) in states(table)["new"]
            assert has_row is not bool(told), number
        outcomes.add(bool(told))
        expire(context_of(table.store, table.clock))
        assert table.findings() == [], number
    assert True in outcomes


@pytest.mark.parametrize("new", ["a", "z"])
def test_an_expiry_finds_the_files_of_a_branch_that_is_renamed_while_it_reads_the_roots(new: str) -> None:
    table = table_with_branch()
    delete_tag(table.context, "t")
    expected = states(table)["old"]
    turn = Barrier(2, timeout=60)

    def pause() -> None:
        # Once to let the other verb go on, once to wait until it pauses or ends.
        turn.wait()
        turn.wait()

    def rename_in_three_parts(call: Call) -> None:
        is_claimed = call.method != "read" and call.key.startswith(f"branch/branch-{new}/") and not paused
        is_last = call.method == "delete" and call.key == "branch/branch-old/lakehouse/boundary"
        if (is_claimed and not call.key.endswith("boundary")) or is_last:
            paused.append(call)
            pause()

    def rename() -> None:
        rename_branch(context_of(FaultyStore(table.store, on_call=rename_in_three_parts), renames), "old", new)
        turn.wait()

    def between_two_branches(call: Call) -> None:
        folder = call.key.split("/")[1] if call.key.startswith("branch/branch-") and "snapshot" in call.key else None
        if folder is not None and folder not in read:
            read.append(folder)
            if len(read) == 2:
                turn.wait()
                turn.wait()

    paused: list[Call] = []
    read: list[str] = []
    renames = VirtualClock(seed=1, now_millis=table.clock.now_millis())
    with ThreadPoolExecutor(1) as threads:
        renaming = threads.submit(rename)
        turn.wait()
        expire(context_of(FaultyStore(table.store, on_call=between_two_branches), table.clock), retain_max=1)
        turn.wait()
        turn.wait()
        renaming.result()

    assert len(paused) == 2
    assert len(read) == 2
    assert states(table)[new] == expected
    check_sound(table)


KILLED = [create_from_tag, create_from_snapshot, delete_old, rename_old]
KILLS = (FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER, FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.LOST_BEFORE)


@pytest.mark.parametrize(("verb", "kind"), each_with_one(KILLED, KILLS, step=3))
def test_a_verb_that_ends_anywhere_leaves_what_can_be_finished(verb: Action, kind: FaultKind, every: int) -> None:
    whole = table_with_branch()
    count = calls_of(verb, whole)
    expected = states(whole)
    for number in range(1, count + 1, every):
        table = table_with_branch()
        before = states(table)
        told: BaseException | None = None
        try:
            verb(context_of(FaultyStore(table.store, [Fault(at=number, kind=kind)]), table.clock))
        except (lc.LakehouseError, ProcessDied) as error:
            told = error

        found = states(table)
        assert found["main"] == before["main"], number
        if told is None:
            assert found == expected, number
        assert set(found) <= {*before, *expected}, number
        for name, state in found.items():
            assert state == {**before, **expected}[name], number
        # An expiry may come first, and deletes nothing that the second call needs.
        expire(context_of(table.store, table.clock), retain_max=1)
        try:
            verb(context_of(table.store, table.clock))
        except (lc.InvalidRequest, lc.NotFound, lc.SnapshotExpired):
            context = context_of(table.store, table.clock)
            if verb is rename_old and "old" in branch_names(table.store) and "new" not in open_branches(context):
                # The name stays used.
                rename_branch(context, "old", "newer")
            remove_halves(context)
            if verb is create_from_tag and "new" not in open_branches(context):
                # The name stays used.
                create_branch(context, "newer", lc.AtTag("t"))
        if verb is not create_from_snapshot:
            found = {"new" if name == "newer" else name: state for name, state in states(table).items()}
            assert found == expected, number
        check_sound(table)


@pytest.mark.parametrize("as_java", [False, True], ids=["ours", "java's"])
def test_a_branch_of_a_tag_whose_changelog_has_expired_holds_nothing_up(as_java: bool) -> None:
    table = SmallTable(options={"changelog-producer": "input"})
    for number in range(4):
        table.write({1: f"v{number}", number: "x"})
    table.tag("t", at=2)
    table.expire(retain_max=1)
    expected = table.visible(table.context.tags.tag("t").snapshot)
    if as_java:
        table.store.write({"branch/branch-b/schema/schema-0": table.store.read("schema/schema-0")})
        for key in ("tag/tag-t", "snapshot/snapshot-2"):
            table.store.write({f"branch/branch-b/{key}": table.store.read("tag/tag-t")})
    else:
        create_branch(table.context, "b", lc.AtTag("t"))
    branch = table.context.on_branch("b")

    def latest_state() -> object:
        return states(table)["b"]

    assert latest_state() == expected
    assert table.findings() == []
    table.delete_tag("t")
    table.overwrite({5: "z"})
    table.expire(retain_max=1)
    assert latest_state() == expected
    write_to(branch, table, {8: "y"})
    expire(branch, retain_max=1)
    table.expire(retain_max=1)
    assert latest_state() == {**expected, ("d", 8): "y"}
    assert table.findings() == []
    delete_branch(table.context, "b")
    table.expire(retain_max=1)
    check_sound(table)
