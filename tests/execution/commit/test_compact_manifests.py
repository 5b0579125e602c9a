"""Manifests are merged without any reader seeing a difference: inside commits, and by the verb of its own."""

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitTimeout, StorageUnavailable
from lakehouse_core.execution.commit.compact_manifests import compact_manifests
from lakehouse_core.format.avro_file import read_avro, write_avro
from lakehouse_core.metadata import manifest_writer
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, ProcessDied
from lakehouse_core.storage.faulty import Call
from lakehouse_core.table.checksums import checksum
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.layout import MAIN, manifest_key
from lakehouse_core.table.manifest import ManifestEntry, encode_manifest
from lakehouse_core.table.manifest.avro_schemas import MANIFEST_SCHEMA
from lakehouse_core.table.staged_commit import StagedCommit
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table
from tests.pairs import in_turn
from tests.planning.change_vocabulary import append_schema, data_file, key_schema, partition

MANY = {"manifest.merge_min_count": "100000"}


def filled(commits: int, **options: str) -> CommitTable:
    """Return a key table with one new file per commit and, so far, no merged manifest."""
    table = commit_table(key_schema(**(MANY | options)))
    for identifier in range(1, commits + 1):
        table.commit(table.append(f"f{identifier}", identifier=identifier))
    return table


def compacted(table: CommitTable, identifier: int, before: list[str], after: str) -> StagedCommit:
    message = table.message(
        compact_before=tuple(data_file(name, 1, 9) for name in before),
        compact_after=(data_file(after, identifier * 10, identifier * 10 + 9, level=5),),
    )
    return table.staged(message, user="compactor", identifier=identifier)


def entries(table: CommitTable) -> list[ManifestEntry]:
    """Return the live entries with their statistics, sorted by file name."""
    latest = table.context.snapshots.latest()
    assert latest is not None
    return sorted(table.context.manifests.live_entries(latest, with_stats=True), key=lambda one: one.file.file_name)


@pytest.mark.parametrize(
    ("options", "is_compacted"), [({}, False), ({"manifest.merge_min_count": "4"}, False), ({}, True)]
)
def test_every_manifest_has_its_checksum_in_its_list_however_it_was_made(
    options: dict[str, str], is_compacted: bool
) -> None:
    table = filled(10, **options)
    if is_compacted:
        table.commit(compacted(table, 11, ["f1", "f2"], "c"))
        compact_manifests(
            table.context,
        )
    latest = table.context.snapshots.latest()
    assert latest is not None

    for manifest in table.context.manifests.of(latest):
        assert manifest.checksum == checksum(table.store.read(manifest_key(manifest.file_name)))


def test_a_table_of_many_commits_shrinks_to_one_manifest() -> None:
    table = filled(100)
    before = entries(table)
    result = compact_manifests(table.context, properties={"lakehouse.run-id": "r"})

    assert (result.manifests_before, result.manifests_after, result.manifests_merged) == (100, 1, 100)
    assert (result.entries_before, result.entries_after, result.noop_reason) == (100, 100, None)
    assert result.snapshot is not None
    assert (result.snapshot.id, result.snapshot.commit_kind) == (101, CommitKind.COMPACT)
    assert result.snapshot.properties["lakehouse.run-id"] == "r"
    assert entries(table) == before
    assert table.unreferenced() == []


def test_the_snapshot_changes_no_count_and_names_an_empty_delta() -> None:
    table = filled(3)
    before = table.context.snapshots.latest()
    result = compact_manifests(
        table.context,
    )

    assert before is not None
    assert result.snapshot is not None
    assert result.snapshot.total_record_count == before.total_record_count
    assert result.snapshot.delta_record_count == 0
    assert table.context.manifests.delta(result.snapshot) == []
    # Who committed what is carried on.
    assert table.commit(table.append("again", identifier=3)).replayed


def test_deleted_files_leave_no_entry_behind() -> None:
    table = filled(20)
    for number in range(1, 6):
        table.commit(compacted(table, number, [f"f{number}", f"f{number + 5}"], f"c{number}"))
    before, live = entries(table), table.live()
    result = compact_manifests(
        table.context,
    )

    assert (result.entries_before, result.entries_after) == (20 + 5 * 3, 15)
    assert (result.manifests_after, table.live(), entries(table)) == (1, live, before)


@pytest.mark.parametrize("commits", [0, 1])
def test_nothing_to_do_says_so_and_makes_no_snapshot(commits: int) -> None:
    table = filled(commits)
    result = compact_manifests(
        table.context,
    )

    reason = "the table has no snapshot" if commits == 0 else "1 manifests with 1 entries need no merge"
    assert (result.snapshot, result.noop_reason) == (None, reason)
    assert table.context.snapshots.ids.latest() == (commits or None)
    assert table.unreferenced() == []


