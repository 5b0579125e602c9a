"""rollback_to: the rows of an earlier state in a new snapshot, for every kind of table, whoever else is at work."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, ProcessDied
from lakehouse_core.table.snapshot import ROLLBACK_TAG, ROLLED_BACK_TO
from tests.execution.memory_place import Kind, MemoryPlace
from tests.pairs import in_turn

COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
VECTORS = {"deletion-vectors.enabled": "true"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
KINDS: dict[str, Kind] = {
    "append": ([], [], {"bucket": "-1"}),
    "append, vectors, partitions": ([], ["p"], {"bucket": "-1", **VECTORS}),
    "key": (["k"], [], {"bucket": "2"}),
    "key, partitions, lookup": (["p", "k"], ["p"], {"bucket": "1", "changelog-producer": "lookup"}),
    "key, vectors": (["k"], [], {"bucket": "2", **VECTORS}),
    "key, dynamic": (["k"], [], DYNAMIC),
    "key, aggregation": (["k"], [], {"bucket": "1", "merge-engine": "aggregation"}),
}
ROWS = [{"k": k, "p": k % 2, "v": "a"} for k in range(1, 9)]


class Place(MemoryPlace):
    """A table of one of the kinds."""

    def __init__(self, kind: str = "key", **options: str) -> None:
        super().__init__(COLUMNS, KINDS[kind], options)

    def rows(self, at: lc.ReadPoint | None = None) -> list[tuple[Any, ...]]:
        found = self.table().scan(at=at or lc.Latest()).to_arrow().to_pylist()
        return sorted((row["k"], row["p"], row["v"]) for row in found)

    def live(self) -> int:
        """Make a life of several snapshots, and return the last id."""
        table = self.table()
        table.write(ROWS)
        table.write([{"k": 1, "p": 1, "v": "b"}, {"k": 11, "p": 1, "v": "b"}])
        table.compact(full=True)
        if "merge-engine" not in table.schema.options:
            table.delete("k = 2 OR k = 11")
        table.overwrite([{"k": 2, "p": 0, "v": "c"}], dynamic=False)
        table.write([{"k": 3, "p": 1, "v": "d"}])
        table.compact(full=True)
        latest = table.snapshot()
        assert latest is not None
        return latest.id


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", in_turn(3, KINDS))
def test_a_table_has_the_rows_of_any_earlier_state_again_and_goes_on_from_there(kind: str) -> None:
    place = Place(kind)
    last = place.live()
    states = {snapshot.id: place.rows(lc.AtSnapshot(snapshot.id)) for snapshot in place.table().snapshots()}
    for number, target in enumerate((1, last - 1, 2, 3)):
        report = place.table().rollback_to(target)

        assert (report.rolled_back_to, report.commit_kind) == (target, "OVERWRITE")
        assert place.rows() == states[target]
        place.table().compact(full=True)
        rows = place.rows()
        # Where level 0 is hidden, a compaction shows what it holds.
        assert rows == states[target] or kind == "key, vectors"
        place.table().write([{"k": 100 + number, "p": 0, "v": "new"}])
        place.table().compact(full=True)
        assert place.rows() == sorted([*rows, (100 + number, 0, "new")])
        assert place.table().verify(data=True).findings == ()
    assert {id: place.rows(lc.AtSnapshot(id)) for id in states} == states


def test_the_state_is_named_by_a_snapshot_a_tag_a_time_or_a_watermark() -> None:
    place = Place()
    place.table().write([{"k": 1, "p": 0, "v": "a"}])
    first = place.table().snapshot()
    assert first is not None
    place.table().create_tag("first")
    place.table().write([{"k": 1, "p": 0, "v": "b"}])
    time = datetime.fromtimestamp(first.time_millis / 1000, UTC)

    for point in (1, lc.AtSnapshot(1), lc.AtTag("first"), lc.AsOf(time), lc.AtVersion("first")):
        assert place.table().rollback_to(point).rolled_back_to == 1
        assert place.rows() == [(1, 0, "a")]
        assert place.table().rollback_to(2).rolled_back_to == 2


def test_a_tag_is_brought_back_after_its_snapshot_has_expired() -> None:
    place = Place()
    place.table().write(ROWS)
    place.table().create_tag("first")
    place.table().overwrite([{"k": 1, "p": 0, "v": "b"}], dynamic=False)
    place.table().compact(full=True)
    place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))

    place.table().rollback_to(lc.AtTag("first"))
    place.table().delete_tag("first")
    place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))

    assert place.rows() == sorted((row["k"], row["p"], row["v"]) for row in ROWS)
    assert place.table().tags() == []
    assert place.table().verify(data=True).findings == ()


def test_the_report_tells_what_its_dry_run_told() -> None:
    place = Place()
    place.live()
    before = {info.key for info in place.store.list("")}

    plan = place.table().rollback_to(1, dry_run=True)

    assert {info.key for info in place.store.list("")} == before
    report = place.table().rollback_to(1, properties={"why": "a wrong load"})
    figures = ("files_added", "files_removed", "rows_added", "rows_removed", "bytes_added", "rolled_back_to")
    assert [getattr(plan, name) for name in figures] == [getattr(report, name) for name in figures]
    assert plan.dry_run
    assert plan.snapshot_id is None
    made = place.table().snapshot()
    assert made is not None
    assert made.id == report.snapshot_id
    assert (made.properties["why"], made.properties[ROLLED_BACK_TO]) == ("a wrong load", "1")
    assert made.rolled_back_delta == place.table().snapshots()[0].delta_manifest_list
    assert made.total_record_count == place.table().snapshots()[0].total_record_count


def test_a_table_that_has_the_state_already_gets_no_snapshot() -> None:
    place = Place()
    last = place.live()

    report = place.table().rollback_to(last)

    assert report.noop_reason == f"the table has the files of snapshot {last} already"
    assert [tag.name for tag in place.table().tags()] == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("point", "error", "message"),
    [
        (99, lc.NotFound, "Snapshot 99 does not exist yet"),
        (1, lc.SnapshotExpired, "Snapshot 1 is expired"),
        (0, lc.InvalidRequest, "ids start at 1"),
        (lc.AtTag("nix"), lc.NotFound, "Tag 'nix' does not exist"),
        (lc.AsOf("2001-01-01"), lc.SnapshotExpired, "No snapshot at 2001-01-01"),
        (lc.FromFileCreationTime("2001-01-01"), lc.InvalidRequest, "leaves out some files"),
        (True, lc.InvalidRequest, "expected a snapshot id"),
        ("eod", lc.InvalidRequest, r"lc\.AtTag\('eod'\)"),
    ],
)
def test_a_point_that_names_no_state_is_refused_and_changes_nothing(
    point: Any, error: type[Exception], message: str
) -> None:
    place = Place()
    place.live()
    place.table().expire_snapshots(retain_max=2, older_than=timedelta(0))
    before = {info.key for info in place.store.list("")}

    with pytest.raises(error, match=message):
        place.table().rollback_to(point)

    assert {info.key for info in place.store.list("")} == before


def test_tags_stay_until_no_snapshot_before_the_rollback_exists() -> None:
    place = Place()
    last = place.live()
    place.table().rollback_to(2)

    for retained in (last, 2):
        place.table().expire_tags(older_than=timedelta(0))
        place.table().expire_snapshots(retain_max=retained)
        (tag,) = place.table().tags()
        assert (tag.name.startswith(ROLLBACK_TAG), tag.snapshot_id) == (True, 2)
    plan = place.table().expire_snapshots(retain_max=1, older_than=timedelta(0), dry_run=True)
    report = place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))

    assert plan.tags_expired == report.tags_expired == (tag.name,)
    assert place.table().tags() == []
    assert place.table().verify(data=True).findings == ()


def test_a_killed_expiry_leaves_the_tags_while_a_snapshot_before_the_rollback_exists() -> None:
    lived = Place()
    lived.live()
    made = lived.table().rollback_to(2).snapshot_id
    assert made is not None
    without_tags = 0
    for number in count(1):
        place = lived.copy()
        faulty = FaultyStore(place.store, [Fault(at=number, kind=FaultKind.DIE_AFTER)])
        with suppress(ProcessDied):
            place.table(faulty).expire_snapshots(retain_max=1, older_than=timedelta(0))
        left = place.table().snapshots()[0].id
        without_tags += not place.table().tags()
        assert place.table().tags() or left == made, number
        if len(faulty.calls) < number:
            break
    assert without_tags > 0


def test_a_rollback_after_a_rollback_keeps_the_state_of_the_first_one_too() -> None:
    place = Place()
    last = place.live()
    place.table().rollback_to(2)
    place.table().write([{"k": 60, "p": 0, "v": "e"}])
    place.table().rollback_to(1)

    assert sorted(tag.snapshot_id for tag in place.table().tags()) == [1, 2, last + 1]


def test_the_tag_of_a_rollback_that_was_killed_ends_after_a_day() -> None:
    place = Place()
    place.live()

    def die(call: Call) -> None:
        if "manifest" in call.key:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.table(FaultyStore(place.store, on_call=die)).rollback_to(2)
    place.table().expire_snapshots()
    assert [tag.snapshot_id for tag in place.table().tags()] == [2]
    place.clock.advance(timedelta(days=1, seconds=1).total_seconds())
    place.table().expire_snapshots()

    assert place.table().tags() == []


def test_a_table_without_snapshots_cannot_be_rolled_back() -> None:
    with pytest.raises(lc.NotFound, match="there is no snapshot to roll back to"):
        Place().table().rollback_to(lc.Latest())


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_followers_see_no_change_by_the_rollback_and_every_change_after_it(producer: str) -> None:
    place = Place(**{"changelog-producer": producer})
    place.table().write([{"k": 1, "p": 0, "v": "a"}])
    place.table().write([{"k": 1, "p": 0, "v": "b"}])
    # Where a compaction makes the changes, the state is that after the first one.
    back = place.table().rollback_to(2 if producer == "lookup" else 1).snapshot_id
    assert back is not None
    place.table().write([{"k": 1, "p": 0, "v": "c"}])

    assert place.table().changes(after=back - 1, until=back).to_arrow().to_pylist() == []
    after = place.table().changes(after=back).to_arrow().to_pylist()
    told = [(row["rowkind"], row["v"]) for row in after]
    assert told == ([("-U", "a"), ("+U", "c")] if producer == "lookup" else [("+I", "c")])


@pytest.mark.parametrize("kind", ["append", "key", "key, dynamic"])
def test_rows_that_were_staged_before_a_rollback_are_committed_after_it(kind: str) -> None:
    place = Place(kind)
    place.live()
    staged = place.table().stage([{"k": 50, "p": 0, "v": "late"}], commit_user="late", commit_identifier=1)
    place.table().rollback_to(1)
    rows = place.rows()

    place.table().commit(staged)

    assert place.rows() == sorted([*rows, (50, 0, "late")])
    assert place.table().verify(data=True).findings == ()


def test_an_overwrite_that_was_staged_before_a_rollback_is_refused() -> None:
    place = Place()
    place.live()
    staged = place.table().stage(
        [{"k": 50, "p": 0, "v": "late"}], commit_user="late", commit_identifier=1, mode=lc.StaticOverwrite({})
    )
    place.table().rollback_to(1)

    with pytest.raises(lc.CommitConflict, match="files were added"):
        place.table().commit(staged)


def _wrote(table: lc.Table) -> None:
    table.write([{"k": 70, "p": 0, "v": "other"}])


def _rewrote(table: lc.Table) -> None:
    table.write([{"k": 70, "p": 0, "v": "other"}])
    table.compact(full=True)


def _expired(table: lc.Table) -> None:
    _rewrote(table)
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))


@pytest.mark.parametrize(
    "other",
    [pytest.param(_wrote, marks=pytest.mark.long), pytest.param(_rewrote, marks=pytest.mark.long), _expired],
)
def test_whoever_commits_or_expires_during_a_rollback_leaves_before_or_after_it(
    other: Callable[[lc.Table], None], every: int
) -> None:
    calls = 0
    lived = Place("key")
    lived.live()
    first = lived.rows(lc.AtSnapshot(1))
    counted = lived.copy()
    counting = FaultyStore(counted.store)
    counted.table(counting).rollback_to(1)
    for number in range(1, len(counting.calls) + 1, every):
        place = lived.copy()

        def interrupt(call: Call, number: int = number, place: Place = place) -> None:
            if call.number == number:
                other(place.table())

        try:
            place.table(FaultyStore(place.store, on_call=interrupt)).rollback_to(1)
        except lc.SnapshotExpired:
            assert other is _expired
            assert (70, 0, "other") in place.rows()
        else:
            # What was committed before the rollback is not in the state; what came after it is.
            assert [row for row in place.rows() if row[0] != 70] == first
        place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))
        assert place.table().verify(data=True).findings == ()
        assert place.table().tags() == []
        calls += 1
    assert calls * every > 40


def lost_by_java(table: lc.Table) -> set[str]:
    """Return the files of the latest state that Java's expiry of all snapshots before it deletes: those that a snapshot
    removes and the nearest tag before it does not have.
    """
    context = table._context
    names = {
        snapshot.id: {entry.file.file_name for entry in context.manifests.live_entries(snapshot)}
        for snapshot in [*context.snapshots.history(), *(tag.snapshot for tag in context.tags.all().values())]
    }
    tagged = sorted(tag.snapshot.id for tag in context.tags.all().values())
    *_, latest = context.snapshots.history()
    lost: set[str] = set()
    for before, after in pairwise(context.snapshots.history()):
        nearest = max((id for id in tagged if id < after.id), default=None)
        kept = set() if nearest is None else names[nearest]
        lost |= (names[before.id] - names[after.id] - kept) & names[latest.id]
    return lost


def test_a_rollback_tags_those_that_others_made_meanwhile() -> None:
    lived = Place("append")
    lived.table().write(ROWS)
    lived.table().overwrite([{"k": 1, "p": 0, "v": "b"}], dynamic=False)
    lived.table().create_tag("of the user")
    place = lived.copy()
    counting = FaultyStore(place.store)
    place.table(counting).rollback_to(1)
    for number in range(1, len(counting.calls) + 1):
        place = lived.copy()

        def interrupt(call: Call, number: int = number, place: Place = place) -> None:
            if call.number == number:
                place.table().rollback_to(1)
                place.table().overwrite([{"k": 2, "p": 0, "v": "c"}], dynamic=False)

        place.table(FaultyStore(place.store, on_call=interrupt)).rollback_to(1)

        assert lost_by_java(place.table()) == set(), number


@pytest.mark.parametrize("kind", ["append", "key", "key, dynamic"])
def test_no_manifest_of_the_base_deletes_a_file_because_java_would_take_it_for_deleted(kind: str) -> None:
    place = Place(kind)
    last = place.live()
    for target in (1, last, 2):
        place.table().rollback_to(target)

        *base, own = place.table().manifests()
        assert [manifest.num_deleted_files for manifest in base] == [0] * len(base)
        assert own.num_added_files > 0
