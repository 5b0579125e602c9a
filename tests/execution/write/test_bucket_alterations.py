"""A number of buckets for a table whose rows wait for theirs: whoever writes meanwhile and wherever the alteration
ends, the table can be read at each moment, and no acknowledged row is lost.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Self

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, ProcessDied
from tests.execution.branches.test_races import KILLS
from tests.execution.memory_place import MemoryPlace
from tests.pairs import each_with_one
from tests.paused import Paused

Verb = Callable[[lc.Table], object]
COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
REFUSED = (lc.CommitConflict, lc.InvalidRequest)


class Place(MemoryPlace):
    """A table with postponed buckets and one row, which has its bucket."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, (["k"], [], {"bucket": "-2", "postpone.default-bucket-num": "2"}), {})
        self.table().write([{"k": 1, "v": "first"}])
        self.table().compact()
        self.seeds = count(100)

    def copy(self) -> Self:
        twin = super().copy()
        twin.seeds = count(100)
        return twin

    def other(self) -> lc.Table:
        """The table as one more process opens it, with random numbers of its own."""
        clock = VirtualClock(seed=next(self.seeds), now_millis=self.clock.now_millis())
        return Catalog(self.store, clock=clock).table("db.t")

    def keys(self) -> list[int]:
        return sorted(row["k"] for row in self.other().scan().to_arrow().to_pylist())

    def check(self, *, acknowledged: bool, number: object) -> None:
        """Every row that was acknowledged is read once it was compacted, if it still waits; then the number comes."""
        table = self.other()
        waits = sum(bucket.waiting_row_count for bucket in table.buckets())
        assert not waits or table.schema.options["bucket"] == "-2", number
        assert 1 in self.keys(), number
        if waits:
            table.compact()
        assert self.keys() == ([1, 2] if acknowledged else [1]), number
        fix(table)
        table.write([{"k": 3, "v": "last"}])
        assert self.keys() == ([1, 2, 3] if acknowledged else [1, 3]), number
        assert "lakehouse.bucket.next" not in table.schema.options
        assert table.verify(data=True).findings == ()


def fix(table: lc.Table) -> None:
    table.alter(lc.SetOption("bucket", "2"))


def write(table: lc.Table) -> None:
    table.write([{"k": 2, "v": "second"}])


def overwrite(table: lc.Table) -> None:
    table.overwrite([{"k": 1, "v": "new"}, {"k": 2, "v": "new"}], dynamic=False)


def postpone(table: lc.Table) -> None:
    table.alter(lc.SetOption("bucket", "-2"))


def add_column(table: lc.Table) -> None:
    table.alter(lc.AddColumn("w", "INT"))


def calls_of(verb: Verb, place: Place) -> int:
    counting = FaultyStore(place.store)
    verb(place.table(counting))
    return len(counting.calls)


def is_done(verb: Verb, table: lc.Table) -> bool:
    try:
        verb(table)
    except REFUSED:
        return False
    return True


# `make test` takes these, `make test-long` the others.
QUICK = [(fix, write), (write, fix)]


@pytest.mark.parametrize(
    ("runs", "interrupts"),
    [
        pytest.param(*pair, marks=[pytest.mark.long] * (pair not in QUICK))
        for pair in [*QUICK, (fix, overwrite), (fix, add_column), (overwrite, fix), (fix, fix), (fix, postpone)]
    ],
)
def test_whoever_comes_between_any_two_calls_the_table_is_read_at_each_of_them(
    runs: Verb, interrupts: Verb, every: int
) -> None:
    made = Place()
    written = set()
    for number in range(1, calls_of(runs, made.copy()) + 1, every):
        place = made.copy()
        told: dict[Verb, bool] = {}

        def look(call: Call, number: int = number, place: Place = place, told: dict[Verb, bool] = told) -> None:
            if call.number == number:
                told[interrupts] = is_done(interrupts, place.other())
            if call.writes:
                # Raises if rows wait and `bucket` is a number.
                place.keys()

        told[runs] = is_done(runs, place.table(FaultyStore(place.store, on_call=look)))

        place.keys()
        is_written = told.get(write, told.get(overwrite, False))
        written.add(is_written)
        if overwrite in told and is_written:
            place.other().compact()
        place.check(acknowledged=is_written, number=number)
    if runs is write:
        # It stages its rows again.
        assert written == {True}
    else:
        assert written == ({True, False} if overwrite in (runs, interrupts) or interrupts is write else {False})


