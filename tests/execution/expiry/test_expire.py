"""Expiry as a whole: what goes, when it goes, what stays, and what stops it."""

from dataclasses import replace

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, InvalidRequest, SnapshotExpired, StorageUnavailable, UnsupportedFeature
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.metadata.staged_commits import keep_pending, remove
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, LocalStore, ProcessDied
from lakehouse_core.table.boundary import serialize_boundary
from lakehouse_core.table.commit_message import Append, DynamicOverwrite
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.manifest import EntryKind, encode_manifest, encode_manifest_list
from lakehouse_core.table.schema import serialize_schema
from lakehouse_core.table.snapshot import parse_snapshot, serialize_consumer, serialize_snapshot
from tests.contexts import context_of
from tests.execution.small_table import HOUR, TOP_LEVEL, SmallTable
from tests.oracle.reachable import reachable

DECOUPLED = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "100", "changelog.time-retained": "10 h"}
KINDS = {
    "key": {},
    "key, input": {"options": {"changelog-producer": "input"}},
    "key, decoupled": {"options": DECOUPLED},
    "key, input, decoupled": {"options": {**DECOUPLED, "changelog-producer": "input"}},
    "key, partitioned": {"partitioned": True},
    "append": {"keyed": False},
    "append, decoupled": {"keyed": False, "options": DECOUPLED},
    "append, partitioned, decoupled": {"keyed": False, "partitioned": True, "options": DECOUPLED},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def lived_in(request):
    """A table with ten snapshots: appends, compactions, an overwrite, appends again."""
    table = SmallTable(**request.param)
    for number in range(3):
        table.write_all({("d", 0): {1: f"a{number}", number + 2: "x"}, ("e", 1): {5: f"b{number}"}})
    table.compact()
    table.write({1: "late"})
    table.compact()
    table.overwrite({1: "anew"})
    table.write({2: "y"}, bucket=1)
    table.write({3: None, 4: "z"})
    table.write({6: "w"}, dt="e")
    return table


def needed_files(table):
    producer = table.schema.options.get("changelog-producer", "none")
    return reachable(table.context, table.folders, delta_is_changelog=producer == "none")


def test_a_dry_run_names_exactly_what_the_run_deletes(lived_in):
    before = lived_in.objects()

    plan = lived_in.expire(retain_max=3, dry_run=True)

    assert lived_in.objects() == before

    result = lived_in.expire(retain_max=3)

    assert set(plan.deleted_keys) == set(result.deleted_keys) == before - lived_in.objects()
    assert plan == result


@pytest.mark.one_in(3)
def test_afterwards_every_file_is_needed_and_every_needed_file_is_there(lived_in):
    for retained in (6, 3, 1):
        lived_in.expire(retain_max=retained)

        assert lived_in.files() == needed_files(lived_in)
        assert lived_in.findings() == []


def test_what_snapshots_tags_and_changelogs_show_does_not_change(lived_in):
    lived_in.tag("early", at=3)
    lived_in.tag("late", at=9)
    states = {snapshot.id: lived_in.visible(snapshot) for snapshot in lived_in.context.snapshots.history()}
    changelogs = {snapshot.id: lived_in.changelog(snapshot) for snapshot in lived_in.context.snapshots.history()}

    result = lived_in.expire(retain_max=2)

    assert result.snapshot_ids == (1, 2, 3, 4, 5, 6, 7, 8)
    for snapshot in lived_in.context.snapshots.history():
        assert lived_in.visible(snapshot) == states[snapshot.id]
    for tag in lived_in.context.tags.all().values():
        assert lived_in.visible(tag.snapshot) == states[tag.snapshot.id]
    for changelog_id in lived_in.context.changelogs.ids():
        assert lived_in.changelog(lived_in.context.changelogs.changelog(changelog_id)) == changelogs[changelog_id]
    assert result.made_changelog_ids == tuple(lived_in.context.changelogs.ids())
    assert bool(result.made_changelog_ids) == ("changelog.num-retained.max" in lived_in.schema.options)


def test_a_report_counts_what_went_by_kind_and_size(lived_in):
    sizes = {info.key: info.size for info in lived_in.store.list("")}

    result = lived_in.expire(retain_max=1)

    files = [key for key in result.deleted_keys if not key.startswith("snapshot/")]
    assert sum(result.files_deleted.values()) == len(files)
    assert result.bytes_deleted == sum(sizes[key] for key in files)
    assert (result.earliest_id, result.latest_id, result.noop_reason) == (10, 10, None)


def test_a_second_run_has_nothing_to_do_and_says_why():
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    table.expire(retain_max=2)
    before = table.objects()

    result = table.expire(retain_max=2, retain_min=2)

    assert table.objects() == before
    assert result.noop_reason == "snapshots 3 to 4 stay: at least 2 are to be retained"


def test_a_table_without_snapshots_says_so():
    assert SmallTable().expire().noop_reason == "the table has no snapshot"


# Waiting for readers


def waiting_table(**options):
    table = SmallTable(options={"lakehouse.read.grace": "1 h", **options})
    for number in range(3):
        table.write({1: f"v{number}"})
    table.compact()
    return table


def test_roots_go_at_once_and_files_when_their_readers_have_ended():
    table = waiting_table()
    files = table.files()

    begun = table.expire(retain_max=1)

    assert table.ids() == [4]
    assert begun.deleted_keys == ("snapshot/snapshot-1", "snapshot/snapshot-2", "snapshot/snapshot-3")
    assert table.files() == files
    assert len(begun.waiting_plan_ids) == 1

    table.clock.advance(HOUR)
    ended = table.expire(retain_max=1)

    assert len(ended.deleted_keys) == begun.files_waiting + 1  # the plan
    assert ended.bytes_deleted == begun.bytes_waiting
    assert table.files() == needed_files(table)
    assert table.findings() == []


def test_a_run_during_the_wait_deletes_nothing_and_says_how_many_files_wait():
    table = waiting_table()
    begun = table.expire(retain_max=1)
    table.clock.advance(HOUR - 1)
    before = table.objects()

    result = table.expire(retain_max=1)

    assert table.objects() == before
    assert result.noop_reason.endswith(f"; {begun.files_waiting} files wait until their readers have ended")


def test_a_reader_that_planned_before_the_expiry_reads_on_during_the_wait():
    table = waiting_table()
    snapshot = table.context.snapshots.snapshot(2)
    seen = table.visible(snapshot)
    table.expire(retain_max=1)
    table.write({9: "new"})
    table.clock.advance(HOUR / 2)
    table.expire(retain_max=1)
    # The first wait is over; that of the snapshots after it is not.
    table.clock.advance(HOUR / 2)

    with pytest.raises(SnapshotExpired, match="earliest available is 5"):
        table.context.snapshots.snapshot(2)

    assert table.visible(snapshot) == seen

    table.expire(retain_max=1)

    with pytest.raises(CorruptTable, match="start again"):
        table.visible(snapshot)
    assert table.context.snapshots.snapshot(5)


def test_a_wait_ends_one_expiry_while_the_next_waits():
    table = waiting_table()
    table.expire(retain_max=1)
    table.write({9: "new"})
    later = table.context.snapshots.snapshot(4)
    seen = table.visible(later)
    table.clock.advance(HOUR / 2)
    table.expire(retain_max=1)
    table.clock.advance(HOUR / 2)

    result = table.expire(retain_max=1)

    assert [key for key in result.deleted_keys if "data-" in key]
    assert table.visible(later) == seen
    assert len(result.waiting_plan_ids) == 1

    table.clock.advance(HOUR / 2)
    table.expire(retain_max=1)

    assert table.files() == needed_files(table)


def told(result):
    """Return a result without the names of its plans, which are others each time."""
    return replace(result, waiting_plan_ids=len(result.waiting_plan_ids))


def test_a_dry_run_tells_of_what_waits_and_of_what_goes_as_the_run_does():
    table = waiting_table()
    for hours in (0, 1 / 2, 1 / 2, 1 / 4, 1):
        table.clock.advance(hours * HOUR)
        before = table.objects()

        plan = table.expire(retain_max=1, dry_run=True)

        assert table.objects() == before

        result = table.expire(retain_max=1)

        assert told(plan) == told(result)
        assert set(result.deleted_keys) == before - table.objects()
        table.write({9: "new"})


def test_files_that_wait_are_named_when_they_begin_to_and_when_they_go():
    table = waiting_table()

    begun = table.expire(retain_max=1)

    assert len(begun.waiting_keys) == begun.files_waiting > 0
    assert set(begun.waiting_keys) <= table.objects()

    table.clock.advance(HOUR)
    assert set(begun.waiting_keys) < set(table.expire(retain_max=1).deleted_keys)


# What holds snapshots back


def test_a_consumer_holds_the_snapshots_it_has_yet_to_read():
    table = waiting_table()
    table.store.write({"consumer/consumer-slow": serialize_consumer(3)})

    result = table.expire(retain_max=1)

    assert table.ids() == [3, 4]
    assert result.reason == "snapshots 3 to 4 of 1 to 4 stay: consumer slow has yet to read 3"


def test_a_consumer_that_cannot_be_read_protects_everything():
    table = waiting_table()
    table.store.write({"consumer/consumer-torn": b'{"nextSn'})

    result = table.expire(retain_max=1)

    assert table.ids() == [1, 2, 3, 4]
    assert "a consumer that cannot be read protects everything: consumer/consumer-torn" in result.noop_reason


def test_a_consumer_of_changelogs_only_lets_snapshots_go():
    table = SmallTable(options={**DECOUPLED, "consumer.changelog-only": "true"})
    for number in range(4):
        table.write({1: f"v{number}"})
    table.store.write({"consumer/consumer-slow": serialize_consumer(3)})

    table.expire(retain_max=1)

    assert table.ids() == [4]
    assert table.context.changelogs.ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"retain_max": 1, "retain_min": 2}, "At least 2 and at most 1"),
        ({"retain_max": 0}, "At most 0 snapshots are to be retained"),
        ({"retain_min": 0}, "set 1 <= min <= max"),
    ],
)
def test_a_retention_that_contradicts_itself_is_refused(asked, named):
    table = waiting_table()

    with pytest.raises(InvalidRequest, match=named):
        table.expire(**asked)

    assert table.ids() == [1, 2, 3, 4]


