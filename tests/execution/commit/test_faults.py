"""A commit on a store that fails: whatever breaks at whichever call, readers see it whole or not at all, and repeating
it applies it exactly once.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CommitTimeout,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    StorageFull,
    StorageUnavailable,
    TaskFailed,
    UnsupportedFeature,
)
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, MemoryStore, ProcessDied
from lakehouse_core.table.commit_message import CommitKind, StaticOverwrite
from lakehouse_core.table.staged_commit import StagedCommit
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table
from tests.planning.change_vocabulary import append_schema, data_file, key_schema, partition


@dataclass(frozen=True)
class Case:
    """A table and a commit on it: the states that a reader may see, from before to after."""

    make: Callable[[], tuple[CommitTable, StagedCommit]]
    states: tuple[str, ...]


def first_commit() -> tuple[CommitTable, StagedCommit]:
    table = commit_table()
    return table, table.append("a", "b")


def later_commit() -> tuple[CommitTable, StagedCommit]:
    table = commit_table()
    table.commit(table.append("old", user="other"))
    return table, table.append("a")


def append_and_compaction() -> tuple[CommitTable, StagedCommit]:
    table = commit_table()
    table.commit(table.append("f1", user="other"))
    message = table.message(
        new_files=(data_file("f3", 1, 9),),
        compact_before=(data_file("f1", 1, 9), data_file("f3", 1, 9)),
        compact_after=(data_file("f4", 1, 9, level=5),),
    )
    return table, table.staged(message)


def overwrite() -> tuple[CommitTable, StagedCommit]:
    table = commit_table(append_schema(partitioned=True))
    for number, day in enumerate("12", 1):
        message = table.message(in_partition=partition(day), total_buckets=-1, new_files=(data_file(f"f{day}"),))
        table.commit(table.staged(message, user="other", identifier=number))
    message = table.message(in_partition=partition("1"), total_buckets=-1, new_files=(data_file("x"),))
    return table, table.staged(message, mode=StaticOverwrite({"dt": "1"}))


def merging() -> tuple[CommitTable, StagedCommit]:
    """The table asks for a merge of every two manifests, so this commit makes one."""
    table = commit_table(key_schema(**{"manifest.merge_min_count": "2"}))
    for number in (1, 2, 3):
        table.commit(table.append(f"f{number}", user="other", identifier=number))
    return table, table.append("a")


CASES = {
    "first": Case(first_commit, ("", "a@0 b@0")),
    "later": Case(later_commit, ("old@0", "a@0 old@0")),
    "pair": Case(append_and_compaction, ("f1@0", "f1@0 f3@0", "f4@5")),
    "overwrite": Case(overwrite, ("f1@0 f2@0", "f2@0 x@0")),
    "merging": Case(merging, ("f1@0 f2@0 f3@0", "a@0 f1@0 f2@0 f3@0")),
}

WRITE_FAULTS = [
    FaultKind.FAIL_BEFORE,
    FaultKind.LOST_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.DIE_BEFORE,
    FaultKind.DIE_AFTER,
    FaultKind.ENOSPC,
    FaultKind.EACCES,
]


def on(store: FaultyStore) -> CommitTable:
    """Return the table as the process sees it whose store fails."""
    return CommitTable(store, VirtualClock(seed=1))


def calls_of(case: Case) -> int:
    table, staged = case.make()
    store = FaultyStore(table.store)
    on(store).commit(staged)
    return len(store.calls)


def check_repeated(table: CommitTable, staged: StagedCommit, case: Case, applied: str) -> None:
    """Repeat the commit on a sound store: it is applied exactly once, and every snapshot reads."""
    table.commit(staged)

    # A compaction that was not applied with its append is dropped, so the state in between is final too.
    final = {applied, case.states[-1]} if applied in case.states[1:] else {case.states[-1]}
    assert table.live() in final
    ours = [one for one in table.context.snapshots.history() if one.commit_user == "user"]
    assert len({(one.commit_identifier, one.commit_kind) for one in ours}) == len(ours) >= 1
    for snapshot in table.context.snapshots.history():
        assert table.live(snapshot.id) is not None
        for manifest in [*table.context.manifests.of(snapshot), *table.context.manifests.changelog(snapshot)]:
            table.context.manifests.entries(manifest)


# Each commit with every second kind of fault, and each kind with every second commit.
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.long] * bool((place + turn) % 4))
        for place, name in enumerate(CASES)
        for turn, kind in enumerate(WRITE_FAULTS)
    ],
)
def test_one_fault_at_any_call_leaves_the_commit_applied_or_not(name: str, kind: FaultKind, every: int) -> None:
    case = CASES[name]
    for call in range(1, calls_of(case) + 1, every):
        table, staged = case.make()
        told: BaseException | None = None
        try:
            on(FaultyStore(table.store, [Fault(at=call, kind=kind)])).commit(staged)
        except (LakehouseError, ProcessDied) as error:
            told = error

        seen = table.live()
        assert seen in case.states, f"call {call}"
        if told is None:
            # A compaction that fails after its append comes again by itself.
            assert seen in case.states[1:], f"call {call}: acknowledged"
        elif isinstance(told, StorageUnavailable | CommitTimeout):
            assert seen == case.states[0], f"call {call}: said not to be applied ({told})"
        assert told is None or isinstance(
            told, StorageUnavailable | CommitTimeout | CommitOutcomeUnknown | ProcessDied
        ), f"call {call}: {told!r}"
        check_repeated(table, staged, case, seen)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.LOST_BEFORE, FaultKind.FAIL_AFTER])
@pytest.mark.parametrize("name", ["first", "pair", "overwrite"])
def test_a_store_that_goes_away_at_any_call_ends_the_commit_in_bounded_time(
    name: str, kind: FaultKind, every: int
) -> None:
    case = CASES[name]
    for call in range(1, calls_of(case) + 1, every):
        table, staged = case.make()
        writer = on(FaultyStore(table.store, [Fault(at=call, kind=kind, count=1_000_000)]))
        before = writer.clock.monotonic_seconds()
        try:
            writer.commit(staged)
        except (StorageUnavailable, CommitOutcomeUnknown) as error:
            if isinstance(error, StorageUnavailable):
                assert table.live() == case.states[0], f"call {call}"
        else:
            # Only the hint, the removal of what nobody names, and a compaction were left to do.
            assert table.live() in case.states[1:], f"call {call}"

        assert writer.clock.monotonic_seconds() - before < 250
        seen = table.live()
        assert seen in case.states, f"call {call}"
        check_repeated(table, staged, case, seen)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["later", "overwrite", "merging"])
def test_a_changed_bit_in_what_is_read_is_found_or_harmless(name: str) -> None:
    case = CASES[name]
    for call, bit in zip(range(1, calls_of(case) + 1), count(1, 7919), strict=False):
        table, staged = case.make()
        with suppress(LakehouseError):
            on(FaultyStore(table.store, [Fault(at=call, kind=FaultKind.FLIP_BIT, position=bit)])).commit(staged)

        assert table.live() in (case.states[0], case.states[-1]), f"call {call}"
        check_repeated(table, staged, case, table.live())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("refusal", [InvalidRequest, UnsupportedFeature, CorruptTable, TaskFailed, CommitConflict])
def test_no_error_hides_that_the_append_of_a_pair_is_applied(refusal: type[LakehouseError], every: int) -> None:
    """Whatever is found wrong at whichever call: an error means that nothing was applied, or that nobody knows."""
    case = CASES["pair"]
    told = 0
    for number in range(1, calls_of(case) + 1, every):
        table, staged = case.make()

        def refuse(call: Call, at: int = number) -> None:
            if call.number == at:
                raise refusal("injected")

        try:
            result = on(FaultyStore(table.store, on_call=refuse)).commit(staged)
        except CommitOutcomeUnknown:
            assert table.live() in case.states, f"call {number}"
        except LakehouseError:
            assert table.live() == case.states[0], f"call {number}"
        else:
            assert table.live() in case.states[1:], f"call {number}"
            is_whole = table.live() == case.states[2]
            assert (result.compaction_failure is None) == is_whole, f"call {number}"
            assert result.snapshot_ids == ((2, 3) if is_whole else (2,)), f"call {number}"
            told += not is_whole
        check_repeated(table, staged, case, table.live())
    assert told * every >= 10


def test_what_a_full_disk_interrupted_is_cleared_away() -> None:
    for call in range(1, calls_of(CASES["later"]) + 1):
        table, staged = later_commit()
        store = FaultyStore(table.store, [Fault(at=call, kind=FaultKind.ENOSPC)])
        try:
            on(store).commit(staged)
        except StorageFull:
            assert table.unreferenced() == [], f"call {call}"


@pytest.mark.parametrize("name", ["later", "merging"])
def test_whoever_interrupts_a_commit_before_its_snapshot_leaves_no_manifest(name: str) -> None:
    case = CASES[name]
    for number in range(1, calls_of(case) + 1):
        table, staged = case.make()
        claimed = []

        def interrupt(call: Call, number: int = number, claimed: list[str] = claimed) -> None:
            claimed += [call.method] if call.method == "create_new" else []
            if call.number == number:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            on(FaultyStore(table.store, on_call=interrupt)).commit(staged)

        assert claimed or table.unreferenced() == [], f"call {number}"
        check_repeated(table, staged, case, table.live())


def test_an_outcome_that_nobody_tells_is_named_with_user_identifier_and_nonce() -> None:
    table, staged = first_commit()
    probe = FaultyStore(table.store)
    claim = next(number for number, name in numbered(staged, CASES["first"]) if name == "create_new")
    store = FaultyStore(probe, [Fault(at=claim, kind=FaultKind.FAIL_AFTER, count=1_000_000)])

    with pytest.raises(CommitOutcomeUnknown, match=r"user/1: snapshot 1 with nonce [0-9a-f-]{36}.*never abort"):
        on(store).commit(staged)
    assert table.live() == "a@0 b@0"
    assert table.commit(staged).replayed


def test_a_commit_that_was_found_done_is_acknowledged_once_it_is_sure_to_last() -> None:
    table, staged = first_commit()
    claim = next(number for number, name in numbered(staged, CASES["first"]) if name == "create_new")
    lost = Fault(at=claim, kind=FaultKind.FAIL_AFTER)
    store = FaultyStore(table.store, [lost, Fault(at=claim + 2, kind=FaultKind.LOST_BEFORE)])

    assert not on(store).commit(staged).replayed
    after_claim = [call.method for call in store.calls if call.number >= claim][:6]
    assert after_claim == ["create_new", "read", "make_last", "create_new", "read", "make_last"]


def test_a_commit_that_was_made_before_and_may_not_last_is_an_unknown_outcome() -> None:
    table, staged = first_commit()
    table.commit(staged)
    whole = FaultyStore(table.store)
    assert on(whole).commit(staged).replayed
    makes_last = next(call.number for call in whole.calls if call.method == "make_last")

    with pytest.raises(CommitOutcomeUnknown, match=r"user/1: it was committed before.*Commit the same again"):
        on(FaultyStore(table.store, [Fault(at=makes_last, kind=FaultKind.LOST_BEFORE)])).commit(staged)
    assert table.live() == "a@0 b@0"


def numbered(staged: StagedCommit, case: Case) -> list[tuple[int, str]]:
    """Return number and method of each call of the case's commit."""
    table, _ = case.make()
    store = FaultyStore(table.store)
    on(store).commit(staged)
    return [(call.number, call.method) for call in store.calls]


def test_the_normal_path_never_lists_and_its_calls_do_not_grow_with_history() -> None:
    table = commit_table(store=MemoryStore())
    methods = []
    for identifier in range(1, 30):
        staged = table.append(f"f{identifier}", identifier=identifier)
        store = FaultyStore(table.store)
        on(store).commit(staged)
        methods.append([call.method for call in store.calls if call.key.split("/")[0] != "schema"])

    assert not any("list" in one or "children" in one for one in methods[1:])
    assert len({tuple(one) for one in methods[1:]}) == 1
    assert table.context.snapshots.history()[-1].commit_kind is CommitKind.APPEND
