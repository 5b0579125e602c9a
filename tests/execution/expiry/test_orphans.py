"""Orphan removal: what nothing names is deleted, and nothing else, whatever happens meanwhile."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from lakehouse_core.errors import CorruptTable, InvalidRequest, LakehouseError, StorageUnavailable, UnsupportedFeature
from lakehouse_core.execution.commit.loop import commit
from lakehouse_core.execution.expiry import orphans
from lakehouse_core.execution.expiry.orphans import OrphanRemoval, remove_orphans
from lakehouse_core.execution.expiry.tag_changes import rename_tag
from lakehouse_core.metadata.boundary import Boundaries
from lakehouse_core.metadata.roots import Roots
from lakehouse_core.metadata.staged_commits import keep_pending, remove
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, ObjectStore, ProcessDied
from lakehouse_core.storage.faulty import Call
from lakehouse_core.table.commit_message import Append
from lakehouse_core.table.staged_commit import StagedCommit
from tests.contexts import context_of
from tests.execution.small_table import HOUR, SmallTable

DAY_MILLIS = 24 * HOUR * 1000
ORPHANS = {
    "bucket-0/data-0-0.json": "bucket",
    "bucket-1/changelog-0-0.json": "bucket",
    "bucket-7/data-0-1.json": "bucket",
    "index/index-0-0": "index",
    "manifest/manifest-0-0": "manifest",
    "manifest/manifest-list-0-0": "manifest",
    "snapshot/.snapshot-9.0.tmp": "temporary",
    "statistics/stat-0-0": "statistics",
}
STRANGERS = ["README.md", "notes/bucket-0/data-0-0.json", "bucket-0/mine/data-0-0.json"]


def eventful() -> SmallTable:
    """A table with roots of every kind, a deletion that waits for its readers, and a kept commit; a week old."""
    table = SmallTable(
        options={
            "lakehouse.read.grace": "400 d",
            "changelog-producer": "input",
            "changelog.num-retained.min": "1",
            "changelog.num-retained.max": "100",
            "changelog.time-retained": "100 d",
        }
    )
    for number in range(4):
        table.write({1: f"v{number}", number: "x"})
    table.tag("first", at=1)
    table.branch("b", at=2)
    table.compact()
    table.clock.advance(2 * HOUR)
    table.expire(retain_max=1)
    table.write({7: "g"})
    keep_pending(table.store, table.context.layout, pending(table))
    table.clock.advance(7 * 24 * HOUR)
    return table


def pending(table: SmallTable) -> StagedCommit:
    message = table.message("d", 0, new_files=(table.data_file({8: "kept"}),))
    return replace(table.staged([message], Append()), commit_user="pipeline")


def aged(original: SmallTable) -> SmallTable:
    """Return a copy with orphans, a day old."""
    table = original.copy()
    leave_orphans(table)
    table.clock.advance(25 * HOUR)
    return table


def leave_orphans(table: SmallTable) -> None:
    for key in (*ORPHANS, *STRANGERS):
        table.store.write({key: b"left behind"})


def removed(table: SmallTable, *, dry_run: bool = False) -> OrphanRemoval:
    return remove_orphans(table.context, min_age_millis=DAY_MILLIS, dry_run=dry_run)


def keys(found: OrphanRemoval) -> list[str]:
    return [one.key for one in found.deleted]


def test_what_nothing_names_is_deleted_and_nothing_else() -> None:
    table = eventful()
    before = table.objects()
    leave_orphans(table)
    assert removed(table).deleted == ()
    table.clock.advance(25 * HOUR)

    planned = removed(table, dry_run=True)
    assert table.objects() == before | {*ORPHANS, *STRANGERS}
    found = removed(table)

    assert planned == found
    assert {one.key: one.kind for one in found.deleted} == ORPHANS
    assert table.objects() == before | {*STRANGERS}
    assert table.findings() == []
    assert removed(table) == OrphanRemoval()


def test_a_file_that_is_too_young_stays_and_is_told() -> None:
    table = eventful()
    leave_orphans(table)
    table.clock.advance(24 * HOUR - 1)
    early = removed(table)
    table.clock.advance(1)

    assert early.deleted == ()
    assert [one.key for one in early.younger] == sorted(ORPHANS)
    assert keys(removed(table)) == sorted(ORPHANS)


def test_a_file_in_another_folder_than_expected_stays_while_its_name_is_needed() -> None:
    table = eventful()
    (live,) = (key for key in table.files() if key.startswith("bucket-0/") and "kept" in table.store.read(key).decode())
    table.store.write({f"bucket-5/{live.partition('/')[2]}": b"elsewhere"})
    table.clock.advance(25 * HOUR)

    assert keys(removed(table)) == []


def test_files_of_a_plan_that_is_deleting_are_left_to_it() -> None:
    table = eventful()
    (key,) = (key for key in table.objects() if key.startswith("lakehouse/plan-"))
    document = json.loads(table.store.read(key))
    assert document["stage"] == "waiting"
    table.clock.advance(401 * 24 * HOUR)
    died = FaultyStore(table.store, on_call=dies_at_the_first_data_file)
    with pytest.raises(ProcessDied):
        table.copy().over(died).expire(retain_max=1)
    assert json.loads(table.store.read(key))["stage"] == "deleting"

    assert keys(removed(table)) == []
    table.expire(retain_max=1)
    assert key not in table.objects()
    assert removed(table) == OrphanRemoval()


def dies_at_the_first_data_file(call: Call) -> None:
    if call.method == "delete" and call.key.startswith("bucket-"):
        raise ProcessDied


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("snapshot", CorruptTable),
        ("latest snapshot is missing", CorruptTable),
        ("all snapshots are missing", CorruptTable),
        ("latest snapshot of a branch is missing", CorruptTable),
        ("rolled back below the boundary", CorruptTable),
        ("manifest list", CorruptTable),
        ("tag", CorruptTable),
        ("kept commit", CorruptTable),
        ("half a branch", CorruptTable),
        ("pin", UnsupportedFeature),
    ],
)
def test_nothing_is_deleted_when_a_root_cannot_be_read(damage: str, error: type[LakehouseError]) -> None:
    table = eventful()
    leave_orphans(table)
    table.clock.advance(25 * HOUR)
    latest = table.context.snapshots.latest()
    assert latest is not None
    match damage:
        case "snapshot":
            table.store.write({f"snapshot/snapshot-{latest.id}": b"{"})
        case "latest snapshot is missing":
            table.store.delete([f"snapshot/snapshot-{latest.id}"])
        case "all snapshots are missing":
            table.store.delete(key for key in table.objects() if key.startswith("snapshot/"))
        case "latest snapshot of a branch is missing":
            table.store.write({"branch/branch-b/snapshot/LATEST": b"3"})
        case "rolled back below the boundary":
            # As another engine rolls a table back to a tag, and commits again.
            last = json.loads(table.store.read(f"snapshot/snapshot-{latest.id}"))
            table.store.delete(key for key in table.objects() if key.startswith(("snapshot/", "lakehouse/plan-")))
            table.store.write({"snapshot/snapshot-1": table.store.read("tag/tag-first")})
            table.store.write({"snapshot/snapshot-2": json.dumps({**last, "id": 2}).encode()})
            table.store.write({"snapshot/LATEST": b"2"})
        case "manifest list":
            table.store.delete([f"manifest/{latest.base_manifest_list}"])
        case "tag":
            table.store.write({"tag/tag-first": b"{"})
        case "kept commit":
            (key,) = (key for key in table.objects() if key.startswith("lakehouse/pending/"))
            table.store.write({key: b"{"})
        case "half a branch":
            table.store.delete(["branch/branch-b/schema/schema-0"])
        case _:
            table.store.write({"lakehouse/pins/pin-1": b"{}"})
    before = table.objects()

    with pytest.raises(error):
        removed(table.over(table.store))
    assert table.objects() == before


def test_the_search_ends_also_when_others_commit_to_a_damaged_table_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = eventful()
    latest = table.context.snapshots.latest()
    assert latest is not None
    writer = table.copy().over(table.store)
    writer.context.snapshots.latest()
    lost = table.store.read(f"manifest/{latest.base_manifest_list}")
    collected = orphans.collect_roots

    def collect_after_a_commit(store: ObjectStore, boundaries: Boundaries) -> Roots:
        table.store.write({f"manifest/{latest.base_manifest_list}": lost})
        writer.write({1: "more"})
        table.store.delete([f"manifest/{latest.base_manifest_list}"])
        return collected(store, boundaries)

    monkeypatch.setattr(orphans, "collect_roots", collect_after_a_commit)
    with pytest.raises(StorageUnavailable, match=r"In 5 attempts, between which other roots came or went\."):
        removed(table.over(table.store))


def test_commits_without_any_snapshot_are_no_orphans_because_the_snapshots_may_be_lost() -> None:
    table = SmallTable()
    table.write({1: "a"})
    table.store.delete(["snapshot/snapshot-1", "snapshot/LATEST"])
    table.clock.advance(25 * HOUR)
    before = table.objects()

    with pytest.raises(CorruptTable, match="found files of commits in the folder manifest, and no snapshot"):
        removed(table.over(table.store))
    assert table.objects() == before


def test_files_that_were_staged_in_a_table_without_commits_are_orphans() -> None:
    table = SmallTable()
    table.data_file({1: "a"})
    table.clock.advance(25 * HOUR)

    assert [one.kind for one in removed(table).deleted] == ["bucket"]


def test_a_snapshot_below_the_boundary_keeps_its_files_while_it_is_there() -> None:
    table = SmallTable()
    for number in range(3):
        table.overwrite({number: "x"})
    table.context.snapshots.boundary.advance(3)
    table.clock.advance(25 * HOUR)

    assert removed(table.over(table.store)) == OrphanRemoval()


def test_a_branch_is_asked_for_by_its_table() -> None:
    table = eventful()

    with pytest.raises(InvalidRequest, match="found the branch b"):
        remove_orphans(table.context.on_branch("b"), min_age_millis=DAY_MILLIS)


def commit_what_was_kept(table: SmallTable) -> None:
    staged = pending_of(table)
    commit(table.context, staged)
    remove(table.store, [table.context.layout.staged_commit(staged.commit_user, staged.commit_identifier)])


def pending_of(table: SmallTable) -> StagedCommit:
    (key,) = (key for key in table.objects() if key.startswith("lakehouse/pending/"))
    return StagedCommit.from_json(table.store.read(key).decode().partition("\n")[0])


def expire_and_finish(table: SmallTable) -> None:
    table.write({1: "new"})
    table.compact()
    table.expire(retain_max=1)
    table.delete_tag("first")


MEANWHILE: dict[str, Callable[[SmallTable], object]] = {
    "a kept commit is committed": commit_what_was_kept,
    "a tag is renamed": lambda table: rename_tag(table.context, "first", "second"),
    "rows are written, compacted and expired": expire_and_finish,
}


# `make test-long` takes all.
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if "kept" in what else pytest.mark.long) for what in MEANWHILE]
)
def test_whatever_is_done_between_two_calls_no_file_that_is_needed_goes(what: str, every: int) -> None:
    original = eventful()
    for number in range(1, len(calls(original)) + 1, every):
        table = aged(original)

        def interrupt(call: Call, number: int = number, table: SmallTable = table) -> None:
            if call.number == number:
                MEANWHILE[what](table)

        store = FaultyStore(table.store, on_call=interrupt)
        found = remove_orphans(context_of(store, table.clock), min_age_millis=DAY_MILLIS)

        assert keys(found) == sorted(ORPHANS), f"call {number}"
        assert table.findings() == [], f"call {number}"
        if any(key.startswith("lakehouse/pending/") for key in table.objects()):
            commit_what_was_kept(table)
            assert table.findings() == [], f"call {number}"


FAULTS = [
    pytest.param(FaultKind.DIE_BEFORE, marks=pytest.mark.long),
    pytest.param(FaultKind.DIE_AFTER, marks=pytest.mark.long),
    pytest.param(FaultKind.FAIL_BEFORE, marks=pytest.mark.long),
    FaultKind.FAIL_AFTER,
]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_removal_that_fails_at_any_call_is_finished_by_the_next(kind: FaultKind) -> None:
    original = eventful()
    before = original.objects()
    for call in calls(original):
        table = aged(original)
        store = FaultyStore(table.store, [Fault(at=call.number, kind=kind)])
        with suppress(ProcessDied, StorageUnavailable):
            remove_orphans(context_of(store, table.clock), min_age_millis=DAY_MILLIS)

        assert table.objects() >= before, str(call)
        removed(table)
        assert table.objects() == before | {*STRANGERS}, str(call)


def calls(original: SmallTable) -> Sequence[Call]:
    table = aged(original)
    store = FaultyStore(table.store)
    assert remove_orphans(context_of(store, table.clock), min_age_millis=DAY_MILLIS).deleted
    return store.calls
