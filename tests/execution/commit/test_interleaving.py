"""Several committers on one table, in every order that matters: nothing is lost, nothing is there twice.

Another actor moves between any two calls of a commit, wholly or, in the seeded runs, call by call.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitConflict, CommitTimeout
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.planning.commit.ledger import ledger_of
from lakehouse_core.storage import FaultyStore, MemoryStore, ObjectStore
from lakehouse_core.storage.faulty import Call
from lakehouse_core.table.commit_message import Append, StaticOverwrite
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.staged_commit import StagedCommit
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table
from tests.execution.small_table import SmallTable
from tests.limits import HANGS_AFTER_SECONDS
from tests.pairs import in_turn
from tests.planning.change_vocabulary import data_file, key_schema


def compaction(table: CommitTable, before: str, after: str, user: str) -> StagedCommit:
    message = table.message(
        compact_before=tuple(data_file(name, 1, 9) for name in before.split()),
        compact_after=(data_file(after, 1, 9, level=5),),
    )
    return table.staged(message, user=user)


def overwriting(table: CommitTable, name: str, user: str) -> StagedCommit:
    return table.staged(table.message(new_files=(data_file(name, 1, 9),)), mode=StaticOverwrite(), user=user)


Stage = Callable[[CommitTable], StagedCommit]

ACTORS: dict[str, Stage] = {
    "append": lambda table: table.append("mine", user="me"),
    "compaction": lambda table: compaction(table, "old", "mine", "me"),
    "overwrite": lambda table: overwriting(table, "mine", "me"),
    "replay": lambda table: table.append("earlier", user="earlier"),
}
OTHERS: dict[str, Stage] = {
    "append": lambda table: table.append("theirs", user="them"),
    "compaction": lambda table: compaction(table, "old", "theirs", "them"),
    "overwrite": lambda table: overwriting(table, "theirs", "them"),
}

# Who was first, then who: the live files that may be left. "old" and "earlier" were there before.
OUTCOMES = {
    ("append", "append"): {"earlier@0 mine@0 old@0 theirs@0"},
    ("append", "compaction"): {"earlier@0 mine@0 theirs@5"},
    # The overwrite did not see our file when it came first, and then it fails.
    ("append", "overwrite"): {"mine@0 theirs@5", "earlier@0 mine@0 old@0"},
    ("compaction", "append"): {"earlier@0 mine@5 theirs@0"},
    ("compaction", "compaction"): {"earlier@0 mine@5", "earlier@0 theirs@5"},
    ("compaction", "overwrite"): {"theirs@5"},
    ("overwrite", "append"): {"mine@5 theirs@0", "earlier@0 old@0 theirs@0"},
    ("overwrite", "compaction"): {"mine@5", "earlier@0 theirs@5"},
    ("overwrite", "overwrite"): {"mine@5", "theirs@5"},
    ("replay", "append"): {"earlier@0 old@0 theirs@0"},
    ("replay", "compaction"): {"earlier@0 theirs@5"},
    ("replay", "overwrite"): {"theirs@5"},
}


def prepared(mine: str, theirs: str) -> tuple[CommitTable, StagedCommit, StagedCommit]:
    table = commit_table()
    table.commit(table.append("earlier", user="earlier"))
    table.commit(table.append("old", user="old"))
    return table, ACTORS[mine](table), OTHERS[theirs](table)


def attempted(table: CommitTable, staged: StagedCommit) -> CommitResult | None:
    try:
        return table.commit(staged)
    except CommitConflict:
        return None


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("mine", "theirs"), OUTCOMES)
def test_another_commit_between_any_two_calls_of_mine(mine: str, theirs: str, every: int) -> None:
    for moment in range(1, 40, every):
        table, ours, others = prepared(mine, theirs)
        moved: list[CommitResult | None] = []

        def move(call: Call, at: int = moment, moved: Any = moved, table: Any = table, others: Any = others) -> None:
            if call.number == at:
                moved.append(attempted(table, others))

        result = attempted(CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2)), ours)
        if not moved:
            break

        assert table.live() in OUTCOMES[mine, theirs], f"call {moment}"
        assert ("mine@" in table.live()) == (result is not None and not result.replayed) or theirs == "overwrite"
        assert dense(table), f"call {moment}"
        assert attempted(table, ours) is None or table.live() in OUTCOMES[mine, theirs]
    else:
        raise AssertionError("the commit took more calls than were tried")


def dense(table: CommitTable) -> bool:
    """True when ids have no gap and no metadata file lies about that nobody names."""
    ids = [snapshot.id for snapshot in table.context.snapshots.history()]
    return ids == list(range(ids[0], ids[-1] + 1)) and table.unreferenced() == []


def test_two_others_between_any_two_calls_of_mine() -> None:
    for moment in range(1, 40):
        table = commit_table()
        staged = [table.append(name, user=name) for name in "abc"]
        moved = []

        def move(call: Call, at: int = moment, moved: Any = moved, table: Any = table, staged: Any = staged) -> None:
            if call.number in (at, at + 3):
                moved.append(table.commit(staged[1 + len(moved)]))

        CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2)).commit(staged[0])
        if not moved:
            break

        assert "a@0" in table.live()
        assert len(table.live().split()) == 1 + len(moved)
        assert dense(table)
    else:
        raise AssertionError("the commit took more calls than were tried")


class TestAWriterThatSleeps:
    """The id that a writer is about to claim is used, expired and deleted before it wakes up: it is free again."""

    def expire(self, table: CommitTable, first_kept: int) -> None:
        table.context.snapshots.boundary.advance(first_kept)
        table.store.delete([MAIN.snapshot(number) for number in range(1, first_kept)])

    def sleeping(
        self, table: CommitTable, staged: StagedCommit, seconds: float, others: Callable[[], Any], *,
        before: str = "create_new",
    ) -> Any:  # fmt: skip
        """Commit `staged`, with `others` acting and `seconds` passing before its first call of that name."""
        clock = VirtualClock(seed=2)
        slept: list[int] = []

        def sleep(call: Call) -> None:
            if call.method == before and not slept:
                slept.append(call.number)
                clock.advance(seconds)
                others()

        return CommitTable(FaultyStore(table.store, on_call=sleep), clock).commit(staged)

    @pytest.mark.parametrize("before", ["create_new", "write"])
    @pytest.mark.parametrize("seconds", [0, 29, 31])
    def test_its_commit_is_not_lost_below_the_boundary(self, seconds: float, before: str) -> None:
        table = commit_table(key_schema(**{"lakehouse.commit.max_stall": "30 s"}))
        table.commit(table.append("a", user="a"))
        mine = table.append("mine", user="me")

        def others() -> None:
            for number in range(5):
                table.commit(table.append(f"b{number}", user="b", identifier=number + 1))
            self.expire(table, 5)

        result = self.sleeping(table, mine, seconds, others, before=before)

        assert result.snapshot_ids == (7,)
        assert "mine@0" in table.live()
        assert [one.id for one in table.context.snapshots.history()] == [5, 6, 7]
        # The stale file that the first claim left below the boundary is gone.
        assert table.store.children("snapshot").files == ("LATEST", "snapshot-5", "snapshot-6", "snapshot-7")

    def test_after_its_deadline_it_gives_up_and_commits_when_asked_again(self) -> None:
        table = commit_table()
        mine = table.append("mine", user="me")

        with pytest.raises(CommitTimeout, match="nothing was applied"):
            self.sleeping(table, mine, 100_000, lambda: table.commit(table.append("b", user="b")))
        assert table.live() == "b@0"
        assert table.commit(mine).snapshot_ids == (2,)

    def test_it_does_not_commit_twice_what_was_applied_before_it_slept(self) -> None:
        """The claim succeeded, and before the boundary was read the snapshot was expired: the ledger has it."""
        table = commit_table()
        table.commit(table.append("a", user="a"))
        mine = table.append("mine", user="me")
        slept = []

        def sleep(call: Call) -> None:
            claimed = table.context.store.children("snapshot").files
            if call.key == "lakehouse/boundary" and "snapshot-2" in claimed and not slept:
                slept.append(call.number)
                for number in range(4):
                    table.commit(table.append(f"b{number}", user="b", identifier=number + 1))
                self.expire(table, 5)

        result = CommitTable(FaultyStore(table.store, on_call=sleep), VirtualClock(seed=2)).commit(mine)

        assert slept
        assert result.snapshot_ids == (2,)
        assert table.live().split().count("mine@0") == 1
        assert [one.id for one in table.context.snapshots.history()] == [5, 6]


def test_a_compaction_whose_rivals_have_expired_by_the_next_attempt_is_judged_by_what_is_there() -> None:
    table = commit_table()
    table.commit(table.append("old", user="old"))
    mine = compaction(table, "old", "mine", "me")
    moved: list[int] = []

    def move(call: Call) -> None:
        if call.method == "create_new" and not moved:
            moved.append(call.number)
            for number in range(2):
                table.commit(table.append(f"theirs{number}", user="them", identifier=number))
            table.context.snapshots.boundary.advance(3)
            table.store.delete([MAIN.snapshot(number) for number in (1, 2)])

    result = CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2)).commit(mine)

    assert result.snapshot_ids == (4,)
    assert table.live() == "mine@5 theirs0@0 theirs1@0"


def test_a_base_that_expires_while_it_is_read_is_a_lost_race_and_no_damage() -> None:
    """Without a time of grace for readers the files of the snapshot that a commit goes after may go meanwhile."""
    for moment in range(1, 40):
        table = SmallTable()
        for number in range(3):
            table.write({number: "a"})
        mine = table.staged([table.message("d", 0, new_files=(table.data_file({7: "mine"}),))], Append())
        mine = replace(mine, commit_user="me")
        moved: list[int] = []

        def move(call: Call, at: int = moment, moved: Any = moved, table: SmallTable = table) -> None:
            if call.number == at:
                moved.append(at)
                table.write({8: "theirs"})
                table.expire(retain_max=1)

        view = CommitTable(FaultyStore(table.store, on_call=move), VirtualClock(seed=2))
        view.commit(mine)
        if not moved:
            break

        latest = table.context.snapshots.latest()
        assert latest is not None
        assert table.visible(latest)["d", 7] == "mine", f"call {moment}"
    else:
        raise AssertionError("the commit took more calls than were tried")


class Turns:
    """Who may make the next call: one of the actors that are still at it, drawn by a seeded generator."""

    def __init__(self, seed: int, actors: int) -> None:
        self._random = random.Random(seed)
        self._condition = threading.Condition()
        self._waiting: set[int] = set()
        self._active = set(range(actors))
        self._next: int | None = None
        # An actor reads manifests with threads of its own, which come one by one.
        self._own = [threading.Lock() for _ in range(actors)]

    def take(self, actor: int) -> None:
        with self._own[actor], self._condition:
            self._waiting.add(actor)
            self._draw()
            assert self._condition.wait_for(lambda: self._next == actor, timeout=HANGS_AFTER_SECONDS)
            self._next = None
            self._waiting.discard(actor)

    def leave(self, actor: int) -> None:
        with self._condition:
            self._active.discard(actor)
            self._draw()

    def _draw(self) -> None:
        """Once everybody waits or has gone, let one go on."""
        if self._next is None and self._waiting and self._waiting == self._active:
            self._next = self._random.choice(sorted(self._waiting))
            self._condition.notify_all()


def interleaved(store: ObjectStore, seed: int, work: Sequence[Callable[[CommitTable], None]]) -> None:
    """Run every actor in a thread of its own, call by call, in an order that `seed` decides."""
    turns = Turns(seed, len(work))
    errors: list[BaseException] = []

    def run(actor: int) -> None:
        view = CommitTable(
            FaultyStore(store, on_call=lambda call: turns.take(actor)), VirtualClock(seed=1000 + seed * 100 + actor)
        )
        try:
            work[actor](view)
        except BaseException as error:
            errors.append(error)
        finally:
            turns.leave(actor)

    threads = [threading.Thread(target=run, args=(actor,)) for actor in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=HANGS_AFTER_SECONDS)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("seed", in_turn(4, range(25)))
def test_three_writers_call_by_call_lose_nothing(seed: int) -> None:
    table = commit_table(key_schema(**{"manifest.merge_min_count": "3"}))
    staged = {
        actor: [table.append(f"{actor}{number}", user=actor, identifier=number) for number in range(3)]
        for actor in "abc"
    }

    def committing(actor: str) -> Callable[[CommitTable], None]:
        def work(view: CommitTable) -> None:
            for one in staged[actor]:
                with suppress(CommitTimeout):
                    view.commit(one)

        return work

    interleaved(table.store, seed, [committing(actor) for actor in "abc"])

    assert table.live() == " ".join(f"{actor}{number}@0" for actor in "abc" for number in range(3))
    assert [one.id for one in table.context.snapshots.history()] == list(range(1, 10))
    assert table.unreferenced() == []
    latest = table.context.snapshots.latest()
    assert latest is not None
    ledger = ledger_of(latest, "latest")
    assert ledger is not None
    assert {user: entry.identifier for user, entry in ledger.entries.items()} == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("seed", range(25))
def test_the_same_commit_by_two_processes_is_applied_once(seed: int) -> None:
    table = commit_table()
    mine = table.append("mine", user="me")
    other = table.append("other", user="them")
    results: list[CommitResult] = []

    interleaved(
        table.store,
        seed,
        [
            lambda view: results.append(view.commit(mine)),
            lambda view: results.append(view.commit(mine)),
            lambda view: view.commit(other) and None,
        ],
    )

    assert table.live() == "mine@0 other@0"
    assert sorted(one.replayed for one in results) == [False, True]
    assert results[0].snapshot_ids == results[1].snapshot_ids


@pytest.mark.parametrize("seed", in_turn(4, range(25)))
def test_writers_and_two_compactors_call_by_call(seed: int) -> None:
    table = commit_table()
    table.commit(table.append("old", user="old"))
    appends = [table.append(f"new{number}", user="writer", identifier=number) for number in range(3)]
    compactions = [compaction(table, "old", name, name) for name in ("x", "y")]
    won: list[str] = []

    def compacting(one: StagedCommit) -> Callable[[CommitTable], None]:
        def work(view: CommitTable) -> None:
            with suppress(CommitConflict):
                view.commit(one)
                won.append(one.commit_user)

        return work

    def appending(view: CommitTable) -> None:
        for one in appends:
            view.commit(one)

    interleaved(table.store, seed, [appending, *map(compacting, compactions)])

    assert len(won) == 1
    assert table.live() == f"new0@0 new1@0 new2@0 {won[0]}@5"


def test_an_interleaving_repeats_with_its_seed() -> None:
    histories = []
    for _ in range(2):
        table = commit_table(store=MemoryStore(clock=VirtualClock()))
        staged = [table.append(name, user=name) for name in "ab"]
        interleaved(
            table.store,
            7,
            [lambda view, one=one: view.commit(one) and None for one in staged],  # type: ignore[misc]
        )
        histories.append([(one.id, one.commit_user, one.uuid) for one in table.context.snapshots.history()])

    assert histories[0] == histories[1]
