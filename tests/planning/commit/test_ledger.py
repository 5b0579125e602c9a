"""The ledger knows who committed what, within its bounds, and says what it has forgotten."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.planning.commit.ledger import (
    LEDGER_PROPERTY,
    MAX_BATCH_USERS,
    MAX_BYTES,
    MAX_USERS,
    Ledger,
    LedgerAnswer,
    content_snapshot_id,
    ledger_answer,
    ledger_of,
    parse_ledger,
    rebuilt,
)
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, CommitKind
from lakehouse_core.table.snapshot import Snapshot

DAY = 86_400_000
APPEND, COMPACT = CommitKind.APPEND, CommitKind.COMPACT


def snapshot(
    snapshot_id: int, user: str, identifier: int, kind: CommitKind = APPEND, *, day: int = 0, **properties: str
) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=identifier,
        commit_kind=kind,
        time_millis=day * DAY,
        properties={name.replace("_", "."): value for name, value in properties.items()},
    )


def after(snapshots: Sequence[Snapshot]) -> Ledger:
    ledger = Ledger()
    for one in snapshots:
        ledger, _ = ledger.with_commit(one)
    return ledger


def test_both_kinds_of_one_commit_are_noted_with_their_snapshots() -> None:
    ledger = after([snapshot(4, "u", 7), snapshot(5, "u", 7, COMPACT, day=2)])

    entry = ledger.entries["u"]
    assert (entry.identifier, entry.snapshots, entry.day) == (7, {APPEND: 4, COMPACT: 5}, 2)


def test_a_later_identifier_takes_the_place_of_the_earlier() -> None:
    ledger = after([snapshot(4, "u", 7), snapshot(5, "u", 7, COMPACT), snapshot(6, "u", 9)])

    assert ledger.entries["u"].snapshots == {APPEND: 6}


def test_an_earlier_identifier_of_a_foreign_writer_changes_nothing() -> None:
    ledger = after([snapshot(4, "u", 7), snapshot(5, "u", 3)])

    assert ledger.entries["u"].snapshots == {APPEND: 4}


COMMITS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 5) | st.just(BATCH_IDENTIFIER), st.sampled_from(CommitKind)),
    max_size=20,
)


@given(COMMITS)
def test_a_ledger_comes_back_from_its_text(commits: list[tuple[str, int, CommitKind]]) -> None:
    ledger = after([snapshot(number + 1, *commit) for number, commit in enumerate(commits)])

    assert parse_ledger(ledger.to_json(), "snapshot-1") == ledger


@given(COMMITS)
def test_a_walk_rebuilds_what_was_carried_but_for_batch_users(commits: list[tuple[str, int, CommitKind]]) -> None:
    history = [snapshot(number + 1, *commit) for number, commit in enumerate(commits)]

    named = [one for one in history if one.commit_identifier != BATCH_IDENTIFIER]
    assert rebuilt(Ledger(), history) == after(named)


def test_the_oldest_users_go_first_and_it_is_known_up_to_where() -> None:
    history = [snapshot(number, f"user-{number}", 1) for number in range(1, MAX_USERS + 4)]
    ledger = after(history)

    assert list(ledger.entries) == [f"user-{number}" for number in range(4, MAX_USERS + 4)]
    assert ledger.dropped_until == 3


def test_a_user_who_commits_again_is_young_again() -> None:
    ledger = after([snapshot(1, "old", 1), snapshot(2, "new", 1), snapshot(3, "old", 2)])

    assert list(ledger.entries) == ["new", "old"]


def test_batch_users_never_push_out_named_ones() -> None:
    history = [snapshot(1, "named", 1)]
    history += [snapshot(number, f"batch-{number}", BATCH_IDENTIFIER) for number in range(2, 1000)]
    ledger = after(history)

    assert "named" in ledger.entries
    assert len(ledger.entries) == MAX_BATCH_USERS + 1
    assert ledger.dropped_until == 999 - MAX_BATCH_USERS


def test_long_names_are_bounded_in_bytes() -> None:
    ledger = after([snapshot(number, f"{number:04}" + "ü" * 500, 1) for number in range(1, 200)])

    assert len(ledger.to_json().encode()) <= MAX_BYTES
    assert len(ledger.entries) > 40
    assert ledger.dropped_until == 199 - len(ledger.entries)


@pytest.mark.parametrize(("age", "counted"), [(6, 1), (7, 0)])
def test_dropping_a_user_younger_than_a_week_is_counted(age: int, counted: int) -> None:
    history = [snapshot(number, f"user-{number}", 1, day=100) for number in range(1, MAX_USERS + 1)]
    ledger = after(history)

    _, dropped = ledger.with_commit(snapshot(1000, "another", 1, day=100 + age))
    assert dropped == counted


def test_a_foreign_snapshot_has_no_ledger() -> None:
    assert ledger_of(snapshot(1, "u", 1), "snapshot-1") is None
    mine = after([snapshot(1, "u", 1)])
    assert ledger_of(snapshot(1, "u", 1, **{LEDGER_PROPERTY: mine.to_json()}), "snapshot-1") == mine


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"v":1}',
        '{"v":1,"dropped":0,"users":{"u":[1,{},0]}}',
        '{"v":1,"dropped":0,"users":{"u":[1,{"Z":1},0]}}',
        '{"v":1,"dropped":0,"users":{"u":[1]}}',
        '{"v":1,"dropped":0,"users":[]}',
        '{"v":"1","dropped":0,"users":{}}',
    ],
)
def test_a_damaged_ledger_is_never_an_empty_one(text: str) -> None:
    with pytest.raises(CorruptTable, match=r"snapshot-4: its property lakehouse\.ledger"):
        parse_ledger(text, "snapshot-4")


def test_a_newer_ledger_is_not_overwritten() -> None:
    with pytest.raises(UnsupportedFeature, match="version 2"):
        parse_ledger('{"v":2}', "snapshot-4")


def test_the_newest_change_of_rows_is_known_after_its_snapshot_expired() -> None:
    history = [snapshot(4, "u", 7), snapshot(5, "v", 1, COMPACT)]

    assert content_snapshot_id(4, after(history)) == 4
    assert content_snapshot_id(None, after(history)) == 4
    assert content_snapshot_id(5, after(history)) == 5
    assert content_snapshot_id(None, Ledger()) is None


OURS = snapshot(4, "u", 7)


@pytest.mark.parametrize(
    ("ledger", "expected"),
    [
        pytest.param(after([OURS]), LedgerAnswer.APPLIED, id="it is noted"),
        pytest.param(after([OURS, snapshot(5, "u", 7, COMPACT)]), LedgerAnswer.APPLIED, id="with its compaction"),
        pytest.param(Ledger(), LedgerAnswer.NOT_APPLIED, id="the user is unknown"),
        pytest.param(after([snapshot(3, "u", 6)]), LedgerAnswer.NOT_APPLIED, id="only an earlier one is noted"),
        pytest.param(after([snapshot(9, "u", 7)]), LedgerAnswer.NOT_APPLIED, id="the same became another snapshot"),
        pytest.param(
            after([snapshot(4, "u", 7, COMPACT)]), LedgerAnswer.NOT_APPLIED, id="only its compaction is noted"
        ),
        pytest.param(after([OURS, snapshot(5, "u", 8)]), LedgerAnswer.FORGOTTEN, id="a later one took its place"),
        pytest.param(Ledger(dropped_until=4), LedgerAnswer.FORGOTTEN, id="its user may have been dropped"),
        pytest.param(Ledger(dropped_until=3), LedgerAnswer.NOT_APPLIED, id="no user was dropped since"),
    ],
)
def test_a_later_ledger_tells_whether_a_snapshot_was_applied(ledger: Ledger, expected: LedgerAnswer) -> None:
    assert ledger_answer(OURS, ledger) is expected