def test_a_maximum_alone_brings_the_minimum_down_and_says_so():
    table = SmallTable(options={"snapshot.num-retained.min": "3"})
    for _ in range(5):
        table.write({1: "v"})

    assert (
        table.expire(retain_max=4).reason == "snapshots 2 to 5 of 1 to 5 stay: the one after 2 is younger than 3600 s"
    )

    plan = table.expire(retain_max=2, dry_run=True)
    result = table.expire(retain_max=2)

    assert plan == result
    assert table.ids() == [4, 5]
    assert result.reason == (
        "snapshots 4 to 5 of 2 to 5 stay: at least 2 are to be retained; "
        "the table retains at least 3, but at most 2 were asked for"
    )


def test_age_is_that_of_the_successor_and_can_be_asked_for():
    table = SmallTable(options={"snapshot.time-retained": "10 h"})
    for _ in range(3):
        table.write({1: "v"})
        table.clock.advance(2 * HOUR)

    assert table.expire(dry_run=True).snapshot_ids == ()
    assert table.expire(dry_run=True, max_age_millis=3 * HOUR * 1000).snapshot_ids == (1,)
    assert table.expire(dry_run=True, max_age_millis=1 * HOUR * 1000).snapshot_ids == (1, 2)


# Clocks that are wrong

