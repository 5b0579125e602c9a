"""A name of a branch is used once: what still works on a former branch can do nothing to another one.

Each verb on a branch runs with the branch deleted or renamed between any two of its calls to the store; then another
branch asks for the name. It is refused, whatever late objects are there, and nothing that is whole is harmed.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

import lakehouse_core as lc
from lakehouse_core.api.table_maintenance import set_consumer
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.alter.alter import alter
from lakehouse_core.execution.branches.closing import open_branches
from lakehouse_core.execution.branches.create import create_branch
from lakehouse_core.execution.branches.delete import delete_branch
from lakehouse_core.execution.branches.rename import rename_branch
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.tag_changes import rename_tag, replace_tag
from lakehouse_core.execution.expiry.tags import create_tag, delete_tag
from lakehouse_core.execution.rollback import roll_back
from lakehouse_core.metadata.roots import branch_names
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, ProcessDied
from lakehouse_core.table.used_name import UsedName, parse_used_name, serialize_used_name
from tests.contexts import context_of
from tests.execution.branches.test_races import states, table_with_branch, write_to
from tests.execution.small_table import SmallTable
from tests.pairs import each_with_one

Verb = Callable[[TableContext, SmallTable], object]
Event = Callable[[TableContext], object]


def on_old(verb: Callable[[TableContext], object]) -> Verb:
    return lambda context, _: verb(context.on_branch("old"))


VERBS: dict[str, Verb] = {
    "expire": on_old(partial(expire, retain_max=1)),
    "commit": lambda context, table: write_to(context.on_branch("old"), table, {9: "c"}),
    "create a tag": on_old(lambda branch: create_tag(branch, "late")),
    "delete a tag": on_old(lambda branch: delete_tag(branch, "t")),
    "replace a tag": on_old(lambda branch: replace_tag(branch, "t", snapshot_id=3)),
    "rename a tag": on_old(lambda branch: rename_tag(branch, "t", "u")),
    "alter": on_old(lambda branch: alter(branch, [lc.AddColumn("w", "INT")])),
    "roll back": on_old(lambda branch: roll_back(branch, lc.AtSnapshot(3))),
    "set a consumer": on_old(lambda branch: set_consumer(branch, "reader", 3)),
    "rename the branch": lambda context, _: rename_branch(context, "old", "other"),
    "delete the branch": lambda context, _: delete_branch(context, "old"),
}


def deleted(context: TableContext) -> None:
    delete_branch(context, "old")


def renamed(context: TableContext) -> None:
    rename_branch(context, "old", "moved")


def asked_again(context: TableContext) -> None:
    """Ask for the name in both ways, and make a branch of another name."""
    with pytest.raises(lc.InvalidRequest, match="A name is used once"):
        create_branch(context, "old", lc.AtTag("t"))
    create_branch(context, "again", lc.AtSnapshot(3))
    with pytest.raises(lc.InvalidRequest, match="A name is used once"):
        rename_branch(context, "again", "old")


# `make test` takes these, `make test-long` the others.
QUICK = [("expire", deleted), ("create a tag", renamed), ("alter", deleted)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("verb", "event"),
    [
        pytest.param(
            verb, event, id=f"{verb}, {event.__name__}", marks=[pytest.mark.long] * ((verb, event) not in QUICK)
        )
        for verb in VERBS
        for event in (deleted, renamed)
    ],
)
@pytest.mark.parametrize(
    "dies", [pytest.param(False, id="ends"), pytest.param(True, id="dies", marks=pytest.mark.long)]
)
def test_what_works_on_a_former_branch_harms_no_other_one(verb: str, event: Event, dies: bool, every: int) -> None:
    counting = table_with_branch()
    faulty = FaultyStore(counting.store)
    VERBS[verb](context_of(faulty, counting.clock), counting)
    for number in range(1, len(faulty.calls) + 1, every):
        table = table_with_branch()
        before = states(table)

        def interrupt(call: Call, number: int = number, table: SmallTable = table) -> None:
            if call.number == number:
                context = context_of(table.store, VirtualClock(seed=1, now_millis=table.clock.now_millis()))
                # Another verb that has closed the branch goes first.
                with suppress(lc.CommitConflict, lc.NotFound, lc.InvalidRequest, lc.WriteOutcomeUnknown):
                    event(context)
                if "old" not in branch_names(table.store):
                    asked_again(context)

        faults = [Fault(at=number, kind=FaultKind.DIE_AFTER)] if dies else []
        store = FaultyStore(table.store, faults, on_call=interrupt)
        with suppress(lc.LakehouseError, ProcessDied):
            VERBS[verb](context_of(store, table.clock), table)

        after = states(table)
        assert after["main"] == before["main"], number
        context = context_of(table.store, table.clock)
        if "again" in after:
            assert after["again"] == table.visible(context.snapshots.snapshot(3)), number
            assert "old" not in after, number
        # What was written late for the former branch holds nothing up.
        expire(context)
        expire(context, retain_max=1)
        assert states(table) == after, number
        if not dies or "again" in after:
            assert [each for each in table.findings() if "branch-old" in each] == [], number
        assert not set(open_branches(context)) - {"old", "other", "moved", "again"}


@pytest.mark.parametrize("used", [UsedName(token="9f-1"), UsedName(token="9f-1", has_ended=True)])
def test_the_record_of_a_used_name_reads_as_it_was_written(used: UsedName) -> None:
    assert parse_used_name(serialize_used_name(used), "key") == used


@pytest.mark.parametrize("data", [b"", b"9f-1", serialize_used_name(UsedName(token="9f"))[:-1] + b"e"])
def test_a_damaged_record_of_a_used_name_is_corrupt(data: bytes) -> None:
    with pytest.raises(lc.CorruptTable, match="expected a token with its checksum"):
        parse_used_name(data, "key")


ENDINGS = (FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER, FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER)


@pytest.mark.long
@pytest.mark.parametrize(("event", "kind"), each_with_one([deleted, renamed], ENDINGS))
def test_the_name_of_a_branch_that_a_killed_verb_removes_stays_used(event: Event, kind: FaultKind) -> None:
    whole = FaultyStore(table_with_branch().store)
    table = table_with_branch()
    whole = FaultyStore(table.store)
    event(context_of(whole, table.clock))
    for number in range(1, len(whole.calls) + 1):
        table = table_with_branch()
        with suppress(lc.LakehouseError, ProcessDied):
            event(context_of(FaultyStore(table.store, [Fault(at=number, kind=kind)]), table.clock))
        context = context_of(table.store, table.clock)

        with pytest.raises(lc.InvalidRequest):
            create_branch(context, "old", lc.AtTag("t"))

        with suppress(lc.NotFound, lc.InvalidRequest):
            event(context)
        with suppress(lc.NotFound):
            delete_branch(context, "old")
        asked_again(context)
        expire(context, retain_max=1)
        assert table.findings() == [], number
