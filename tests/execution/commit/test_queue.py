"""Many writers of one table: first come, first served, as far as they know of each other; nobody waits for the dead."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitTimeout, InvalidRequest, StorageUnavailable
from lakehouse_core.execution.commit.waiting.queue import CommitQueue
from lakehouse_core.planning.commit.ledger import QUEUE_PROPERTY
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from lakehouse_core.table.layout import QUEUE_FOLDER, QUEUE_MARK
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table
from tests.execution.commit.test_interleaving import interleaved


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(seed=1)


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


def joined(store: MemoryStore, clock: VirtualClock) -> CommitQueue:
    queue = CommitQueue(store, clock)
    queue.join()
    assert queue.is_joined
    return queue


def seconds_waited(queue: CommitQueue, clock: VirtualClock, *, at_most: float = 1_000.0) -> float:
    begin = clock.monotonic_seconds()
    queue.wait(begin + at_most)
    return clock.monotonic_seconds() - begin


def tickets(store: MemoryStore) -> int:
    return len(store.children(QUEUE_FOLDER).files)


def test_two_have_their_turn_at_once_and_the_third_when_one_of_them_has_left(store, clock):
    first, second, third = (joined(store, clock) for _ in range(3))

    assert [seconds_waited(queue, clock) for queue in (first, second)] == [0, 0]
    assert seconds_waited(third, clock, at_most=1) == pytest.approx(1, abs=0.1)
    second.leave()
    assert seconds_waited(third, clock) == 0


@pytest.mark.parametrize("place", [3, 4, 8, 16])
def test_a_commit_learns_soon_that_its_turn_has_come_wherever_it_began_to_wait(store, clock, place):
    a_commit = 0.1
    others = [joined(store, clock) for _ in range(place - 1)]
    last = joined(store, clock)
    begin = clock.monotonic_seconds()

    def one_leaves_at_each_commit(call: Call) -> None:
        while others and clock.monotonic_seconds() - begin >= a_commit * (place - len(others)):
            others.pop(0).leave()

    last._store = FaultyStore(store, on_call=one_leaves_at_each_commit)

    assert a_commit * (place - 2) <= seconds_waited(last, clock) < a_commit * (place - 2 + 0.3)


@pytest.mark.parametrize("place", [4, 6, 8, 16])
def test_a_commit_learns_soon_that_its_turn_has_come_where_the_admitted_end_together(store, clock, place):
    a_commit = 0.1
    others = [joined(store, clock) for _ in range(place - 1)]
    last = joined(store, clock)
    begin = clock.monotonic_seconds()

    def two_leave_at_every_second_commit(call: Call) -> None:
        while others and clock.monotonic_seconds() - begin >= 2 * a_commit * ((place - 1 - len(others)) // 2 + 1):
            others.pop(0).leave()

    last._store = FaultyStore(store, on_call=two_leave_at_every_second_commit)
    turn = 2 * a_commit * ((place - 1) // 2)

    assert turn <= seconds_waited(last, clock) < turn + 0.3 * a_commit


@pytest.mark.parametrize(("place", "times"), [(2, 0), (4, 0), (6, 1), (16, 1)])
def test_a_commit_prepares_once_more_when_its_turn_is_near_after_a_longer_wait(store, clock, place, times):
    others = [joined(store, clock) for _ in range(place - 1)]
    last = joined(store, clock)
    left: list[int] = []

    def one_leaves(call: Call) -> None:
        if others:
            others.pop(0).leave()

    last._store = FaultyStore(store, on_call=one_leaves)
    last.wait(clock.monotonic_seconds() + 1_000, near=lambda: left.append(last.ahead_count))

    assert left == [3] * times


def test_whoever_comes_back_goes_to_the_end(store, clock):
    queues = [joined(store, clock) for _ in range(3)]
    queues[0].leave()
    queues[0].join()

    assert seconds_waited(queues[2], clock) == 0
    assert seconds_waited(queues[0], clock, at_most=1) == pytest.approx(1, abs=0.1)


def test_where_nobody_waits_nobody_queues(store, clock):
    queue = CommitQueue(store, clock)
    queue.join(if_any=True)

    assert not queue.is_joined
    assert tickets(store) == 0


def test_holders_that_died_cost_their_followers_twenty_seconds_together_and_once(store, clock):
    for _ in range(10):
        joined(store, clock)
    follower = joined(store, clock)

    assert 20 < seconds_waited(follower, clock) < 22
    assert tickets(store) == 1
    follower.leave()
    assert seconds_waited(joined(store, clock), clock) == 0


def test_a_queue_that_moves_is_waited_for_however_long_it_takes(store, clock):
    others = [joined(store, clock) for _ in range(8)]
    last = joined(store, clock)
    begin = clock.monotonic_seconds()

    def leaves_every_15_seconds(call: Call) -> None:
        if others and clock.monotonic_seconds() - begin > 15 * (9 - len(others)):
            others.pop(0).leave()

    last._store = FaultyStore(store, on_call=leaves_every_15_seconds)

    assert 105 < seconds_waited(last, clock) < 107


def test_tickets_of_long_ago_are_thrown_away_by_the_storages_clock(store, clock):
    for _ in range(5):
        joined(store, clock)
    clock.advance(601)

    assert seconds_waited(joined(store, clock), clock) == 0
    assert tickets(store) == 1


@pytest.mark.parametrize("error", [StorageUnavailable, InvalidRequest], ids=["it fails", "it refuses"])
@pytest.mark.parametrize("verb", ["children", "write", "list", "delete"])
def test_a_store_that_fails_counts_as_no_queue(store, clock, verb, error):
    for _ in range(5):
        joined(store, clock)

    def fail(call: Call) -> None:
        if call.method == verb and call.key.startswith(QUEUE_FOLDER):
            raise error("the disk is gone, or a link leads elsewhere")

    queue = CommitQueue(FaultyStore(store, on_call=fail), clock)
    queue.join()

    assert seconds_waited(queue, clock) < 22
    queue.leave()


def calls_of_a_commit(table: CommitTable, name: str, *, seed: int = 3) -> list[Call]:
    seen: list[Call] = []
    CommitTable(FaultyStore(table.store, on_call=seen.append), VirtualClock(seed=seed)).commit(
        table.append(name, user=name)
    )
    return [call for call in seen if call.key.startswith(QUEUE_FOLDER)]


def losing_once(table: CommitTable, name: str, before_retry: Callable[[], None] = lambda: None) -> None:
    """Commit `name`, which another commit overtakes."""
    moved: list[str] = []

    def move(call: Call) -> None:
        if call.method == "create_new" and not moved:
            moved.append(name)
            table.commit(table.append(f"before-{name}", user=f"before-{name}"))
        if call.method == "write" and call.key.startswith(QUEUE_FOLDER):
            before_retry()

    CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2)).commit(table.append(name, user=name))


def test_a_commit_that_meets_nobody_does_not_look_for_a_queue() -> None:
    table = commit_table()

    assert calls_of_a_commit(table, "a") == []
    assert calls_of_a_commit(table, "b") == []


def test_a_commit_that_lost_says_so_in_its_snapshot_and_the_next_one_looks_once() -> None:
    table = commit_table()
    losing_once(table, "late")

    latest = table.context.snapshots.latest()
    assert latest is not None
    assert QUEUE_PROPERTY in latest.properties
    assert tickets(table.store) == 0
    assert [call.method for call in calls_of_a_commit(table, "next")] == ["children"]
    assert calls_of_a_commit(table, "after") == []


def test_a_commit_that_loses_again_in_its_turn_is_seen_by_those_that_meet_nobody() -> None:
    table = commit_table()
    overtaken: list[bool] = []
    hurried: list[str] = []

    def move(call: Call) -> None:
        if call.method == "create_new" and len(overtaken) < 3:
            overtaken.append(bool(table.store.infos([QUEUE_MARK])))
            calls = calls_of_a_commit(table, f"hurried-{len(overtaken)}", seed=10 + len(overtaken))
            hurried.append("queued" if any(found.method == "write" for found in calls) else "free")

    CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2)).commit(table.append("late", user="late"))

    assert overtaken == [False, False, True]
    assert hurried == ["free", "free", "queued"]
    assert tickets(table.store) == 0
    calls_of_a_commit(table, "next", seed=20)
    assert not table.store.infos([QUEUE_MARK])
    assert calls_of_a_commit(table, "after", seed=21) == []


def test_a_mark_that_cannot_be_written_or_deleted_fails_no_commit() -> None:
    table = commit_table()
    table.store.write({QUEUE_MARK: b""})
    others = iter(range(2))

    def refuse(call: Call) -> None:
        if call.key == QUEUE_MARK and call.method in ("write", "delete"):
            raise StorageUnavailable("refused")
        if call.method == "create_new" and next(others, None) is not None:
            table.commit(table.append(f"other{call.number}", user=f"other{call.number}"))

    view = CommitTable(FaultyStore(table.store, on_call=refuse), VirtualClock(seed=2))
    assert view.commit(table.append("mine", user="me")).snapshot_ids
    assert view.commit(table.append("more", user="more")).snapshot_ids


def test_a_commit_writes_the_manifests_of_its_changes_before_its_turn_comes() -> None:
    table = commit_table()
    losing_once(table, "late")
    others = [joined(table.store, VirtualClock(seed=8 + number)) for number in range(2)]
    looks: list[Call] = []
    written: list[tuple[bool, str]] = []

    def watch(call: Call) -> None:
        if call.method == "children" and call.key == QUEUE_FOLDER:
            looks.append(call)
            if len(looks) == 4:
                others.pop().leave()
        if call.method in ("write", "create_new") and not call.key.startswith(QUEUE_FOLDER):
            written.append((len(others) == 2, call.key.split("-")[0]))

    CommitTable(FaultyStore(table.store, on_call=watch), VirtualClock(seed=3)).commit(table.append("a", user="a"))

    assert (True, "manifest/manifest") in written
    assert all(key != "snapshot/snapshot" for early, key in written if early)
    assert [key for early, key in written if not early][:2] == ["manifest/manifest", "snapshot/snapshot"], written


def test_a_commit_that_gives_up_leaves_no_ticket() -> None:
    table = commit_table()
    theirs = iter(range(100_000))

    def move(call: Call) -> None:
        if call.method == "create_new":
            number = next(theirs)
            table.commit(table.append(f"theirs{number}", user="them", identifier=number))

    view = CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2, now_millis=10**12))
    with pytest.raises(CommitTimeout):
        view.commit(table.append("mine", user="me"))

    assert tickets(table.store) == 0


def test_whoever_loses_in_its_turn_tries_again_at_once_and_holds_up_nobody() -> None:
    table = commit_table()
    theirs = iter(range(4))

    def move(call: Call) -> None:
        if call.method == "create_new" and (number := next(theirs, None)) is not None:
            table.commit(table.append(f"theirs{number}", user="them", identifier=number))

    clock = VirtualClock(seed=2)
    begin = clock.monotonic_seconds()
    result = CommitTable(FaultyStore(table.store, on_call=move), clock).commit(table.append("mine", user="me"))

    assert result.attempts == 5
    assert clock.monotonic_seconds() == begin


@pytest.mark.parametrize("seed", range(2))
def test_six_writers_call_by_call_commit_equally_often(seed: int) -> None:
    table = commit_table()
    writers = [f"w{number}" for number in range(6)]
    staged = {who: [table.append(f"{who}-{n}", user=who, identifier=n) for n in range(20)] for who in writers}

    def committing(who: str) -> Callable[[CommitTable], None]:
        def work(view: CommitTable) -> None:
            for one in staged[who]:
                if (view.context.snapshots.ids.latest() or 0) >= 48:
                    return
                with suppress(CommitTimeout):
                    view.commit(one)

        return work

    interleaved(table.store, seed, [committing(who) for who in writers])

    counts = Counter(snapshot.commit_user for snapshot in table.context.snapshots.history())
    assert max(counts.values()) <= 1.5 * min(counts[who] for who in writers), counts