YEARS = 5 * 365 * 24 * HOUR


def table_of_every_second_hour(snapshots, **options):
    table = SmallTable(options=options)
    for _ in range(snapshots):
        table.write({1: "v"})
        table.clock.advance(2 * HOUR)
    return table


def stamp_ahead(table, first_id):
    """Let a snapshot be stamped years ahead, as Java leaves it, and those after it not lie before it."""
    stamp = table.clock.now_millis() + YEARS * 1000
    modified = {info.key: info.modified_millis for info in table.store.list("snapshot")}
    now_millis = table.clock.now_millis()
    for id in table.ids()[first_id - 1 :]:
        # Its file is as old as before.
        table.clock.advance((modified[f"snapshot/snapshot-{id}"] - table.clock.now_millis()) / 1000)
        changed = table.context.snapshots.snapshot(id).model_copy(update={"time_millis": stamp})
        table.store.write({f"snapshot/snapshot-{id}": serialize_snapshot(changed)})
    table.clock.advance((now_millis - table.clock.now_millis()) / 1000)


@pytest.mark.parametrize("first_ahead", [1, 3, 4, 6])
@pytest.mark.parametrize(
    "asked", [{}, {"max_age_millis": 3 * HOUR * 1000}, {"max_age_millis": 7 * HOUR * 1000}, {"retain_max": 2}]
)
def test_a_time_years_ahead_changes_nothing_of_what_expires(first_ahead, asked):
    honest = table_of_every_second_hour(6, **{"snapshot.time-retained": "30 d"})
    poisoned = table_of_every_second_hour(6, **{"snapshot.time-retained": "30 d"})
    stamp_ahead(poisoned, first_ahead)

    expected, result = honest.expire(**asked), poisoned.expire(**asked)

    assert result.snapshot_ids == expected.snapshot_ids
    assert result.reason.startswith(f"{expected.reason}; the time of snapshot 6 is 157680000 s ahead")


