"""`postpone.batch-write-fixed-bucket`: a write brings its rows into their buckets, where no others wait."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.planning import waiting_rows
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import catalog_over
from tests.pairs import in_turn

Row = tuple[str, int, int]
COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}
PLACES = "postpone.batch-write-fixed-bucket"


def made(**options: str) -> tuple[MemoryStore, lc.Table]:
    store = MemoryStore(clock=VirtualClock())
    catalog = catalog_over(store)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "-2", "postpone.default-bucket-num": "2", PLACES: "true", **options},
    )
    return store, table


def rows(*found: Row) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def seen(table: lc.Table) -> list[Row]:
    return sorted((row["p"], row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def waiting(table: lc.Table) -> dict[str, int]:
    """Return how many rows wait in each partition."""
    found: dict[str, int] = {}
    for file in table.files():
        if file.bucket < 0:
            found[str(file.partition["p"])] = found.get(str(file.partition["p"]), 0) + file.row_count
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row"},
        {"changelog-producer": "input"},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
    ],
)
def test_a_write_is_seen_at_once(options: dict[str, str]) -> None:
    store, table = made(**options)
    first = [("a", k, k) for k in range(9)]

    table.write(rows(*first))
    table.write(rows(("b", 1, 1)))

    assert seen(table) == [*first, ("b", 1, 1)]
    assert waiting(table) == {}
    assert {file.total_buckets for file in table.files()} == {2}
    assert not [info.key for info in store.list("") if "bucket-postpone" in info.key]
    assert table.verify(data=True).findings == ()
    assert sorted(table.changes(0).to_arrow()["k"].to_pylist()) == sorted(k for _, k, _ in seen(table))


@pytest.mark.parametrize("value", ["false", None])
def test_rows_wait_where_the_table_says_so_or_nothing(value: str | None) -> None:
    _, table = made(**({PLACES: value} if value else {}))
    if value is None:
        table.alter(lc.RemoveOption(PLACES))

    table.write(rows(("a", 1, 1)))

    assert (seen(table), waiting(table)) == ([], {"a": 1})


def test_a_new_partition_gets_the_number_that_a_compaction_would_give_and_keeps_it() -> None:
    _, table = made(**{"postpone.target-row-num-per-bucket": "4"})
    table.alter(lc.RemoveOption("postpone.default-bucket-num"))

    table.write(rows(*(("a", k, k) for k in range(9)), ("b", 1, 1)))
    table.write(rows(*(("a", k, 0) for k in range(2, 40))))

    counts = {(file.partition["p"], file.total_buckets) for file in table.files()}
    assert counts == {("a", 3), ("b", 1)}
    assert seen(table) == [("a", 0, 0), ("a", 1, 1), *(("a", k, 0) for k in range(2, 40)), ("b", 1, 1)]


def test_rows_wait_behind_others_that_wait() -> None:
    _, table = made(**{PLACES: "false"})
    table.write(rows(("a", 1, 1), ("a", 2, 2)))
    table.alter(lc.SetOption(PLACES, "true"))

    table.write(rows(("a", 1, 10), ("b", 1, 10)))

    assert (seen(table), waiting(table)) == ([("b", 1, 10)], {"a": 3})
    table.compact()
    assert seen(table) == [("a", 1, 10), ("a", 2, 2), ("b", 1, 10)]


def test_rows_that_were_staged_for_buckets_do_not_pass_others_that_came_to_wait() -> None:
    store, table = made()
    staged = table.stage(rows(("a", 1, 1)), commit_user="job", commit_identifier=1)
    other = catalog_over(store, 1).table("db.t")
    other.alter(lc.SetOption(PLACES, "false"))
    other.write(rows(("a", 1, 2)))

    with pytest.raises(lc.CommitConflict, match="staged for buckets when none waited"):
        table.commit(staged)
    other.alter(lc.SetOption(PLACES, "true"))
    table.commit(table.stage(rows(("a", 1, 3)), commit_user="job", commit_identifier=1))

    assert waiting(table) == {"a": 2}
    table.compact()
    assert seen(table) == [("a", 1, 3)]


def test_of_two_writes_at_once_the_later_commit_wins_also_over_rows_that_were_moved_meanwhile() -> None:
    store, table = made()
    table.write(rows(("a", 1, 0)))
    first = table.stage(rows(("a", 1, 1)), commit_user="first", commit_identifier=1)
    second = table.stage(rows(("a", 1, 2)), commit_user="second", commit_identifier=1, behind=[first])
    other = catalog_over(store, 1).table("db.t")
    other.alter(lc.SetOption(PLACES, "false"))
    other.write(rows(*(("a", 1, 100 + number) for number in range(5))))
    other.compact()

    table.commit(first)
    table.commit(second)

    assert seen(table) == [("a", 1, 2)]
    assert table.verify(data=True).findings == ()


def test_a_new_partition_has_the_number_of_buckets_of_the_first_of_several_commits() -> None:
    _, table = made(**{"postpone.target-row-num-per-bucket": "1"})
    table.alter(lc.RemoveOption("postpone.default-bucket-num"))
    many = rows(*(("a", k, k) for k in range(5)))
    first = table.stage(rows(("a", 1, 0), ("a", 2, 0)), commit_user="job", commit_identifier=1)
    second = table.stage(many, commit_user="job", commit_identifier=2, behind=[first])

    table.commit(first)
    table.commit(second)

    assert seen(table) == [("a", k, k) for k in range(5)]
    assert {file.total_buckets for file in table.files()} == {2}


@pytest.mark.parametrize("theirs", ["true", "false"])
def test_a_write_whose_partition_others_changed_meanwhile_is_staged_again(theirs: str) -> None:
    for moment in range(1, 60, 3):
        store, table = made(**{"postpone.target-row-num-per-bucket": "1"})
        table.alter(lc.RemoveOption("postpone.default-bucket-num"))
        acted: list[int] = []

        def act(call: Call, at: int = moment, store: Any = store, acted: Any = acted) -> None:
            if call.number == at and not acted:
                acted.append(at)
                other = catalog_over(store, 1).table("db.t")
                other.alter(lc.SetOption(PLACES, theirs))
                other.write(rows(("a", 1, 9)))

        catalog_over(FaultyStore(store, on_call=act), 2).table("db.t").write(rows(*(("a", k, k) for k in range(3))))
        if not acted:
            return
        left = catalog_over(store, 3).table("db.t")
        left.compact()

        # Either write may be the last one.
        assert seen(left) in ([("a", k, k) for k in range(3)], [("a", 0, 0), ("a", 1, 9), ("a", 2, 2)])
    raise AssertionError("the write took more calls than were tried")


def test_changes_of_a_write_keep_their_order_when_its_last_part_is_moved_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, table = made(**{"changelog-producer": "input", "target-file-row-num": "1"})
    run = LocalEngine.run
    monkeypatch.setattr(waiting_rows, "_PART_BYTES", 1)
    monkeypatch.setattr(LocalEngine, "run", lambda *call: reversed(list(run(*call))))

    table.write(rows(*(("a", 1, v) for v in range(4))))

    assert table.changes(0).to_arrow()["v"].to_pylist() == [0, 1, 2, 3]
    assert seen(table) == [("a", 1, 3)]


# How the partition a is replaced, and whether b stays.
OVERWRITES: dict[str, tuple[Callable[[lc.Table], object], bool]] = {
    "dynamic": (lambda table: table.overwrite(rows(("a", 3, 3)), dynamic=True), True),
    "static": (lambda table: table.overwrite(rows(("a", 3, 3)), dynamic=False), False),
    "partition": (lambda table: table.overwrite(rows(("a", 3, 3)), partition={"p": "a"}), True),
    "condition": (lambda table: table.overwrite(rows(("a", 3, 3)), where="p = 'a'"), True),
}


@pytest.mark.parametrize("way", OVERWRITES)
def test_an_overwrite_is_seen_at_once_and_removes_what_waits(way: str) -> None:
    overwrite, stays = OVERWRITES[way]
    _, table = made(**{PLACES: "false", "changelog-producer": "input"})
    table.write(rows(("a", 1, 1), ("b", 1, 1)))
    table.compact()
    table.write(rows(("a", 2, 2), ("b", 2, 2)))
    table.alter(lc.SetOption(PLACES, "true"), lc.SetOption("postpone.default-bucket-num", "3"))

    before = table.snapshot()
    overwrite(table)

    left = [("b", 1, 1)] if stays else []
    assert seen(table) == [("a", 3, 3), *left]
    assert waiting(table) == ({"b": 1} if stays else {})
    assert {file.total_buckets for file in table.files() if file.partition["p"] == "a"} == {3}
    assert before is not None
    assert table.changes(before.id).to_arrow().num_rows == 0


def test_a_write_that_fails_leaves_no_file() -> None:
    store, table = made()
    table.write(rows(("a", 1, 1)))
    before = {info.key for info in store.list("")}

    with pytest.raises(lc.InvalidRequest):
        table.overwrite(rows(("a", 2, 2), ("b", 2, 2)), partition={"p": "a"})

    assert {info.key for info in store.list("")} == before


@pytest.mark.parametrize("seed", in_turn(2, range(4)))
def test_writes_that_wait_and_others_leave_the_newest_rows(seed: int) -> None:
    random, (_, table) = Random(seed), made()
    newest: dict[tuple[str, int], int] = {}
    for step in range(25):
        table.alter(lc.SetOption(PLACES, random.choice(("true", "true", "false"))))
        given = [(random.choice("ab"), k, step) for k in random.sample(range(12), 3)]
        table.write(rows(*given))
        newest |= {(p, k): v for p, k, v in given}
        if random.random() < 0.3:
            table.compact(full=random.random() < 0.5)
        if not waiting(table):
            assert seen(table) == sorted((*key, v) for key, v in newest.items())

    table.compact()
    assert seen(table) == sorted((*key, v) for key, v in newest.items())
    assert table.verify(data=True).findings == ()
