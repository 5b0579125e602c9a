"""Commits that were staged before another engine rolled the table back, when other snapshots have the ids again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, FaultyStore, MemoryStore
from tests.pairs import in_turn

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
KEYED = {
    "deduplicate": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
}
Commit = Callable[[lc.Table, lc.StagedCommit], object]
COMMITS: dict[str, Commit] = {
    "alone": lambda table, staged: table.commit(staged),
    "together": lambda table, staged: table.commit_together([staged], commit_user="group", commit_identifier=1),
    "from its text": lambda table, staged: table.commit(lc.StagedCommit.from_json(staged.to_json())),
}


class Place:
    """A warehouse in memory with the table `db.t` of two snapshots; row k has the number of its snapshot."""

    def __init__(self, *, keyed: bool = True, **options: str) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        catalog = Catalog(self.store, clock=self.clock)
        catalog.create_database("db")
        keys = {"primary_keys": ["k"]} if keyed else {}
        buckets = {"bucket": "1"} if keyed else {}
        catalog.create_table("db.t", COLUMNS, options={**buckets, **options}, **keys)  # type: ignore[arg-type]
        for number in (1, 2):
            self.write([(number, f"{number}")])

    @property
    def table(self) -> lc.Table:
        """The table as another process opens it."""
        return Catalog(self.store, clock=self.clock).table("db.t")

    def write(self, rows: Sequence[tuple[int, str]]) -> None:
        self.clock.advance(1)
        self.table.write([{"k": key, "v": value} for key, value in rows])

    def stage(self, rows: Sequence[tuple[int, str]], *, user: str = "late", **more: object) -> lc.StagedCommit:
        data = [{"k": key, "v": value} for key, value in rows]
        return self.table.stage(data, commit_user=user, commit_identifier=1, **more)  # type: ignore[arg-type]

    def roll_back(self, to: int = 1) -> None:
        """Remove the snapshots above `to`, as another engine does."""
        latest = self.table.snapshot()
        assert latest is not None
        self.store.delete([f"db.db/t/snapshot/snapshot-{id}" for id in range(to + 1, latest.id + 1)])
        self.store.write({"db.db/t/snapshot/LATEST": b"%d" % to})

    def rows(self) -> list[tuple[int, str]]:
        return sorted((row["k"], row["v"]) for row in self.table.scan().to_arrow().to_pylist())

    def replayed(self) -> list[tuple[int, str]]:
        """Return the rows that the changes of all snapshots make."""
        rows = {}
        for row in self.table.changes(after=0).to_arrow().to_pylist():
            if row["rowkind"] in ("+I", "+U"):
                rows[row["k"]] = row["v"]
            elif row["rowkind"] == "-D":
                del rows[row["k"]]
        return sorted(rows.items())


# The rows of other writers after the rollback have higher sequence numbers than the staged ones.
OTHERS = [(key, "other") for key in range(5, 25)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "writes", "commit"),
    [
        *in_turn(4, list(product(KEYED, (1, 3), COMMITS))),
        # More snapshots than are read one by one.
        *in_turn(len(COMMITS), [("deduplicate", 33, commit) for commit in COMMITS], first=1),
    ],
)
def test_rows_that_are_committed_after_a_rollback_are_the_newest(kind: str, writes: int, commit: str) -> None:
    place = Place(**KEYED[kind])
    staged = place.stage([(7, "staged")])
    place.roll_back()
    for _ in range(writes):
        place.write(OTHERS)

    COMMITS[commit](place.table, staged)

    place.table.compact(full=True)
    assert place.rows() == sorted({1: "1", **dict(OTHERS), 7: "staged"}.items())
    if kind in ("input", "lookup"):
        assert place.replayed() == place.rows()
    assert not place.table.verify().findings


def test_parts_of_both_histories_are_the_newest_in_their_order() -> None:
    place = Place()
    place.write([(3, "3")])
    before = place.stage([(7, "before"), (8, "before")], user="before")
    place.roll_back()
    place.write([(7, "between"), (9, "between")])
    after = place.stage([(8, "after")], user="after")

    place.table.commit_together([before, after], commit_user="group", commit_identifier=1)

    assert place.rows() == [(1, "1"), (7, "before"), (8, "after"), (9, "between")]


@pytest.mark.parametrize("writes", [1, 2])
def test_an_overwrite_whose_base_is_another_snapshot_now_is_refused(writes: int) -> None:
    place = Place()
    staged = place.stage([(7, "staged")], mode=lc.StaticOverwrite({}))
    place.roll_back()
    for _ in range(writes):
        place.write([(9, "other")])

    with pytest.raises(
        lc.CommitConflict, match=r"late/1: .* staged at snapshot 2, and another snapshot has this id now"
    ):
        place.table.commit(staged)

    assert place.rows() == [(1, "1"), (9, "other")]


def test_an_overwrite_without_the_time_of_its_base_is_committed_as_before() -> None:
    place = Place()
    staged = replace(place.stage([(7, "staged")], mode=lc.StaticOverwrite({})), base_time_millis=None)

    place.table.commit(staged)

    assert place.rows() == [(7, "staged")]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_file_that_was_committed_after_the_rollback_is_not_committed_again(keyed: bool) -> None:
    place = Place(keyed=keyed)
    staged = place.stage([(7, "staged")])
    place.roll_back()
    place.clock.advance(1)
    place.table.commit(replace(staged, commit_user="other"))
    assert place.table.snapshot().id == staged.base_snapshot_id  # type: ignore[union-attr]

    with pytest.raises(lc.CommitConflict, match="another user or identifier committed the same file"):
        place.table.commit(staged)


def test_a_text_without_the_time_of_its_base_is_compared_with_a_table_that_was_rolled_back_below_it() -> None:
    place = Place()
    place.write([(3, "3")])
    staged = replace(place.stage([(7, "staged")]), base_time_millis=None)
    place.roll_back()
    place.table.commit(replace(staged, commit_user="other"))
    assert place.table.snapshot().id < staged.base_snapshot_id  # type: ignore[union-attr, operator]

    with pytest.raises(lc.CommitConflict, match="another user or identifier committed the same file"):
        place.table.commit(staged)


def calls_of_a_commit() -> int:
    place = Place()
    calls: list[Call] = []
    table = Catalog(FaultyStore(place.store, on_call=calls.append), clock=place.clock).table("db.t")
    table.commit(place.stage([(7, "staged")]))
    return len(calls)


@pytest.mark.parametrize("number", in_turn(4, range(1, calls_of_a_commit() + 1)))
def test_a_table_that_is_rolled_back_during_the_commit_has_the_row_or_has_lost_it_with_the_snapshot(
    number: int,
) -> None:
    place = Place()
    staged = place.stage([(7, "staged")])
    calls = 0

    def roll_back(_: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            place.roll_back()
            place.write(OTHERS)
            place.write(OTHERS)

    table = Catalog(FaultyStore(place.store, on_call=roll_back), clock=place.clock).table("db.t")
    report = table.commit(staged)

    there = place.store.read(f"db.db/t/snapshot/snapshot-{report.snapshot_id}")
    if b'"late"' in there:
        place.table.compact(full=True)
        assert dict(place.rows())[7] == "staged"
    else:
        # The snapshot was removed with the others after it was published.
        assert dict(place.rows())[7] == "other"
    assert not place.table.verify().findings