def test_where_no_clock_tells_how_old_a_snapshot_is_only_counts_let_it_go():
    table = table_of_every_second_hour(4, **{"snapshot.time-retained": "1 h"})
    table.clock.advance(-YEARS)

    assert table.expire(dry_run=True).snapshot_ids == ()
    assert table.expire(retain_max=1).snapshot_ids == (1, 2, 3)


@pytest.mark.parametrize("years", [YEARS, -YEARS])
def test_an_expiry_whose_own_clock_is_years_off_goes_by_the_storages(years):
    table = table_of_every_second_hour(4, **{"snapshot.time-retained": "3 h"})
    wrong = VirtualClock(now_millis=table.clock.now_millis() + years * 1000)

    result = expire(
        context_of(table.store, wrong),
    )

    assert result.snapshot_ids == (1, 2)


def test_a_tag_lasts_as_long_as_was_asked_for_whatever_the_clock_of_an_expiry_says():
    table = table_of_every_second_hour(2, **{"snapshot.num-retained.min": "2"})
    table.tag("day", retention_millis=24 * HOUR * 1000)
    wrong = VirtualClock(now_millis=table.clock.now_millis() + YEARS * 1000)

    assert (
        expire(
            context_of(table.store, wrong),
        ).tags
        == ()
    )

    table.clock.advance(25 * HOUR)
    assert table.expire().tags == ("day",)


# Changelogs


def test_asking_for_fewer_snapshots_does_not_make_changelogs_of_a_plain_table():
    table = waiting_table()

    assert table.expire(retain_max=1, retain_min=1).made_changelog_ids == ()
    assert table.context.changelogs.ids() == []


def test_changelogs_expire_after_their_snapshots():
    table = SmallTable(options={**DECOUPLED, "changelog.num-retained.max": "4"})
    for number in range(4):
        table.write({1: f"v{number}"})
    table.compact()
    table.expire(retain_max=1)
    assert table.context.changelogs.ids() == [2, 3, 4]
    for number in range(3):
        table.write({1: f"w{number}"})

    result = table.expire(retain_max=1)

    assert result.changelog_ids == (2, 3, 4)
    assert result.made_changelog_ids == (5, 6, 7)
    assert table.context.changelogs.ids() == [5, 6, 7]
    assert table.store.read("changelog/EARLIEST") == b"5"
    assert table.store.read("changelog/LATEST") == b"7"
    assert table.files() == needed_files(table)
    assert table.findings() == []


def test_a_changelog_is_the_file_of_its_snapshot_byte_for_byte():
    table = SmallTable(options=DECOUPLED)
    table.write({1: "a"})
    table.write({1: "b"})
    content = table.store.read("snapshot/snapshot-1")

    table.expire(retain_max=1)

    assert table.store.read("changelog/changelog-1") == content


def test_another_changelog_under_the_same_id_stops_the_run_before_anything_is_deleted():
    table = SmallTable(options=DECOUPLED)
    table.write({1: "a"})
    table.write({1: "b"})
    files = table.files()
    table.store.write({"changelog/changelog-1": table.store.read("snapshot/snapshot-1") + b" "})

    with pytest.raises(CorruptTable, match="expected a copy of snapshot 1"):
        table.expire(retain_max=1)

    assert table.files() == files
    assert "snapshot/snapshot-1" in table.objects()


# Roots that cannot be read


def garbled(key):
    return lambda table: table.store.write({key: b"{garbled"})


