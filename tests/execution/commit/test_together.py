"""Several staged commits become one snapshot, in which later ones win over earlier ones, exactly once."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ProcessDied
from tests.execution.commit.test_order import TABLES, Place, replayed

KEYS = st.integers(0, 5)
# The keys of each part.
PARTS = st.lists(st.lists(KEYS, max_size=4, unique=True), min_size=1, max_size=6)


def together(table: lc.Table, staged: Sequence[lc.StagedCommit], **properties: str) -> lc.CommitReport:
    return table.commit_together(staged, commit_user="all", commit_identifier=1, properties=properties)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
@settings(max_examples=settings.default.max_examples // 2)
@given(parts=PARTS, order=st.randoms(use_true_random=False), overtaken=st.lists(KEYS, max_size=3, unique=True))
def test_one_snapshot_holds_what_its_parts_would_make_one_after_the_other(
    options: dict[str, str], parts: list[list[int]], order: Any, overtaken: list[int]
) -> None:
    place = Place(options)
    place.table.write([{"k": 0, "v": "first"}])
    named = [[(key, f"part {number}", number) for key in keys] for number, keys in enumerate(parts)]
    staged: dict[int, lc.StagedCommit] = {}
    for number in order.sample(range(len(parts)), len(parts)):
        staged[number] = place.stage(f"part {number}", *named[number])
    between = [(key, "between", 99) for key in overtaken]
    if between:
        place.table.write([dict(zip("kvn", row, strict=True)) for row in between])
    report = together(place.table, [staged[number] for number in range(len(parts))])

    one_after_the_other = {key: value for part in ([(0, "first")], between, *named) for key, value, *_ in part}
    assert place.rows() == sorted(one_after_the_other.items())
    assert report.rows_added == sum(map(len, parts))
    ours = [one for one in place.table.snapshots() if one.commit_user == "all" and str(one.commit_kind) == "APPEND"]
    assert len(ours) == (1 if any(parts) else 0)
    place.table.compact(full=True)
    assert replayed(place.table) == place.rows()
    assert place.table.verify().findings == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER, FaultKind.LOST_BEFORE])
def test_a_joint_commit_that_dies_at_any_call_is_applied_once_when_it_is_repeated(kind: FaultKind) -> None:
    call, died = 0, True
    while died:
        call += 1
        place = Place({"write-only": "true"})
        staged = [place.stage(user, (1, user), (2, user)) for user in "abc"]
        store = FaultyStore(place.store, [Fault(at=call, kind=kind)])
        try:
            together(Catalog(store, clock=VirtualClock(seed=1)).table("db.t"), staged)
            died = len(store.calls) >= call
        except (ProcessDied, lc.LakehouseError):
            pass
        table = Catalog(place.store, clock=VirtualClock(seed=2)).table("db.t")
        together(table, staged)

        assert place.rows() == [(1, "c"), (2, "c")], f"call {call}"
        assert len(table.snapshots()) == 1, f"call {call}"
        assert table.verify().findings == (), f"call {call}"
    assert call > 20


def test_the_snapshot_has_the_properties_of_the_joint_commit_alone() -> None:
    place = Place({})
    staged = [place.stage(user, (number, user), properties={"of": user}) for number, user in enumerate("ab")]
    report = together(place.table, staged, batches="a, b")

    (snapshot,) = place.table.snapshots()
    assert (snapshot.commit_user, snapshot.commit_identifier) == ("all", 1)
    assert snapshot.properties["batches"] == "a, b"
    assert "of" not in snapshot.properties
    assert not report.replayed
    assert together(place.table, staged).replayed


@pytest.mark.parametrize("others", [[0, 1], [1], [1, 0], []])
def test_a_repetition_with_other_parts_is_refused(others: list[int]) -> None:
    place = Place({})
    parts = [place.stage(user, (number, user)) for number, user in enumerate("abc")]
    together(place.table, parts[:1])

    given = [parts[number] for number in others] or parts
    with pytest.raises(lc.CommitConflict, match=r"all/1: snapshot 1 was committed .* with other staged commits"):
        together(place.table, given)

    assert place.rows() == [(0, "a")]
    assert together(place.table, parts[:1]).replayed


def test_parts_of_an_append_table_are_added_up() -> None:
    catalog = Catalog(MemoryStore(clock=VirtualClock()), clock=VirtualClock())
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT"})
    staged = [
        table.stage([{"k": number}], commit_user="u", commit_identifier=number) for number in (3, 1, 2)
    ]  # fmt: skip
    together(table, staged)

    assert sorted(row["k"] for row in table.scan().to_arrow().to_pylist()) == [1, 2, 3]
    assert len(table.snapshots()) == 1


def test_parts_that_were_staged_with_earlier_schemas_are_committed_with_later_ones() -> None:
    place = Place({"write-only": "true"})
    first = place.stage("a", (1, "a"), (2, "a"))
    place.table.alter(lc.AddColumn("more", "STRING"))
    second = place.table.stage([{"k": 1, "v": "b", "more": "x"}], commit_user="b", commit_identifier=1)
    together(place.table, [first, second])

    rows = sorted((row["k"], row["v"], row["more"]) for row in place.table.scan().to_arrow().to_pylist())
    assert rows == [(1, "b", "x"), (2, "a", None)]


def test_what_cannot_be_one_snapshot_is_refused() -> None:
    place = Place({})
    one = place.stage("a", (1, "a"))
    other = Place({}).table.stage([{"k": 1}], commit_user="b", commit_identifier=1, mode=lc.StaticOverwrite())
    cases = [
        ([], "at least one staged commit"),
        ([one, one], "a/1 is given twice"),
        ([one, other], "b/1 is an overwrite, which needs a snapshot of its own"),
        ([5], "expected a list of what stage returned"),
    ]
    for parts, message in cases:
        with pytest.raises(lc.InvalidRequest, match=message):
            together(place.table, parts)  # type: ignore[arg-type]

    assert place.table.snapshots() == ()


def test_all_pending_are_those_of_one_user_in_the_order_of_their_identifiers() -> None:
    place = Place({})
    for user, identifier in (("u", 10), ("u", 9), ("u-1", 3), ("v", 1), ("u" * 300, 2)):
        staged = place.table.stage([{"k": 1}], commit_user=user, commit_identifier=identifier)
        place.table.keep_pending(staged)

    assert [staged.commit_identifier for staged in place.table.all_pending("u")] == [9, 10]
    assert [staged.commit_identifier for staged in place.table.all_pending("u" * 300)] == [2]
    assert place.table.all_pending("w") == []