@pytest.mark.parametrize("step", [pytest.param(1, marks=[pytest.mark.long]), 29])
def test_an_alteration_and_a_write_that_pause_at_any_two_of_their_calls(step: int) -> None:
    """The write runs until one of its calls, the alteration until one of its own; then the write ends, or first the
    alteration does.
    """
    made = Place()
    ends = [
        (fixing, writing)
        for fixing in range(1, calls_of(fix, made.copy()) + 1)
        for writing in range(1, calls_of(write, made.copy()) + 1)
    ]
    outcomes = set()
    for fixing, writing in ends[::step]:
        place = made.copy()
        paused = Paused(place.store, lambda store, place=place: write(place.table(store)), before=writing)

        def end(call: Call, fixing: int = fixing, paused: Paused = paused) -> None:
            if call.number == fixing:
                paused.end()

        is_fixed = is_done(fix, place.table(FaultyStore(place.store, on_call=end)))
        paused.end()

        assert paused.error is None or isinstance(paused.error, REFUSED), (fixing, writing)
        is_written = paused.error is None
        outcomes.add((is_fixed, is_written))
        # The alteration looks at its end whether the table is there: a write that ends then begins with the number.
        assert place.keys() == [1] or (is_fixed and is_written), (fixing, writing)
        place.check(acknowledged=is_written, number=(fixing, writing))
    assert outcomes >= {(True, False), (False, True)}
    assert (False, False) not in outcomes


def test_an_alteration_that_the_store_refuses_leaves_no_announcement() -> None:
    made = Place()
    refused = 0
    for number in range(1, calls_of(fix, made.copy()) + 1):
        place = made.copy()
        try:
            fix(place.table(FaultyStore(place.store, [Fault(at=number, kind=FaultKind.ENOSPC)])))
        except lc.StorageUnavailable:
            refused += 1
            assert is_done(write, place.other()), number
            place.check(acknowledged=True, number=number)
    assert refused > 1


@pytest.mark.parametrize(("then", "kind"), each_with_one([write, fix, postpone, overwrite], KILLS, step=2))
def test_an_alteration_that_ends_anywhere_is_completed_or_taken_back(then: Verb, kind: FaultKind, every: int) -> None:
    made = Place()
    for number in range(1, calls_of(fix, made.copy()) + 1, every):
        place = made.copy()
        with suppress(lc.LakehouseError, ProcessDied):
            fix(place.table(FaultyStore(place.store, [Fault(at=number, kind=kind)])))
        assert place.keys() == [1], number

        is_known = False
        if then in (write, overwrite) and "lakehouse.bucket.next" in place.other().schema.options:
            with pytest.raises(lc.CommitConflict, match="set bucket to 2 again, or to -2, with which rows wait"):
                then(place.other())
        else:
            is_known = is_done(then, place.other()) and then in (write, overwrite)
        if then is overwrite and is_known:
            place.other().compact()
        if then is postpone:
            write(place.other())
            is_known = True
        place.check(acknowledged=is_known, number=number)


def test_rows_that_came_before_the_announcement_take_it_back() -> None:
    place = Place()
    announced = "db.db/t/schema/schema-1"

    def write_first(call: Call) -> None:
        if call.key == announced and call.writes:
            write(place.other())

    with pytest.raises(lc.InvalidRequest, match="1 row waits for its bucket, where"):
        fix(place.table(FaultyStore(place.store, on_call=write_first)))

    assert place.other().schema.id == 2
    assert "lakehouse.bucket.next" not in place.other().schema.options
    place.other().write([{"k": 4, "v": "waits too"}])
    place.other().compact()
    assert place.keys() == [1, 2, 4]


def test_a_state_with_waiting_rows_is_not_brought_back_after_the_announcement() -> None:
    place = Place()
    place.table().write([{"k": 2, "v": "second"}])
    place.table().compact()

    def die(call: Call) -> None:
        if call.key == "db.db/t/schema/schema-2":
            raise ProcessDied

    with pytest.raises(ProcessDied):
        fix(place.table(FaultyStore(place.store, on_call=die)))

    with pytest.raises(lc.InvalidRequest, match=r"option bucket is about to become 2, .* Set bucket to -2, roll back"):
        place.other().rollback_to(3)
    postpone(place.other())
    place.other().rollback_to(3)
    assert place.keys() == [1]