UNREADABLE_ROOTS = {
    "a snapshot": garbled("snapshot/snapshot-5"),
    "a tag": garbled("tag/tag-t"),
    "a changelog": garbled("changelog/changelog-7"),
    "a pending commit": garbled("lakehouse/pending/commit-u-1.json"),
    "a plan": garbled("lakehouse/plan-x.json"),
    "a pin of a newer version": garbled("lakehouse/pins/reader-1"),
    "a branch's snapshot": lambda table: (
        table.branch("b", at=4),
        garbled("branch/branch-b/snapshot/snapshot-4")(table),
    ),
    "half a branch": garbled("branch/branch-b/snapshot/snapshot-1"),
    "the boundary": garbled("lakehouse/boundary"),
    "a manifest list of a tag": lambda table: (
        table.tag("t", at=2),
        table.store.delete([f"manifest/{table.context.snapshots.snapshot(2).base_manifest_list}"]),
    ),
    "a manifest of the latest": lambda table: table.store.delete(
        [f"manifest/{table.context.manifests.delta(table.context.snapshots.latest())[0].file_name}"]
    ),
}


@pytest.mark.parametrize("spoil", UNREADABLE_ROOTS.values(), ids=UNREADABLE_ROOTS.keys())
def test_one_root_that_cannot_be_read_stops_every_deletion(spoil):
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    table.compact()
    table.write({2: "w"})
    spoil(table)
    files = table.files()

    with pytest.raises((CorruptTable, UnsupportedFeature)):
        table.expire(retain_max=2)

    assert table.files() == files


def test_an_expiry_goes_on_once_the_root_can_be_read_again():
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    table.compact()
    garbled("tag/tag-t")(table)
    with pytest.raises(CorruptTable, match="tag/tag-t"):
        table.expire(retain_max=1)
    table.store.delete(["tag/tag-t"])

    table.expire(retain_max=1)

    assert table.ids() == [5]
    assert table.files() == needed_files(table)
    assert table.findings() == []


@pytest.mark.parametrize("fault", [FaultKind.FAIL_BEFORE, FaultKind.EACCES])
def test_a_listing_that_fails_is_not_an_empty_one(fault):
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    table.tag("t", at=2)
    table.compact()
    files = table.files()
    whole = table.copy()
    counting = FaultyStore(whole.store)
    whole.over(counting).expire(retain_max=1)
    listings = [call.number for call in counting.calls if call.method == "children" and call.key in ("tag", "branch")]
    assert listings
    for number in listings:
        twin = table.copy()
        inner = twin.store
        twin.over(FaultyStore(inner, [Fault(at=number, kind=fault)]))

        with pytest.raises(StorageUnavailable):
            twin.expire(retain_max=1)

        assert twin.over(inner).files() == files


def test_names_that_leave_their_folder_stop_every_deletion():
    table = SmallTable()
    table.store.write({"bucket-9/precious": b"rows"})
    hostile = replace(table.data_file({1: "a"}), file_name="../bucket-9/precious")
    # The committer refuses such a name, so another engine must have written it: into the manifest of a later snapshot.
    table.write({1: "a"})
    table.write({1: "b"})
    table.write({1: "c"})
    spoil_delta(table, 2, hostile)

    with pytest.raises(CorruptTable, match="expected a plain file name without a path"):
        table.expire(retain_max=1)

    assert table.store.read("bucket-9/precious") == b"rows"


def spoil_delta(table, snapshot_id, file):
    """Let the delta of a snapshot delete `file`."""
    snapshot = table.context.snapshots.snapshot(snapshot_id)
    (manifest,) = table.context.manifests.delta(snapshot)
    (entry,) = table.context.manifests.entries(manifest)
    data = encode_manifest([replace(entry, kind=EntryKind.DELETE, file=file)])
    table.store.write({"manifest/manifest-hostile-0": data})
    manifest = replace(manifest, file_name="manifest-hostile-0", file_size=len(data), checksum=None)
    listed = encode_manifest_list([manifest])
    table.store.write({"manifest/manifest-list-hostile-0": listed})
    hostile = snapshot.model_copy(
        update={
            "delta_manifest_list": "manifest-list-hostile-0",
            "delta_manifest_list_size": len(listed),
            "properties": {},
        }
    )
    table.store.write({f"snapshot/snapshot-{snapshot_id}": serialize_snapshot(hostile)})


# Other roots


def test_a_branch_keeps_the_files_of_its_snapshots():
    table = SmallTable()
    for number in range(3):
        table.write({1: f"v{number}"})
    seen = table.visible(table.context.snapshots.snapshot(2))
    table.branch("b", at=2)
    table.compact()

    table.expire(retain_max=1)

    kept = parse_snapshot(table.store.read("branch/branch-b/snapshot/snapshot-2"), "snapshot/snapshot-2")
    assert table.visible(kept) == seen
    assert table.findings() == []


