"""Batches that many runs stage become few snapshots, each batch once, whatever dies in between."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.planning.commit import ledger
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore, ProcessDied
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline import (
    Committer,
    Groups,
    JointCommit,
    forget_committed,
    held_back,
    recorded_groups,
    stage_batches,
)
from lakehouse_dagster.pipeline.table_state import batch_keys, batch_properties
from lakehouse_dagster.pipeline.together import apportioned

USER = "feed/shop/orders@v1/lake/sales/orders"


def day(number: int) -> Batch:
    return Batch(key=f"day-{number:03}", identifier=number)


class Warehouse:
    """The warehouse as one process sees it; all processes share the store."""

    def __init__(
        self, store: ObjectStore | None = None, *, seed: int = 0, age: int = 0, keys: Sequence[str] = ()
    ) -> None:
        clock = VirtualClock(seed=seed)
        clock.advance(age)
        self.store = store or MemoryStore(clock=clock)
        self.catalog = Catalog(self.store, clock=clock)
        self.catalog.create_database("sales", exist_ok=True)
        self.table = self.catalog.create_table(
            "sales.orders",
            {"id": "INT NOT NULL", "day": "INT"},
            primary_keys=list(keys),
            options={"bucket": "1" if keys else "-1", "write-only": "true"},
            exist_ok=True,
        )

    def stage(self, *numbers: int, rows: int = 2) -> list[bool]:
        """Stage batches as a run does; return which of them were committed before."""
        groups = recorded_groups(self.catalog, self.table, commit_user=USER)

        def read(batch: Batch) -> list[dict[str, int]]:
            return [{"id": key, "day": batch.identifier} for key in range(rows if batch.identifier else 0)]

        parts = stage_batches(self.table, map(day, numbers), read, commit_user=USER, groups=groups)
        return [part.is_committed for part in parts]

    def committer(self, *, most: int = 500, **more: Any) -> Committer:
        return Committer(
            catalog=self.catalog, table=self.table, commit_user=USER, run_id="run", most_batches=most, **more
        )

    def commit(self, *wanted: int, most: int = 500, **more: Any) -> JointCommit:
        committer = self.committer(most=most, **more)
        joint = committer.commit([day(number) for number in wanted])
        forget_committed(self.table, joint)
        return joint

    def days(self) -> list[int]:
        return sorted(row["day"] for row in self.table.scan().to_arrow().to_pylist())

    def snapshots(self) -> list[str]:
        """The batches of each snapshot, and who made it."""
        return [", ".join(batch_keys(one.properties)) for one in self.table.snapshots()]


def in_order(batches: Iterable[Batch], groups: Groups) -> dict[int, str]:
    """A feed each of whose batches has rows."""
    return held_back(
        batches,
        groups,
        lambda after, before: before.identifier > (1 if after is None else after + 1),
        lambda number: str(day(number).key),
    )


def names(*numbers: int) -> str:
    return ", ".join(str(day(number).key) for number in numbers)


def test_all_that_is_staged_becomes_one_snapshot_in_the_order_of_the_feed() -> None:
    house = Warehouse(keys=["id"])
    for number in (3, 1, 2):
        assert house.stage(number) == [False]
    joint = house.commit(2)

    assert house.snapshots() == [names(1, 2, 3)]
    assert house.days() == [3, 3]
    assert [(part.batch, part.snapshot_id, part.report and part.report.rows_added) for part in joint.committed] == [
        (day(1), 1, 2), (day(2), 1, 2), (day(3), 1, 2),
    ]  # fmt: skip
    assert house.table.all_pending(USER) == []


def test_a_batch_that_comes_late_is_neither_lost_nor_taken_for_committed() -> None:
    house = Warehouse()
    house.stage(1, 4)
    house.commit()
    assert house.stage(1, 2, 4) == [True, False, True]
    house.stage(3)
    joint = house.commit(4)

    assert house.snapshots() == [names(1, 4), names(2, 3)]
    assert house.days() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [(part.batch.identifier, part.is_replay, part.snapshot_id) for part in joint.committed] == [
        (2, False, 2), (3, False, 2), (4, True, 1),
    ]  # fmt: skip
    (replay,) = [part for part in joint.committed if part.is_replay]
    assert replay.noop_reason == "committed before by run run as snapshot 1"
    assert replay.original is not None
    assert (replay.original.change, replay.original.batch) == (2, "day-004")


def test_a_snapshot_has_at_most_as_many_batches_as_the_policy_says() -> None:
    house = Warehouse()
    house.stage(*range(1, 8))
    house.commit(most=3)

    assert house.snapshots() == [names(1, 2, 3), names(4, 5, 6), names(7)]


def test_where_the_order_counts_a_batch_waits_for_those_before_it() -> None:
    house = Warehouse(keys=["id"])
    house.stage(1, 2, 4, 5)
    joint = house.commit(held_back=in_order)
    assert house.snapshots() == [names(1, 2)]
    assert {batch.key: reason for batch, reason in joint.waiting.items()} == {
        "day-004": "it waits for the batches after day-002",
        "day-005": "it waits for the batches after day-002",
    }

    house.stage(3)
    house.commit(held_back=in_order)
    assert house.snapshots() == [names(1, 2), names(3, 4, 5)]
    assert house.days() == [5, 5]


def test_a_batch_without_rows_is_committed_without_a_snapshot() -> None:
    house = Warehouse()
    house.stage(0)
    (first,) = house.commit(0).committed
    assert (first.report and first.report.snapshot_id, house.table.snapshots()) == (None, ())
    assert house.stage(0) == [True]
    assert house.commit(0).committed[0].is_replay
    house.stage(1)
    house.commit()

    assert house.snapshots() == [names(1)]
    assert house.stage(0, 1) == [True, True]


def test_a_batch_that_is_neither_staged_nor_committed_is_refused_by_name() -> None:
    house = Warehouse()
    house.stage(1)

    with pytest.raises(lc.NotFound, match=r"sales\.orders: batch day-002 .* is not staged"):
        house.commit(2)
    assert house.snapshots() == []


def test_after_a_rollback_the_batches_are_staged_and_committed_again() -> None:
    house = Warehouse()
    for numbers in ([1, 2], [3, 4], [5]):
        house.stage(*numbers)
        house.commit()
    # As other engines roll back.
    house.store.delete([f"sales.db/orders/snapshot/snapshot-{number}" for number in (2, 3)])
    house.store.write({"sales.db/orders/snapshot/LATEST": b"1"})
    house = Warehouse(house.store, seed=1)

    assert house.stage(1, 2, 3, 5) == [True, True, False, False]
    house.commit()
    assert house.snapshots() == [names(1, 2), names(3, 5)]
    # What was not staged again is not taken for committed because of a later group.
    assert house.stage(4) == [False]
    house.commit()
    assert house.days() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_what_the_record_knows_outlives_the_snapshots() -> None:
    house = Warehouse()
    house.stage(1, 3)
    house.commit()
    house.stage(5)
    house.commit()
    house.table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))

    assert [one.id for one in house.table.snapshots()] == [2]
    assert house.stage(1, 2, 3, 5) == [True, False, True, True]
    (part,) = house.commit(3, 2).committed[1:]
    assert part.noop_reason == "committed before; no retained snapshot has it"


def test_a_table_that_was_made_again_takes_its_batches_anew() -> None:
    house = Warehouse()
    house.stage(1)
    house.commit()
    house.catalog.drop_table("sales.orders")
    again = Warehouse(house.store, seed=1, age=1)

    assert again.stage(1) == [False]


def test_a_stager_that_was_overtaken_leaves_nothing_that_is_committed_twice() -> None:
    house, slow = Warehouse(), None
    groups = recorded_groups(house.catalog, house.table, commit_user=USER)
    slow = Warehouse(house.store, seed=1)

    def read(_: Batch) -> list[dict[str, int]]:
        # Another run stages and commits the batch while this one reads its rows.
        house.stage(1)
        house.commit()
        return [{"id": 1, "day": 1}, {"id": 2, "day": 1}]

    list(stage_batches(slow.table, [day(1)], read, commit_user=USER, groups=groups))
    house.commit()

    assert house.days() == [1, 1]
    assert house.table.all_pending(USER) == []


@pytest.mark.parametrize(("kind", "keys"), [(FaultKind.DIE_BEFORE, ["id"]), (FaultKind.DIE_AFTER, [])])
def test_a_committer_that_dies_at_any_call_is_carried_on(kind: FaultKind, keys: list[str]) -> None:
    def house_of_five() -> Warehouse:
        house = Warehouse(keys=keys)
        house.stage(1)
        house.commit()
        house.stage(5, 3, 2)
        return house

    sound = FaultyStore(house_of_five().store)
    Warehouse(sound, seed=1, keys=keys).commit()
    writes = [call.number for call in sound.calls if call.writes]
    assert len(writes) > 10
    for call in writes:
        house = house_of_five()
        with pytest.raises(ProcessDied):
            Warehouse(FaultyStore(house.store, [Fault(at=call, kind=kind)]), seed=1, keys=keys).commit()
        # Something else is staged before the next committer comes.
        after = Warehouse(house.store, seed=2, keys=keys)
        after.stage(4, 2)
        after.commit()

        assert sorted(", ".join(after.snapshots()).split(", ")) == names(1, 2, 3, 4, 5).split(", "), f"call {call}"
        newest = int(after.snapshots()[-1][-1])
        assert after.days() == ([newest] * 2 if keys else [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]), f"call {call}"
        assert after.table.all_pending(USER) == [], f"call {call}"
    assert after.table.verify().findings == ()


@settings(max_examples=settings.default.max_examples // 2)
@given(seed=st.integers(0, 10**6))
def test_any_stagers_and_committers_that_may_die_take_each_batch_once(seed: int) -> None:
    random = Random(seed)
    house = Warehouse()
    wanted: set[int] = set()
    for turn in range(random.randint(1, 12)):
        numbers = random.sample(range(1, 8), random.randint(1, 3))
        fault = Fault(at=random.randint(1, 60), kind=random.choice([FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER]))
        store = FaultyStore(house.store, [fault] if random.random() < 0.6 else [])
        try:
            if random.random() < 0.6:
                Warehouse(store, seed=turn + 1).stage(*numbers)
                wanted |= {*numbers}
            else:
                Warehouse(store, seed=turn + 1).commit(most=random.randint(1, 4))
        except ProcessDied:
            # Executed again.
            wanted |= {*numbers}
            Warehouse(house.store, seed=turn + 100).stage(*numbers)
    last = Warehouse(house.store, seed=99)
    last.commit(*wanted)

    assert last.days() == sorted([*wanted, *wanted])


def test_committers_in_parallel_take_each_batch_once(tmp_path: Path) -> None:
    lc.connect(tmp_path).create_database("sales")

    def opened() -> Committer:
        catalog = lc.connect(tmp_path)
        table = catalog.create_table("sales.orders", {"day": "INT"}, exist_ok=True)
        return Committer(catalog=catalog, table=table, commit_user=USER, run_id="run", most_batches=3)

    def run(number: int) -> None:
        one = opened()
        groups = recorded_groups(one.catalog, one.table, commit_user=USER)
        list(
            stage_batches(
                one.table, [day(number)], lambda batch: [{"day": batch.identifier}], commit_user=USER, groups=groups
            )
        )
        forget_committed(one.table, one.commit([day(number)]))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(run, range(1, 19)))

    table = opened().table
    assert sorted(row["day"] for row in table.scan().to_arrow().to_pylist()) == list(range(1, 19))
    assert table.all_pending(USER) == []


def test_a_group_that_is_recorded_and_committed_while_the_groups_are_read_is_not_missing() -> None:
    for at in count(1):
        house = Warehouse()
        house.stage(1, 2)
        house.commit()
        calls: list[Call] = []

        def overtake(call: Call, house: Warehouse = house, calls: list[Call] = calls, at: int = at) -> None:
            calls.append(call)
            if len(calls) == at:
                other = Warehouse(house.store, seed=9)
                other.stage(3)
                other.commit()

        slow = Warehouse(FaultyStore(house.store, on_call=overtake), seed=8)
        opening = len(calls)
        groups = recorded_groups(slow.catalog, slow.table, commit_user=USER)
        if len(calls) < at:
            break
        assert groups.is_committed(3) == (groups.done == 1), at
        slow.stage(4)
        slow.commit()
        assert slow.days() == [1, 1, 2, 2, 3, 3, 4, 4], at
    assert at > opening + 5


def test_a_record_that_was_dropped_is_told_and_no_batch_comes_twice() -> None:
    house = Warehouse()
    house.stage(1, 2)
    house.commit()
    house.catalog.drop_table("sales.batch_groups")

    for again in (lambda: house.stage(1, 2), house.commit):
        with pytest.raises(lc.CorruptTable, match=r"sales\.batch_groups: it does not have group 0 of sales\.orders"):
            again()
    assert house.days() == [1, 1, 2, 2]


def forget_users(house: Warehouse, others: str) -> None:
    """Let so many other users commit that the table forgets those before them."""
    for number in range(ledger.MAX_USERS + 8):
        staged = house.table.stage([{"id": 0, "day": -1}], commit_user=f"{others}-{number}", commit_identifier=0)
        house.table.commit(staged)
    assert not any("groups" in one.commit_user for one in house.table.committers())


def test_batches_do_not_come_twice_when_the_table_has_forgotten_their_committer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "MAX_USERS", 20)
    house = Warehouse()
    house.stage(1, 2)
    house.commit()
    forget_users(house, "first")

    assert house.stage(1, 2) == [True, True]
    house.stage(3)
    house.commit()
    assert [day for day in house.days() if day > 0] == [1, 1, 2, 2, 3, 3]

    forget_users(house, "second")
    house.table.alter(lc.SetOption("snapshot.expire.limit", "5000"))
    house.table.expire_snapshots(retain_max=3, retain_min=1)
    for again in (lambda: house.stage(1, 2), house.commit):
        with pytest.raises(lc.StaleCommit, match="neither in the committers of the table nor in its snapshots"):
            again()


def test_a_group_that_was_recorded_and_not_committed_is_committed_after_other_commits() -> None:
    house = Warehouse()
    house.stage(1)
    with pytest.raises(ProcessDied):
        Warehouse(_dying_at_the_commit(house)).commit()
    house.table.write([{"id": 0, "day": -1}])

    house.commit()
    assert house.days() == [-1, 1, 1]


def _dying_at_the_commit(house: Warehouse) -> ObjectStore:
    """Return the store of a process that ends before it publishes a snapshot of the table."""

    def end(call: Call) -> None:
        if call.method == "create_new" and call.key.startswith("sales.db/orders/snapshot/"):
            raise ProcessDied(call.key)

    return FaultyStore(house.store, on_call=end)


def test_a_committer_that_ended_between_commit_and_tag_is_carried_on_with_the_tag() -> None:
    house = Warehouse()
    house.stage(1, 2)

    def end(call: Call) -> None:
        if call.writes and "/tag/" in call.key:
            raise ProcessDied(call.key)

    with pytest.raises(ProcessDied):
        Warehouse(FaultyStore(house.store, on_call=end), seed=5).commit(tag_batches=True)
    house.commit(tag_batches=True)

    assert [(tag.name, tag.snapshot_id) for tag in house.table.tags()] == [("batch-day-002", 1)]
    assert house.days() == [1, 1, 2, 2]


def test_a_key_with_a_comma_stays_one_key() -> None:
    for keys in (["a, b", "c"], ["a, b"]):
        assert batch_keys(batch_properties(keys)) == keys
    assert batch_keys({"lakehouse.batches": "a, b"}) == ["a", "b"]


def test_a_record_of_an_earlier_release_gets_the_new_columns() -> None:
    house = Warehouse()
    house.stage(1)
    house.commit()
    for column in ("base_snapshot_id", "withdrawn_groups"):
        house.catalog.table("sales.batch_groups").alter(lc.DropColumn(column))
    house.stage(2)
    house.commit()

    assert house.days() == [1, 1, 2, 2]


def rescaled(house: Warehouse) -> None:
    house.table.alter(lc.SetOption("bucket", "2"))
    house.table.overwrite(house.table.scan().to_arrow())


def without_a_file(house: Warehouse) -> None:
    staged = house.table.pending(USER, 2)
    assert staged is not None
    (key, *_) = (
        info.key
        for info in house.store.list("sales.db/orders/bucket-0")
        if staged.messages[0].new_files[0].file_name in info.key
    )
    house.store.delete([key])


def damaged(house: Warehouse) -> None:
    (key,) = (
        info.key for info in house.store.list("sales.db/orders/lakehouse/pending") if info.key.endswith("-2.json")
    )
    house.store.write({key: house.store.read(key)[:-9]})


FAULTS = {
    "rescaled": (rescaled, "it has 2 buckets, the new files were written for 1"),
    "without a file": (without_a_file, "the commit adds it, but it is missing"),
    "damaged": (damaged, None),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("recorded", [False, True], ids=["staged", "in a group"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_that_cannot_be_committed_keeps_no_other_from_the_table(fault: str, recorded: bool) -> None:
    house = Warehouse(keys=["id"])
    house.stage(1)
    house.commit()
    house.stage(2)
    if recorded:
        with pytest.raises(ProcessDied):
            Warehouse(_dying_at_the_commit(house)).commit()
    damage, reason = FAULTS[fault]
    damage(house)
    house.stage(3)

    joint = house.commit()

    assert [each.batch for each in joint.committed] == [day(3)]
    assert [reason in why for why in joint.waiting.values()] == ([] if reason is None else [True])
    (told,) = (each.reason for each in house.table.pending_commits())
    assert told is not None
    house.stage(2)
    assert [each.reason for each in house.table.pending_commits()] == [None]
    house.commit(2)
    assert sorted(key for one in house.table.snapshots() for key in batch_keys(one.properties)) == [
        day(number).key for number in (1, 2, 3)
    ]


def grouped(*numbers: int) -> Warehouse:
    """A warehouse whose batches are staged and in a group that is not committed."""
    house = Warehouse(keys=["id"])
    house.stage(*numbers)
    with pytest.raises(ProcessDied):
        Warehouse(_dying_at_the_commit(house)).commit()
    return house


def at_the_first(house: Warehouse, folder: str, meanwhile: Callable[[], object]) -> Warehouse:
    """The warehouse of a process; before it creates its first snapshot in the folder, `meanwhile` is done."""
    waiting = [meanwhile]

    def look(call: Call) -> None:
        if waiting and call.method == "create_new" and call.key.startswith(f"sales.db/{folder}/snapshot/"):
            waiting.pop()()

    return Warehouse(FaultyStore(house.store, on_call=look), seed=11, keys=["id"])


def test_a_group_that_is_committed_while_it_is_withdrawn_stays_committed() -> None:
    house = grouped(1, 2)
    whole = house.table.pending(USER, 2)
    assert whole is not None

    def commit_it() -> None:
        house.table.keep_pending(whole)
        Warehouse(house.store, seed=7, keys=["id"]).commit()

    slow = at_the_first(house, "batch_groups", commit_it)
    damaged(house)
    joint = slow.commit()

    assert (joint.waiting, [each.batch for each in joint.committed]) == ({}, [day(1)])
    assert house.stage(1, 2, 3) == [True, True, False]
    house.commit()
    assert house.snapshots() == [names(1, 2), names(3)]
    assert house.stage(1, 2, 3) == [True, True, True]


def test_a_committer_whose_group_was_withdrawn_loses_none_of_its_batches() -> None:
    house = grouped(1, 2)
    whole = house.table.pending(USER, 2)
    assert whole is not None

    def withdraw() -> None:
        damaged(house)
        house.stage(3)
        Warehouse(house.store, seed=7, keys=["id"]).commit()
        house.table.keep_pending(whole)

    at_the_first(house, "orders", withdraw).commit()

    house.commit()
    assert house.snapshots() == [names(1, 3), names(2)]
    assert house.stage(1, 2, 3) == [True, True, True]


def test_a_withdrawn_group_that_is_committed_before_the_next_one_stays_committed() -> None:
    house = grouped(1, 2)

    def withdraw() -> None:
        damaged(house)
        house.stage(3)
        with pytest.raises(ProcessDied):
            Warehouse(_dying_at_the_commit(house), seed=7, keys=["id"]).commit()

    at_the_first(house, "orders", withdraw).commit()

    house.commit()
    assert sorted(house.snapshots()) == [names(1, 2), names(3)]
    house.table.write([{"id": 9, "day": 9}])
    house.table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert house.stage(1, 2, 3) == [True, True, True]


def test_where_the_order_counts_later_batches_wait_for_one_that_cannot_be_committed() -> None:
    house = Warehouse(keys=["id"])
    house.stage(1, 2, 3)
    without_a_file(house)

    joint = house.commit(held_back=in_order)

    assert [each.batch for each in joint.committed] == [day(1)]
    assert {batch.identifier: why for batch, why in joint.waiting.items()} == {
        2: joint.waiting[day(2)],
        3: "it waits for the batches after day-001",
    }
    house.stage(2)
    assert [each.batch for each in house.commit(held_back=in_order).committed] == [day(2), day(3)]


@given(total=st.integers(0, 10**12), weights=st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_shares_are_whole_never_negative_and_add_up(total: int, weights: list[int]) -> None:
    shares = apportioned(total, weights)

    assert sum(shares) == total
    assert min(shares) >= 0
    assert apportioned(sum(weights), weights) == weights