def test_a_second_time_there_is_nothing_to_do() -> None:
    table = filled(5)
    compact_manifests(
        table.context,
    )
    result = compact_manifests(
        table.context,
    )

    assert result.noop_reason == "1 manifests with 5 entries need no merge"
    assert table.context.snapshots.ids.latest() == 6


def test_a_dry_run_answers_the_same_and_writes_nothing() -> None:
    table = filled(10)
    table.commit(compacted(table, 1, ["f1", "f2"], "c"))
    before = {info.key for info in table.store.list("")}
    planned = compact_manifests(table.context, dry_run=True)

    assert {info.key for info in table.store.list("")} == before
    done = compact_manifests(
        table.context,
    )
    assert planned.snapshot is None
    for figure in ("manifests_before", "manifests_after", "manifests_merged", "entries_before", "entries_after"):
        assert getattr(planned, figure) == getattr(done, figure)


def test_other_manifests_keep_to_their_size() -> None:
    """With a tiny target several manifests are made, each about as large as asked."""
    table = commit_table(append_schema(**(MANY | {"manifest.target_file_size": "40 kb"})))
    for identifier in range(1, 4):
        files = tuple(data_file(f"f{identifier}-{number}-{random.Random(number).random()}") for number in range(3000))
        table.commit(table.staged(table.message(total_buckets=-1, new_files=files), identifier=identifier))
    before = entries(table)
    compact_manifests(
        table.context,
    )
    latest = table.context.snapshots.latest()

    assert latest is not None
    sizes = [one.file_size for one in table.context.manifests.of(latest)]
    assert all(20_000 < size < 80_000 for size in sizes[:-1])
    assert entries(table) == before


def test_partitions_without_deletes_are_left_alone() -> None:
    table = commit_table(append_schema(partitioned=True, **(MANY | {"manifest.target_file_size": "2 kb"})))
    for number, day in enumerate("11223", 1):
        files = tuple(data_file(f"f{number}-{random.Random(place).random()}") for place in range(60))
        message = table.message(in_partition=partition(day), total_buckets=-1, new_files=files)
        table.commit(table.staged(message, identifier=number))
    first = table.context.snapshots.latest()
    assert first is not None
    gone = table.context.manifests.live_entries(first, keep=lambda row, *_: row == partition("2"))[0].file
    compaction = table.message(
        in_partition=partition("2"), total_buckets=-1, compact_before=(gone,), compact_after=(data_file("c"),)
    )
    table.commit(table.staged(compaction, user="c"))
    before = [one.file_name for one in table.context.manifests.of(first)]
    live = entries(table)
    result = compact_manifests(
        table.context,
    )

    assert result.snapshot is not None
    after = [one.file_name for one in table.context.manifests.of(result.snapshot)]
    # Of the two manifests of that partition only the one that lost a file is written anew.
    assert [name for name in before if name in after] == [*before[:2], *before[3:]]
    assert entries(table) == live


def test_a_commit_in_between_is_kept_and_so_is_the_merge() -> None:
    for moment in range(1, 40):
        table = filled(4)
        later = table.append("later", user="other")
        moved = []

        def move(call: Call, at: int = moment, work: Any = table.commit, moved: Any = moved, one: Any = later) -> None:
            if call.number == at:
                moved.append(work(one))

        view = CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=3))
        result = compact_manifests(
            view.context,
        )
        if not moved:
            break

        assert table.live() == "f1@0 f2@0 f3@0 f4@0 later@0", f"call {moment}"
        assert result.snapshot is not None
        assert result.manifests_after <= 2
        assert table.unreferenced() == []
    else:
        raise AssertionError("it took more calls than were tried")


def test_of_two_at_once_the_later_finds_nothing_to_do_and_leaves_nothing_behind() -> None:
    for moment in range(1, 40):
        table = filled(4)
        done = []

        def overtake(call: Call, at: int = moment, one: Any = table, done: Any = done) -> None:
            if call.number == at:
                done.append(compact_manifests(one.context))

        view = CommitTable(FaultyStore(table.store, on_call=overtake), VirtualClock(seed=3))
        result = compact_manifests(view.context)
        if not done:
            break

        assert [result.snapshot is None, done[0].snapshot is None].count(True) == 1, f"call {moment}"
        assert table.context.snapshots.ids.latest() == 5
        assert table.unreferenced() == []
    else:
        raise AssertionError("it took more calls than were tried")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kind",
    in_turn(
        2, [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER, FaultKind.ENOSPC]
    ),
)
def test_a_fault_at_any_call_changes_no_row(kind: FaultKind) -> None:
    probe = FaultyStore(filled(4).store)
    view = CommitTable(probe, VirtualClock(seed=3))
    compact_manifests(
        view.context,
    )
    for call in range(1, len(probe.calls) + 1):
        table = filled(4)
        view = CommitTable(FaultyStore(table.store, [Fault(at=call, kind=kind)]), VirtualClock(seed=3))
        with suppress(StorageUnavailable, CommitTimeout, ProcessDied):
            compact_manifests(
                view.context,
            )

        assert table.live() == "f1@0 f2@0 f3@0 f4@0", f"call {call}"
        again = compact_manifests(
            table.context,
        )
        assert again.manifests_after == 1
        assert table.context.snapshots.ids.latest() == 5