def test_a_pending_commit_keeps_its_files_and_the_plan_until_it_is_forgotten():
    table = SmallTable()
    file = table.data_file({1: "a"})
    staged = table.staged([table.message("d", 0, new_files=(file,))], Append())
    keep_pending(table.store, MAIN, staged)
    table.commit(staged.messages, Append())
    table.write({2: "b"})
    table.compact()
    key = f"{table.folder()}/{file.file_name}"

    result = table.expire(retain_max=1)

    assert key in table.objects()
    assert len(result.waiting_plan_ids) == 1

    remove(table.store, [MAIN.staged_commit(staged.commit_user, staged.commit_identifier)])
    table.expire(retain_max=1)

    assert key not in table.objects()
    assert table.files() == needed_files(table)


def test_a_file_that_came_back_is_kept():
    table = SmallTable()
    file = table.data_file({1: "a"})
    message = table.message("d", 0, new_files=(file,))
    table.commit([message], Append())
    table.overwrite({2: "b"})
    table.commit([message], Append())
    table.compact()
    # Live at 3, dead before and after: snapshot 2 is the first kept, and 3 brings it back.
    table.expire(retain_max=3)

    assert table.ids() == [2, 3, 4]
    assert table.visible(table.context.snapshots.snapshot(3)) == {("d", 1): "a", ("d", 2): "b"}
    assert table.files() == needed_files(table)


def test_a_file_that_moved_to_another_level_is_kept():
    table = SmallTable()
    file = table.data_file({1: "a"})
    table.commit([table.message("d", 0, new_files=(file,))], Append())
    moved = table.message("d", 0, compact_before=(file,), compact_after=(replace(file, level=TOP_LEVEL),))
    table.commit([moved], Append())

    table.expire(retain_max=1)

    assert table.visible(table.context.snapshots.snapshot(2)) == {("d", 1): "a"}


def test_extra_files_go_and_stay_with_their_data_file():
    table = SmallTable()
    keys = []
    for number in range(2):
        file = replace(table.data_file({1: f"v{number}"}), extra_files=(f"x{number}.index",))
        keys.append(f"{table.folder()}/x{number}.index")
        table.store.write({keys[-1]: b"index"})
        table.commit([table.message("d", 0, new_files=(file,))], DynamicOverwrite() if number else Append())

    result = table.expire(retain_max=1)

    assert keys[0] not in table.objects()
    assert keys[1] in table.objects()
    assert result.files_deleted["extra"] == 1


# The boundary


def test_ids_below_the_boundary_count_as_gone_even_while_their_files_are_there():
    table = waiting_table()

    table.expire(retain_max=1)

    assert table.store.read("lakehouse/boundary") == serialize_boundary(4)
    assert table.store.read("snapshot/EARLIEST") == b"4"


def test_a_latest_hint_that_lags_is_set_right_before_what_it_names_goes():
    """Java takes a hint at its word when the id after it is not there, and would miss every snapshot."""
    table = SmallTable()
    for number in range(6):
        table.write({1: f"v{number}"})
    table.store.write({"snapshot/LATEST": b"2"})

    table.expire(retain_max=1)

    assert table.store.read("snapshot/LATEST") == b"6"


def test_a_latest_hint_that_names_what_stays_is_left_to_the_committers():
    table = SmallTable()
    for number in range(6):
        table.write({1: f"v{number}"})
    table.store.write({"snapshot/LATEST": b"5"})

    table.expire(retain_max=2)

    assert table.store.read("snapshot/LATEST") == b"5"


def test_a_snapshot_left_below_the_boundary_keeps_nothing_and_is_left_to_its_writer():
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    stale = table.store.read("snapshot/snapshot-2")
    table.expire(retain_max=1)
    # A writer that slept through the expiry claims an id that has been used.
    table.store.write({"snapshot/snapshot-2": stale})
    table.write({1: "w"})

    result = table.expire(retain_max=1)

    assert result.snapshot_ids == (4,)
    assert "snapshot/snapshot-2" in table.objects()
    assert "snapshot/snapshot-2" in table.findings()[0]


def test_a_table_that_another_engine_rolled_back_below_the_boundary_is_left_alone():
    table = SmallTable()
    for number in range(4):
        table.write({1: f"v{number}"})
    early = table.store.read("snapshot/snapshot-1")
    table.expire(retain_max=1)
    table.store.write({"snapshot/snapshot-1": early})
    table.store.delete(["snapshot/snapshot-4"])

    with pytest.raises(CorruptTable, match="its latest snapshot is 1, below its boundary 4"):
        table.expire(retain_max=1)