def test_the_announcement_is_no_option_of_a_user() -> None:
    place = Place()

    with pytest.raises(lc.InvalidRequest, match=r"lakehouse\.bucket\.next .*: set bucket to 4"):
        place.table().alter(lc.SetOption("lakehouse.bucket.next", "4"))
    with pytest.raises(lc.InvalidRequest, match=r"lakehouse\.bucket\.next .* leave it out"):
        MemoryPlace(COLUMNS, (["k"], [], {"bucket": "-2", "lakehouse.bucket.next": "4"}), {})


def test_a_table_without_snapshots_gets_its_number_too() -> None:
    place = MemoryPlace(COLUMNS, (["k"], [], {"bucket": "-2"}), {})
    fix(place.table())
    place.table().write([{"k": 1, "v": "a"}])

    assert [snapshot.commit_kind for snapshot in place.table().snapshots()] == ["COMPACT", "APPEND"]
    assert place.table().scan().count() == 1


def killed_after_its_announcement(place: Place) -> None:
    def die(call: Call) -> None:
        if call.key == "db.db/t/schema/schema-2":
            raise ProcessDied

    with pytest.raises(ProcessDied):
        fix(place.table(FaultyStore(place.store, on_call=die)))


@pytest.mark.parametrize("tagged", [True, False])
def test_a_branch_of_the_state_that_an_alteration_left_is_written_as_the_table_is(tagged: bool) -> None:
    place = Place()
    fix(place.table())
    table = place.table()
    latest = table.snapshots()[-1].id
    table.create_tag("t")
    table.create_branch("b", at=lc.AtTag("t") if tagged else latest)

    write(place.table().branch("b"))

    assert place.table().branch("b").schema.options["bucket"] == "2"
    assert place.table().branch("b").scan().count() == 2
    assert place.table().fast_forward("b").snapshot_id == latest + 1
    assert place.keys() == [1, 2]


def test_a_branch_of_a_state_with_waiting_rows_gets_no_number_from_a_later_alteration() -> None:
    place = Place()
    write(place.table())
    announced = "db.db/t/schema/schema-1"
    states: list[int] = []

    def die(call: Call) -> None:
        if call.key == announced and call.writes:
            write(place.other())
        if call.key == "db.db/t/schema/schema-2" and call.writes:
            raise ProcessDied

    place.table().compact()
    with pytest.raises(ProcessDied):
        fix(place.table(FaultyStore(place.store, on_call=die)))
    # A snapshot of the announced schema, in which a row still waits.
    place.other().compact_manifests()
    states.append(place.other().snapshots()[-1].id)
    assert place.other().snapshots()[-1].schema_id == 1
    place.other().compact()
    fix(place.other())

    place.table().create_branch("b", at=states[0])
    branch = place.table().branch("b")
    assert branch.scan().count() == 2
    postpone(branch)
    branch.compact()
    fix(branch)
    assert branch.scan().count() == 2


@pytest.mark.parametrize("change", [lc.SetOption("bucket", "2"), lc.AddColumn("w", "INT")])
def test_an_alteration_of_a_branch_that_was_deleted_meanwhile_is_not_acknowledged(change: lc.SetOption) -> None:
    made = Place()
    made.table().create_branch("b", at=made.table().snapshots()[-1].id)

    def change_branch(table: lc.Table) -> None:
        table.branch("b").alter(change)

    for number in range(1, calls_of(change_branch, made.copy()) + 1):
        place = made.copy()

        def delete(call: Call, number: int = number, place: Place = place) -> None:
            if call.number == number:
                place.other().delete_branch("b")

        with pytest.raises(lc.LakehouseError):
            change_branch(place.table(FaultyStore(place.store, on_call=delete)))
        assert place.other().branches() == [], number
        assert [info.key for info in place.store.list("db.db/t/branch") if "/schema" in info.key] == [], number
        assert place.keys() == [1], number


def test_the_statement_that_makes_such_a_table_leaves_the_announcement_out() -> None:
    place = Place()
    killed_after_its_announcement(place)
    catalog = Catalog(place.store, clock=place.clock)
    text = catalog.sql("SHOW CREATE TABLE db.t").to_arrow()["createtab_stmt"][0].as_py()

    assert place.other().schema.options["lakehouse.bucket.next"] == "2"
    catalog.sql(text.replace("db.t ", "db.again "))
    assert catalog.table("db.again").schema.options["bucket"] == "-2"
