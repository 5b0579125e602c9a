"""What a budget is spent on: laws over any candidates, all choices being the slow oracle; the order and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.planning.fleet.candidates import Candidate, TableEffect, total
from lakehouse_core.planning.fleet.choice import DAYS_TO_PAY, Choice, choose
from lakehouse_core.planning.fleet.cost import Cost
from lakehouse_core.planning.fleet.operations import Operation


def candidate(
    table: str = "db.t",
    operation: Operation = "compact",
    partition: str | None = None,
    *,
    size: int = 100,
    requests: int = 10,
    seconds: float = 1.0,
    saved: float = 1.0,
    urgent: str | None = None,
) -> Candidate:
    return Candidate(
        warehouse="lake",
        table=table,
        operation=operation,
        partition=None if partition is None else {"dt": partition},
        cost=Cost(bytes=size, requests=requests, seconds=seconds),
        saved_seconds=saved,
        effect=TableEffect(text="figures"),
        urgent=urgent,
    )


# Each partition has a compaction, a full one, or both.
CANDIDATES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(0, 40)),
        st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(0, 40)),
    ),
    max_size=6,
).map(lambda drawn: [one for number, found in enumerate(drawn) for one in _partition(number, *found)])
BUDGETS = st.builds(
    lambda size, requests: lc.Budget(bytes=size, requests=requests),
    st.integers(0, 120),
    st.none() | st.integers(0, 20),
)


def _partition(number: int, kinds: int, minor: tuple[int, int, int], full: tuple[int, int, int]) -> Iterator[Candidate]:
    for bit, operation, (size, requests, saved) in ((1, "compact", minor), (2, "compact_full", full)):
        if kinds & bit:
            yield candidate(
                operation=operation,  # type: ignore[arg-type]
                partition=str(number),
                size=size,
                requests=requests,
                seconds=size / 100,
                saved=float(saved),
            )


def value(candidates: Sequence[Candidate]) -> float:
    return sum(each.saved_seconds for each in candidates)


def highest_value(candidates: Sequence[Candidate], budget: lc.Budget) -> float:
    """Return the value of the best of all choices that fit, by trying each."""
    groups: dict[str, list[Candidate | None]] = {}
    for each in candidates:
        if each.days_to_pay <= DAYS_TO_PAY:
            groups.setdefault(str(each.partition), [None]).append(each)
    choices = ([each for each in found if each is not None] for found in product(*groups.values()))
    return max(value(found) for found in choices if budget.holds(total(found)))


@given(CANDIDATES, BUDGETS)
def test_the_choices_are_within_the_budget_and_at_most_one_for_each_partition(
    candidates: list[Candidate], budget: lc.Budget
) -> None:
    choice = choose(candidates, budget)

    assert budget.holds(total(choice.chosen))
    partitions = [str(each.partition) for each in choice.chosen]
    assert len(partitions) == len(set(partitions))


@given(CANDIDATES, st.integers(0, 120))
def test_the_value_is_at_least_half_of_the_highest_and_all_of_it_if_everything_fits(
    candidates: list[Candidate], size: int
) -> None:
    budget = lc.Budget(bytes=size)

    assert value(choose(candidates, budget).chosen) >= highest_value(candidates, budget) / 2
    enough = lc.Budget(bytes=10_000)
    assert value(choose(candidates, enough).chosen) == highest_value(candidates, enough)


@given(CANDIDATES, BUDGETS)
def test_what_is_left_out_has_a_reason_unless_a_choice_does_more_for_its_partition(
    candidates: list[Candidate], budget: lc.Budget
) -> None:
    choice = choose(candidates, budget)

    refused = [one.candidate for one in choice.refused]
    assert all(one.reason for one in choice.refused)
    for each in candidates:
        done = [one for one in choice.chosen if one.partition == each.partition]
        if each not in choice.chosen and each not in refused:
            assert value(done) >= value([each])
        assert not (each in choice.chosen and each in refused)


@given(st.permutations([candidate(partition=str(number), saved=number % 3 + 1.0) for number in range(6)]))
def test_the_order_of_the_candidates_does_not_matter(candidates: list[Candidate]) -> None:
    budget = lc.Budget(bytes=300)

    assert choose(candidates, budget) == choose(sorted(candidates, key=lambda each: each.name), budget)


def names(choice: Choice) -> list[str]:
    return [f"{each.table} {each.name}" for each in choice.chosen]


def test_a_choice_that_takes_the_whole_budget_beats_a_smaller_one_of_better_worth() -> None:
    choice = choose(
        [candidate("db.s", size=1, saved=2.0), candidate("db.l", size=100, saved=99.0)], lc.Budget(bytes=100)
    )

    assert names(choice) == ["db.l compact"]
    assert [str(one.reason) for one in choice.refused] == [
        "it would save 2 s a day for 1 B, 10 requests, 1 s, and of the budget of 100 B the choices of more worth took "
        "100 B, 10 requests, 1 s"
    ]


def test_a_full_compaction_takes_the_place_of_a_lesser_one_if_its_difference_pays() -> None:
    both = [candidate(size=10, saved=5.0), candidate(operation="compact_full", size=50, saved=8.0)]

    assert names(choose(both, lc.Budget(bytes=50))) == ["db.t compact --full"]
    left = choose(both, lc.Budget(bytes=49))
    assert names(left) == ["db.t compact"]
    assert left.refused[0].reason.startswith("alone it needs 50 B")
    # The other table's compaction is worth more than the difference.
    others = choose([*both, candidate("db.u", size=30, saved=6.0)], lc.Budget(bytes=60))
    assert names(others) == ["db.t compact", "db.u compact"]
    assert others.refused[0].reason.endswith("compact, which takes 10 B, 10 requests, 1 s, is chosen instead")


def test_what_is_urgent_comes_first_also_if_it_does_not_pay() -> None:
    candidates = [candidate("db.u", saved=0.001, urgent="writers wait"), candidate("db.t", saved=9.0)]

    assert names(choose(candidates, lc.Budget(bytes=200))) == ["db.u compact", "db.t compact"]
    assert names(choose(candidates, lc.Budget(bytes=100))) == ["db.u compact"]
    only = choose(candidates, lc.Budget(bytes=200), only_urgent=True)
    assert names(only) == ["db.u compact"]
    assert [one.reason for one in only.refused] == ["it is not urgent"]


def test_each_urgent_partition_is_helped_before_one_is_compacted_in_full() -> None:
    candidates = [
        candidate("db.a", size=10, saved=5.0, urgent="writers wait"),
        candidate("db.a", "compact_full", size=100, saved=1000.0, urgent="writers wait"),
        candidate("db.b", size=50, saved=0.001, urgent="writers wait"),
    ]

    assert names(choose(candidates, lc.Budget(bytes=100))) == ["db.a compact", "db.b compact"]
    # What is left pays for the difference.
    assert names(choose(candidates, lc.Budget(bytes=150))) == ["db.a compact --full", "db.b compact"]


def test_the_reserve_is_what_the_same_budget_would_buy_once_more() -> None:
    choice = choose([candidate(partition=str(number), saved=9.0 - number) for number in range(5)], lc.Budget(bytes=200))

    assert [each.name for each in choice.reserve] == ["compact dt=2", "compact dt=3"]
    assert {one.candidate.name for one in choice.refused} == {"compact dt=2", "compact dt=3", "compact dt=4"}


@pytest.mark.parametrize(
    ("saved", "reason"),
    [
        (1 / 31, "it would take 1 s and save 0.032 s a day, so it pays after 31 days, and the limit is 30"),
        (0.0, "it would take 1 s and save 0 s a day, so it never pays, and the limit is 30"),
    ],
)
def test_what_readers_do_not_repay_in_time_is_refused(saved: float, reason: str) -> None:
    choice = choose([candidate(saved=saved)], lc.Budget(bytes=1000))

    assert (names(choice), [one.reason for one in choice.refused]) == ([], [reason])


def test_the_manifests_and_snapshots_of_a_table_come_after_its_compactions() -> None:
    choice = choose(
        [
            candidate("db.t", "expire", size=0, saved=9.0),
            candidate("db.t", "compact_manifests", size=1, saved=9.0),
            candidate("db.t", partition="a", size=200),
            candidate("db.t", partition="b", size=100),
            candidate("db.u", "expire", size=0, saved=5.0),
            candidate("db.u", size=400),
            candidate("db.v", "expire", size=0, saved=1.0),
        ],
        lc.Budget(bytes=1000),
    )

    assert names(choice) == [
        "db.v expire",
        "db.t compact dt=b",
        "db.t compact dt=a",
        "db.t compact-manifests",
        "db.t expire",
        "db.u compact",
        "db.u expire",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing is limited"),
        ({"bytes": -1}, "bytes=-1: expected a whole number"),
        ({"bytes": 1.5}, "expected a whole number"),
        ({"requests": True}, "expected a whole number"),
        ({"seconds": float("nan")}, "seconds=nan: expected a number"),
        ({"seconds": "1"}, "expected a number of 0 or more"),
        ({"seconds": 10**400}, "expected a number of 0 or more"),
    ],
)
def test_a_budget_is_a_limit(given: dict[str, object], message: str) -> None:
    with pytest.raises(lc.InvalidRequest, match=message):
        lc.Budget(**given)  # type: ignore[arg-type]