# Folders and tables of others


@pytest.mark.parametrize(("asked", "left"), [("true", {"dt=e"}), ("false", {"dt=d", "dt=e"})])
def test_empty_folders_go_only_when_the_table_asks(tmp_path, asked, left):
    store = LocalStore(str(tmp_path / "t"))
    table = SmallTable(partitioned=True, store=store, options={"snapshot.clean-empty-directories": asked})
    table.write_all({("d", 0): {1: "a"}, ("e", 0): {1: "a"}})
    table.overwrite({1: "b"}, dt="e")
    (entry,) = [
        e for e in table.context.manifests.live_entries(table.context.snapshots.latest()) if table.dt_of(e) == "d"
    ]
    table.commit([table.message("d", 0, deleted_files=(entry.file,))], Append())
    (tmp_path / "t" / "dt=e" / "bucket-1").mkdir()

    table.expire(retain_max=1)

    assert {path.name for path in (tmp_path / "t").iterdir() if path.name.startswith("dt=")} == left
    assert (tmp_path / "t" / "dt=e" / "bucket-0").is_dir()


@pytest.mark.parametrize("option", [{"chain-table.enabled": "true"}, {"lakehouse.pins.protect": "all"}])
def test_a_table_whose_needs_are_not_known_is_left_alone(option):
    table = SmallTable()
    table.write({1: "a"})
    table.write({1: "b"})
    changed = replace(table.schema, id=1, options={**table.schema.options, **option})
    table.store.write({"schema/schema-1": serialize_schema(changed)})
    table.over(table.store)
    before = table.objects()

    with pytest.raises(UnsupportedFeature, match=f"option {next(iter(option))}"):
        table.expire(retain_max=1)

    assert table.objects() == before


# Several at once


@pytest.mark.slow
def test_the_boundary_is_made_to_last_once_where_nothing_was_interrupted():
    table = SmallTable()
    for number in range(4):
        table.write({number: "v"})
    counting = FaultyStore(table.origin)
    table.over(counting).expire(retain_max=1)

    calls = [(call.method, call.key) for call in counting.calls]
    assert [method for method, key in calls if key == "lakehouse/boundary" and method != "read"] == [
        "read_versioned",
        "replace",
    ]
    assert "make_last" not in {method for method, _ in calls}


def test_what_a_killed_run_forbade_is_made_to_last_before_more_goes():
    original = SmallTable()
    for number in range(4):
        original.write({number: "v"})
    counting = FaultyStore(original.copy().origin)
    original.copy().over(counting).expire(retain_max=1)
    forbidden = next(call.number for call in counting.calls if call.method == "replace")
    table = original.copy()
    with pytest.raises(ProcessDied):
        table.over(FaultyStore(table.origin, [Fault(at=forbidden, kind=FaultKind.DIE_AFTER)])).expire(retain_max=1)
    resumed = FaultyStore(table.origin)
    table.over(resumed).expire(retain_max=1)

    calls = [(call.method, call.key) for call in resumed.calls]
    assert ("make_last", "lakehouse/boundary") in calls
    first_gone = next(
        number for number, (method, key) in enumerate(calls) if (method, key[:9]) == ("delete", "snapshot/")
    )
    assert calls.index(("make_last", "lakehouse/boundary")) < first_gone


def test_two_expiries_at_once_finish_and_lose_nothing():
    original = lived_through()
    counting = FaultyStore(original.copy().origin)
    original.copy().over(counting).expire(retain_max=2)
    for number in range(1, len(counting.calls) + 1):
        table = original.copy()
        inner, clock = table.store, table.clock
        seen = table.visible(table.context.snapshots.latest())

        def interrupt(call, number=number, inner=inner, clock=clock):
            if call.number == number:
                expire(context_of(inner, clock), retain_max=1)

        table.over(FaultyStore(inner, on_call=interrupt))

        table.expire(retain_max=2)

        table.over(inner).expire(retain_max=1)
        assert table.visible(table.context.snapshots.latest()) == seen
        assert table.findings() == []
        assert table.files() == needed_files(table)


def lived_through():
    table = SmallTable(options=DECOUPLED)
    for number in range(3):
        table.write({1: f"v{number}"})
    table.compact()
    table.write({2: "w"})
    return table
