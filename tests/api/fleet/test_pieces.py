"""A partition that is larger than the whole budget is compacted bucket by bucket, as far as the budget goes."""

from __future__ import annotations

import pytest

import lakehouse_core as lc
from tests.api.fleet.lakes import Lake, names

COMPACTIONS = ["compact", "compact_full"]


@pytest.fixture
def lake() -> Lake:
    return Lake()


def buckets(lake: Lake, count: int = 4) -> lc.Table:
    """Create a table whose only partition has so many buckets, each with six sorted runs."""
    table = lake.key_table("t", bucket=str(count))
    for _ in range(6):
        table.write([{"dt": "a", "id": number, "v": "text"} for number in range(200)])
    return table


def whole(lake: Lake) -> lc.MaintenanceChoice:
    (choice,) = lake.plan(operations=COMPACTIONS).choices
    assert choice.bucket is None
    return choice


def runs(table: lc.Table) -> dict[int, int]:
    return {record.bucket: record.sorted_run_count for record in table.buckets()}


def half(lake: Lake) -> lc.MaintenancePlan:
    return lake.plan(operations=COMPACTIONS, budget=lc.Budget(bytes=whole(lake).bytes * 6 // 10))


def test_a_partition_within_the_budget_is_one_operation(lake: Lake) -> None:
    buckets(lake)

    assert names(lake.plan(operations=COMPACTIONS)) == ["db.t compact dt=a"]


def test_of_a_partition_beyond_the_budget_as_many_buckets_as_it_allows_are_chosen(lake: Lake) -> None:
    buckets(lake)

    plan = half(lake)

    assert [choice.bucket is not None for choice in plan.choices] == [True, True]
    assert plan.cost.bytes <= (plan.budget.bytes or 0)
    assert names(plan)[0].startswith("db.t compact dt=a, bucket ")
    assert "in one of 4 buckets, because all together exceed the budget: rewrites" in plan.choices[0].reason
    (refused,) = (each for each in plan.refusals if each.operation == "compact" and each.bucket is None)
    assert "alone it needs" in refused.reason
    assert lc.MaintenancePlan.from_json(plan.to_json()) == plan


def test_the_chosen_buckets_are_compacted_and_the_others_stay_as_they_are(lake: Lake) -> None:
    table = buckets(lake)
    before = sorted(map(str, table.scan().to_arrow().to_pylist()))
    plan = half(lake)

    report = lake.maintain(plan)

    chosen = {choice.bucket for choice in plan.choices}
    assert all(each.is_done for each in report.outcomes[:2])
    assert runs(table) == {number: 1 if number in chosen else 6 for number in range(4)}
    assert report.cost.bytes == plan.cost.bytes
    assert sorted(map(str, table.scan().to_arrow().to_pylist())) == before
    assert table.verify().findings == ()
    assert report.to_dict()["outcomes"][0]["bucket"] == plan.choices[0].bucket


def test_a_run_that_is_repeated_takes_the_same_buckets_once_and_the_next_plan_the_others(lake: Lake) -> None:
    table = buckets(lake)
    plan = half(lake)
    lake.maintain(plan)

    again = lake.maintain(plan)

    assert not any(each.is_done for each in again.outcomes)
    assert "has compacted it since the plan" in str(again.outcomes[0])
    lake.maintain(lake.plan(operations=COMPACTIONS, budget=plan.budget))
    assert set(runs(table).values()) == {1}


def test_a_bucket_that_was_compacted_since_the_plan_leaves_its_budget_to_no_other_bucket(lake: Lake) -> None:
    table = buckets(lake)
    plan = half(lake)
    table.compact(full=True, partition={"dt": "a"}, buckets=[plan.choices[0].bucket or 0])

    report = lake.maintain(plan)

    assert [each.is_done for each in report.outcomes] == [False, True]


def test_only_the_buckets_that_should_not_wait_are_urgent(lake: Lake) -> None:
    table = lake.key_table("t", bucket="4", **{"num-sorted-run.stop-trigger": "5"})
    for _ in range(2):
        table.write([{"dt": "a", "id": number, "v": "text"} for number in range(200)])
    for _ in range(4):
        table.write([{"dt": "a", "id": number, "v": "text"} for number in range(2)])
    hot = {number for number, count in runs(table).items() if count == 6}
    (least,) = lake.plan(operations=["compact"], only_urgent=True).choices

    plan = lake.plan(operations=COMPACTIONS, only_urgent=True, budget=lc.Budget(bytes=least.bytes - 1))

    assert len(hot) == 2
    assert plan.choices
    assert {choice.bucket for choice in plan.choices} < hot


@pytest.mark.parametrize("given", [[], [-1], ["1"], [True], "12", 3])
def test_numbers_that_are_no_buckets_are_refused(lake: Lake, given: object) -> None:
    with pytest.raises(lc.InvalidRequest, match=r"buckets=.*: expected numbers of buckets, as in \[0, 3\]"):
        lake.key_table(runs=1).compact(buckets=given)  # type: ignore[arg-type]


def test_a_bucket_without_files_is_nothing_to_do(lake: Lake) -> None:
    table = buckets(lake)

    assert table.compact(full=True, buckets=[9]).noop_reason == "there are no files in bucket 9"


def test_a_caller_is_told_of_each_choice_that_begins_and_of_each_outcome(lake: Lake) -> None:
    lake.key_table(runs=6)
    plan = lake.plan(budget=lc.Budget(requests=60))
    told: list[str] = []

    report = lake.maintain(
        plan,
        before=lambda choice: told.append(f"begins {choice.name}"),
        after=lambda outcome: told.append(f"ends {outcome.choice.name}"),
    )

    assert told == [
        line
        for each in report.outcomes
        for line in (f"begins {each.choice.name}", f"ends {each.choice.name}")
        if each.report is not None or line.startswith("ends")
    ]
    assert told[0].startswith("begins")