class TestInsideCommits:
    def test_small_manifests_are_merged_when_they_are_many(self) -> None:
        table = filled(11, **{"manifest.merge_min_count": "5"})
        latest = table.context.snapshots.latest()

        assert latest is not None
        assert len(table.context.manifests.of(latest)) <= 5
        assert len(entries(table)) == 11

    def test_a_full_merge_drops_what_was_deleted(self) -> None:
        options = {"manifest.full_compaction_threshold_size": "1 kb", "manifest.merge_min_count": "100"}
        table = filled(6, **options)
        table.commit(compacted(table, 1, ["f1", "f2"], "c"))
        table.commit(table.append("last", identifier=7))
        latest = table.context.snapshots.latest()

        assert latest is not None
        assert sum(one.num_deleted_files for one in table.context.manifests.base(latest)) == 0
        assert len(table.context.manifests.base(latest)) == 1
        assert table.live() == "c@5 f3@0 f4@0 f5@0 f6@0 last@0"

    @pytest.mark.parametrize("seed", in_turn(3, range(8)))
    def test_any_mixture_of_commits_reads_as_if_nothing_were_ever_merged(self, seed: int) -> None:
        chance = random.Random(seed)
        options = {
            "manifest.merge_min_count": str(chance.choice([2, 3, 7])),
            "manifest.target_file_size": chance.choice(["1 kb", "4 kb", "8 mb"]),
            "manifest.full_compaction_threshold_size": chance.choice(["1 kb", "10 kb", "16 mb"]),
        }
        table, plain = commit_table(key_schema(**options)), filled(0)
        fresh: list[str] = []
        for step in range(1, 25):
            if len(fresh) > 2 and chance.random() < 0.4:
                before = [fresh.pop(chance.randrange(len(fresh))) for _ in range(2)]
                for one in (table, plain):
                    one.commit(compacted(one, step, before, f"c{step}"))
            else:
                fresh.append(f"f{step}")
                for one in (table, plain):
                    one.commit(one.append(f"f{step}", identifier=step))
            if chance.random() < 0.1:
                compact_manifests(
                    table.context,
                )

            assert entries(table) == entries(plain), f"step {step}"


def test_manifests_of_another_engine_are_merged_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their Avro schemas have other names, so their blocks cannot be joined with ours."""

    def foreign(entries: Sequence[ManifestEntry], *, codec: str) -> bytes:
        schema = {**MANIFEST_SCHEMA, "namespace": "org.example"}
        return write_avro(schema, read_avro(encode_manifest(entries), "ours"), codec=codec)

    with monkeypatch.context() as patched:
        patched.setattr(manifest_writer, "encode_manifest", foreign)
        table = filled(2)
    table.commit(table.append("f3", identifier=3))
    before = entries(table)
    result = compact_manifests(
        table.context,
    )

    assert (result.manifests_before, result.manifests_after) == (3, 1)
    assert entries(table) == before


def test_what_was_applied_before_it_slept_is_not_taken_away_again() -> None:
    """The claim succeeded; before the boundary was read the id had expired, and others had built on its manifests."""
    table = filled(3)
    slept = []

    def sleep(call: Call) -> None:
        if call.key == "lakehouse/boundary" and "snapshot-4" in table.store.children("snapshot").files and not slept:
            slept.append(call.number)
            for identifier in (4, 5):
                table.commit(table.append(f"f{identifier}", identifier=identifier))
            table.context.snapshots.boundary.advance(6)
            table.store.delete([MAIN.snapshot(number) for number in range(1, 6)])

    view = CommitTable(FaultyStore(table.store, on_call=sleep), VirtualClock(seed=2))
    result = compact_manifests(
        view.context,
    )

    assert slept
    assert table.live(6) == table.live() == "f1@0 f2@0 f3@0 f4@0 f5@0"
    assert result.snapshot is not None
    assert result.snapshot.id == 4
