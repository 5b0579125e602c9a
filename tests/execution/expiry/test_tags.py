"""Tags: made, deleted, out of time; what they keep, and what a race with expiry leaves."""

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import InvalidRequest, NotFound, SnapshotExpired, WriteOutcomeUnknown
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.tags import create_tag
from lakehouse_core.format.strict_json import strict_json
from lakehouse_core.storage import Fault, FaultKind, FaultyStore
from tests.contexts import context_of
from tests.execution.small_table import HOUR, SmallTable
from tests.oracle.reachable import reachable


def table_with(count, **options):
    table = SmallTable(options=options)
    for number in range(count):
        table.write({1: f"v{number}", number: "x"})
    return table


def needed_files(table):
    return reachable(table.context, table.folders, delta_is_changelog=True)


def test_a_tag_is_the_snapshot_itself_and_names_the_latest_unless_told_otherwise():
    table = table_with(3)

    table.tag("latest")
    table.tag("second", at=2)

    assert {name: tag.snapshot for name, tag in table.context.tags.all().items()} == {
        "latest": table.context.snapshots.snapshot(3),
        "second": table.context.snapshots.snapshot(2),
    }
    assert "tagCreateTime" not in strict_json(table.store.read("tag/tag-second"), "tag/tag-second")


def test_a_tag_keeps_what_other_engines_wrote_into_the_snapshot():
    table = table_with(1)
    text = table.store.read("snapshot/snapshot-1").decode()
    without_checksum = text[: text.index(',\n  "lakehouseCrc32"')]
    table.store.write({"snapshot/snapshot-1": (without_checksum + ',\n  "inventedIn2030" : 7\n}').encode()})

    table.tag("t", retention_millis=1000)

    document = strict_json(table.store.read("tag/tag-t"), "tag/tag-t")
    assert document["inventedIn2030"] == 7
    assert str(document["tagTimeRetained"]) == "1.000000000"


def test_a_tag_keeps_its_rows_while_everything_else_expires():
    table = table_with(3)
    table.tag("t", at=2)
    seen = table.visible(table.context.snapshots.snapshot(2))
    table.compact()
    table.expire(retain_max=1)

    assert table.ids() == [4]
    assert table.visible(table.context.tags.tag("t").snapshot) == seen
    assert table.files() == needed_files(table)
    assert table.findings() == []


def test_deleting_a_tag_deletes_what_only_it_needed_as_its_dry_run_says():
    table = table_with(3)
    table.tag("t", at=2)
    table.compact()
    table.expire(retain_max=1)
    before = table.objects()

    plan = table.delete_tag("t", dry_run=True)

    assert table.objects() == before

    result = table.delete_tag("t")

    assert set(plan.deleted_keys) == set(result.deleted_keys) == before - table.objects()
    assert table.context.tags.all() == {}
    assert table.files() == needed_files(table)


def test_deleting_a_tag_harms_no_neighbour():
    table = table_with(5)
    for at in (1, 2, 3):
        table.tag(f"t{at}", at=at)
    table.tag("twin", at=2)
    states = {name: table.visible(tag.snapshot) for name, tag in table.context.tags.all().items()}
    table.compact()
    table.expire(retain_max=1)

    for name in ("t2", "twin", "t1", "t3"):
        table.delete_tag(name)
        del states[name]

        assert {left: table.visible(tag.snapshot) for left, tag in table.context.tags.all().items()} == states
        assert table.files() == needed_files(table)
        assert table.findings() == []


def test_a_tag_whose_snapshot_is_there_takes_no_files_with_it():
    table = table_with(3, **{"lakehouse.read.grace": "1 h"})
    table.tag("t", at=2)

    result = table.delete_tag("t")

    assert result.deleted_keys == ("tag/tag-t",)
    assert result.waiting_plan_ids == ()


def test_files_of_a_deleted_tag_wait_for_their_readers():
    table = table_with(3, **{"lakehouse.read.grace": "1 h"})
    table.tag("t", at=2)
    table.compact()
    table.expire(retain_max=1)
    table.clock.advance(HOUR)
    table.expire(retain_max=1)
    snapshot = table.context.tags.tag("t").snapshot
    seen = table.visible(snapshot)

    begun = table.delete_tag("t")

    assert begun.deleted_keys == ("tag/tag-t",)
    assert begun.files_waiting > 0
    assert table.visible(snapshot) == seen

    table.clock.advance(HOUR)
    table.expire(retain_max=1)

    assert table.files() == needed_files(table)


def test_a_snapshot_that_expired_can_be_tagged_while_another_tag_holds_it():
    table = table_with(3)
    table.tag("first", at=1, retention_millis=HOUR * 1000)
    table.expire(retain_max=1)

    table.tag("second", at=1)

    table.delete_tag("first")
    assert table.visible(table.context.tags.tag("second").snapshot) == {("d", 1): "v0", ("d", 0): "x"}
    assert table.context.tags.tag("second").time_retained_millis is None


def test_an_expiry_deletes_tags_whose_time_is_over():
    table = table_with(3)
    table.tag("short", at=1, retention_millis=2 * HOUR * 1000)
    table.tag("ever", at=1)
    table.expire(retain_max=2)

    table.clock.advance(2 * HOUR)
    assert table.expire(retain_max=2).tags == ()

    table.clock.advance(1)
    plan = table.expire(retain_max=2, dry_run=True)
    result = table.expire(retain_max=2)

    assert result.tags == plan.tags == ("short",)
    assert plan.deleted_keys == result.deleted_keys == ("tag/tag-short",)
    assert list(table.context.tags.all()) == ["ever"]


@pytest.mark.parametrize("name", ["", "  ", "a/b", "..\\x", "line\nbreak", "nul\0", "x" * 201])
def test_names_that_are_no_file_names_are_refused(name):
    table = table_with(1)

    with pytest.raises(InvalidRequest, match=r"Use letters, digits"):
        table.tag(name)

    assert table.context.tags.all() == {}


@pytest.mark.parametrize("name", ["eod", "2024-05-01", "5", "ärger mit umlauten", "..", "a.b"])
def test_other_names_are_accepted(name):
    table = table_with(1)

    table.tag(name)

    assert list(table.context.tags.all()) == [name]
    table.delete_tag(name)
    assert table.context.tags.all() == {}


def test_refusals_name_what_is_there():
    table = table_with(3)
    table.tag("t", at=2)
    table.expire(retain_max=1)

    with pytest.raises(InvalidRequest, match="Tag 't' exists already, at snapshot 2"):
        table.tag("t")
    with pytest.raises(SnapshotExpired, match=r"Snapshot 1 is expired\. The earliest available is 3"):
        table.tag("u", at=1)
    with pytest.raises(NotFound, match="Snapshot 9 does not exist yet"):
        table.tag("u", at=9)
    with pytest.raises(NotFound, match="The tags are: t"):
        table.delete_tag("u")
    with pytest.raises(InvalidRequest, match="retention is 0 ms: expected more than 0"):
        table.tag("u", retention_millis=0)
    with pytest.raises(NotFound, match="no snapshot to tag yet"):
        SmallTable().tag("u")


def test_a_dry_run_makes_no_tag_but_refuses_what_the_run_would():
    table = table_with(2)
    table.tag("t")
    before = table.objects()

    made = create_tag(table.context, "u", snapshot_id=1, dry_run=True)
    with pytest.raises(InvalidRequest, match="exists already"):
        create_tag(table.context, "t", dry_run=True)

    assert made.snapshot.id == 1
    assert table.objects() == before


@pytest.mark.parametrize(
    ("kind", "made"), [(FaultKind.FAIL_AFTER, True), (FaultKind.LOST_BEFORE, False)], ids=["applied", "not applied"]
)
def test_an_answer_that_is_lost_is_looked_up(kind, made):
    table = table_with(2)
    inner = table.store
    counting = FaultyStore(inner)
    create_tag(context_of(counting, table.clock), "probe")
    (at,) = [call.number for call in counting.calls if call.method == "create_new"]
    context = context_of(FaultyStore(inner, [Fault(at=at, kind=kind)]), table.clock)

    if made:
        create_tag(context, "t")
    else:
        with pytest.raises(WriteOutcomeUnknown):
            create_tag(context, "t")

    assert ("t" in table.context.tags.all()) is made


def calls_of(action, table):
    counting = FaultyStore(table.store)
    action(context_of(counting, table.clock))
    return len(counting.calls)


def expire_all(context):
    expire(context, retain_max=1)


def tag_second(context):
    create_tag(context, "t", snapshot_id=2)


def racing_table():
    table = table_with(3)
    table.compact()
    return table


@pytest.mark.parametrize(("runs", "interrupts"), [(expire_all, tag_second), (tag_second, expire_all)])
def test_a_tag_that_races_with_expiry_is_whole_or_refused(runs, interrupts):
    outcomes = set()
    for number in range(1, calls_of(runs, racing_table()) + 1):
        table = racing_table()
        seen = table.visible(table.context.snapshots.snapshot(2))
        refused = []

        def attempt(action, store, clock, refused=refused):
            try:
                action(context_of(store, clock))
            except SnapshotExpired:
                refused.append(action)

        def interrupt(call, number=number, table=table, attempt=attempt):
            if call.number == number:
                attempt(interrupts, table.store, VirtualClock(seed=1, now_millis=table.clock.now_millis()))

        attempt(runs, FaultyStore(table.store, on_call=interrupt), table.clock)

        tags = table.context.tags.all()
        assert ("t" in tags) is not bool(refused), number
        if tags:
            assert table.visible(tags["t"].snapshot) == seen, number
        outcomes.add(bool(refused))
        # The first run after the race finds whatever the race left.
        table.expire(retain_max=1)
        assert table.files() == needed_files(table), number
        assert table.findings() == [], number
    assert True in outcomes
