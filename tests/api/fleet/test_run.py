"""A plan that is carried out: its choices once, within its budget, whatever happened to the tables since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import lakehouse_core as lc
from tests.api.fleet.lakes import ENOUGH, Lake, names

HOUR = 3600


@pytest.fixture
def lake() -> Lake:
    return Lake()


def rows(table: lc.Table) -> list[dict[str, object]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=str)


def test_a_plan_is_carried_out_by_the_verbs_of_its_tables_and_changes_no_row(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    lake.clock.advance(2 * HOUR)
    before = rows(table)

    plan = lake.plan()
    report = lake.maintain(plan, properties={lc.RUN_ID: "run-1"})

    assert [str(each).split(":")[1].strip() for each in report.outcomes] == [choice.name for choice in plan.choices]
    assert all(each.is_done for each in report.outcomes)
    assert str(report).startswith("4 of 4 operations done: ")
    assert report.cost.bytes == plan.cost.bytes
    assert rows(table) == before
    assert len(table.files()) == 2
    assert [snapshot.run_id for snapshot in table.snapshots()] == [None, *["run-1"] * 3]
    assert table.verify().findings == ()
    # What is done is not planned again, and a repeated run does nothing.
    assert names(lake.plan(operations=["compact", "compact_full", "compact_manifests"])) == []
    again = lake.maintain(plan)
    assert [each.is_done for each in again.outcomes] == [False] * 4
    assert again.outcomes[0].skipped == "snapshot 7 has compacted it since the plan, which counts as spent"
    assert again.outcomes[2].report is not None
    assert again.to_dict()["outcomes"][2]["report"]["noop_reason"]


def test_the_figures_of_a_plan_are_those_of_its_execution(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    table.write([{"dt": "c", "id": 1, "v": "x"}])
    before = {each.partition["dt"]: each for each in table.partitions()}

    plan = lake.plan(operations=["compact_full"])
    lake.maintain(plan)

    after = {each.partition["dt"]: each for each in table.partitions()}
    for choice in plan.choices:
        dt = choice.partition["dt"] if choice.partition else None
        assert choice.files_saved == before[dt].file_count - after[dt].file_count
        assert choice.bytes == before[dt].file_size
    assert [choice.partition for choice in plan.choices] == [{"dt": "a"}, {"dt": "b"}]


def test_a_table_that_was_dropped_or_made_again_since_the_plan_is_skipped(lake: Lake) -> None:
    for name in ("a", "b", "c"):
        lake.key_table(name, runs=6)
    plan = lake.plan(operations=["compact"])
    lake.drop_table("db.a")
    lake.drop_table("db.b")
    lake.clock.advance(1)
    lake.key_table("b", runs=6)

    report = lake.maintain(plan)

    told = {each.choice.table: str(each.skipped) for each in report.outcomes}
    assert told["db.a"].startswith("Table 'db.a' does not exist.")
    assert told["db.b"] == "the table was dropped, and another one of its name was created. Plan again"
    assert [each.is_done for each in report.outcomes if each.choice.table == "db.c"] == [True, True]
    assert len(lake.table("db.b").snapshots()) == 6


def test_a_partition_that_is_gone_is_nothing_to_do(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    plan = lake.plan(operations=["compact"])
    table.overwrite([], partition={"dt": "a"})

    report = lake.maintain(plan)

    assert [str(each) for each in report.outcomes if not each.is_done] == [
        "db.t: compact dt=a: nothing was done: there are no files"
    ]


@pytest.mark.damage
def test_a_choice_that_fails_is_an_outcome_and_the_others_are_carried_out(lake: Lake) -> None:
    for name in ("bad", "good"):
        lake.key_table(name, runs=6)
    plan = lake.plan(operations=["compact"])
    file = next(file for file in lake.table("db.bad").files() if file.partition == {"dt": "a"})
    lake.store.write({f"db.db/bad/{file.path}": b"PAR1 is not enough PAR1"})

    report = lake.maintain(plan)

    (failed,) = (each for each in report.outcomes if each.error is not None)
    assert failed.choice.name == "compact dt=a"
    assert isinstance(failed.error, lc.CorruptTable)
    assert sum(each.is_done for each in report.outcomes) == 3
    assert "1 failed" in str(report)
    told = report.to_dict()["outcomes"][report.outcomes.index(failed)]
    assert (told["error"], told["error_class"], told["warehouse"]) == (str(failed.error), "CorruptTable", lake.uri)


def test_a_partition_that_grew_since_the_plan_is_not_compacted_beyond_the_budget(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    planned = lake.plan(operations=["compact"])
    plan = lake.plan(operations=["compact"], budget=lc.Budget(bytes=planned.cost.bytes))
    assert plan.choices == planned.choices
    for _ in range(3):
        table.write([{"dt": "b", "id": number, "v": "more"} for number in range(9)])

    report = lake.maintain(plan)

    assert report.cost.bytes <= plan.cost.bytes
    assert "KB, 59 requests, 0.062 s now, and of the budget 8." in str(report.outcomes[1])
    assert str(report.outcomes[1]).endswith("are left: too few bytes")
    assert [each.is_done for each in report.outcomes] == [True, False]


@pytest.mark.parametrize(
    ("budget", "exceeded"),
    [
        (lambda plan: lc.Budget(bytes=plan.choices[0].bytes), "bytes"),
        (lambda plan: lc.Budget(requests=plan.choices[0].requests), "requests"),
        (lambda plan: lc.Budget(seconds=plan.choices[0].seconds), "seconds"),
    ],
    ids=["bytes", "requests", "seconds"],
)
def test_a_run_stops_where_the_budget_is_spent(
    lake: Lake, budget: Callable[[lc.MaintenancePlan], lc.Budget], exceeded: str
) -> None:
    lake.key_table(runs=6)
    plan = lake.plan(operations=["compact"])

    def work(progress: lc.Progress) -> None:
        if progress.phase == "committing the compaction":
            lake.clock.advance(1)

    report = lake.maintain(replace(plan, budget=budget(plan)), progress=work)

    assert [each.is_done for each in report.outcomes] == [True, False]
    assert str(report.outcomes[1].skipped).endswith(f"more exceed its {exceeded}")


@pytest.mark.parametrize("unit", ["requests", "seconds"])
def test_a_partition_that_grew_is_not_compacted_beyond_any_limit(lake: Lake, unit: str) -> None:
    table = lake.key_table(runs=6)
    plan = lake.plan(operations=["compact"])
    plan = replace(plan, budget=lc.Budget(**{unit: getattr(plan.choices[0], unit)}))
    for _ in range(40):
        table.write([{"dt": dt, "id": number, "v": "more"} for dt in "ab" for number in range(9)])

    report = lake.maintain(plan)

    assert [each.is_done for each in report.outcomes] == [False, False]
    assert all(str(each).endswith(f"are left: too few {unit}") for each in report.outcomes)
    assert (report.cost.bytes, report.cost.requests) == (0, 0)


@pytest.mark.damage
def test_what_a_failing_table_leaves_of_the_budget_goes_to_the_next_best(lake: Lake) -> None:
    bad = lake.key_table("bad", runs=8)
    lake.key_table("good", runs=6)
    size = sum(choice.bytes for choice in lake.plan(operations=["compact"]).choices if choice.table == "db.bad")
    for file in bad.files():
        lake.store.write({f"db.db/bad/{file.path}": b"PAR1 is not enough PAR1"})
    plan = lake.plan(operations=["compact"], budget=lc.Budget(bytes=size + 10))
    assert {choice.table for choice in plan.choices} == {"db.bad"}
    assert {choice.table for choice in plan.reserve} == {"db.good"}

    report = lake.maintain(lc.MaintenancePlan.from_json(plan.to_json()))

    told = [(each.choice.table, each.is_done, each.error is not None) for each in report.outcomes]
    assert told == [*[("db.bad", False, True)] * 2, *[("db.good", True, False)] * 2]
    assert report.cost.bytes == sum(choice.bytes for choice in plan.reserve)


def test_the_reserve_of_a_lake_leaves_the_choices_of_the_others_their_share() -> None:
    lakes = Lake(), Lake()
    for lake in lakes:
        lake.key_table(runs=6)
    one = lakes[0].plan(operations=["compact"]).choices[0]
    plan = lakes[0].plan(operations=["compact"], also=[lakes[1]], budget=lc.Budget(bytes=2 * one.bytes))
    mine = [choice for choice in plan.choices if choice.warehouse == lakes[0].uri]
    first, second = lakes if mine else lakes[::-1]
    # Nothing is left to do for the first choice of the plan, so its share is free.
    first.table("db.t").overwrite([], partition=dict(plan.choices[0].partition or {}))

    ran = first.maintain(plan)
    rest = plan.after(ran.warehouse, ran.cost)

    assert all(each.is_done for each in second.maintain(rest).outcomes)
    assert {choice.warehouse for choice in rest.choices} <= {second.uri}


def test_a_plan_that_is_run_again_spends_its_budget_once(lake: Lake) -> None:
    table = lake.create_table(
        "db.t",
        {"id": "INT NOT NULL", "v": "STRING"},
        options={"write-only": "true", "bucket": "2", "bucket-key": "id"},
    )
    for number in range(9):
        table.write([{"id": number * 100 + row, "v": f"{number * row}"} for row in range(100)])
    lake.key_table("u", runs=6)
    planned = lake.plan(operations=["compact"])
    budget = lc.Budget(bytes=max(choice.bytes for choice in planned.choices))
    plan = lake.plan(operations=["compact"], budget=budget, reads={"db.t": 1e6})

    first = lake.maintain(plan)
    table.write([{"id": 1, "v": "more"}])
    second = lake.maintain(plan)

    assert any(each.is_done for each in first.outcomes)
    assert not any(each.is_done for each in second.outcomes)
    assert "has compacted it since the plan, which counts as spent" in str(second.outcomes[0])
    assert second.cost.bytes >= first.cost.bytes


def test_a_choice_whose_base_has_expired_is_skipped(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    plan = lake.plan(operations=["compact"])
    for number in range(2):
        table.write([{"dt": "a", "id": number, "v": "x"}])
    lake.clock.advance(2 * HOUR)
    table.write([{"dt": "a", "id": 2, "v": "x"}])
    table.expire_snapshots()

    report = lake.maintain(plan)

    assert all("is not known any more" in str(each.skipped) for each in report.outcomes)
    assert len(table.files()) == 15


def test_a_choice_that_another_writer_overtakes_is_skipped(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    plan = lake.plan(operations=["compact"])

    def overtake(progress: lc.Progress) -> None:
        if progress.phase == "committing the compaction" and len(table.snapshots()) == 6:
            table.overwrite([{"dt": "a", "id": 1, "v": "z"}], partition={"dt": "a"})

    report = lake.maintain(plan, progress=overtake)

    assert str(report.outcomes[0].skipped).startswith("overtaken by another commit: ")
    assert report.outcomes[0].error is None
    assert report.outcomes[1].is_done
    assert report.cost.bytes == plan.cost.bytes


def test_each_lake_carries_out_its_own_choices() -> None:
    lakes = Lake(), Lake()
    for lake in lakes:
        lake.key_table(runs=6)
    plan = lakes[0].plan(operations=["compact"], also=[lakes[1]])

    report = lakes[1].maintain(plan)

    assert [each.choice.warehouse for each in report.outcomes] == [lakes[1].uri] * 2
    assert len(lakes[0].table("db.t").snapshots()) == 6
    with pytest.raises(lc.InvalidRequest, match=r"The plan is for memory.*, not for memory"):
        Lake().maintain(plan)
    with pytest.raises(lc.InvalidRequest, match=r"maintain\(5\): expected a plan"):
        lakes[0].maintain(5)  # type: ignore[arg-type]


def test_a_branch_and_a_tag_keep_their_rows(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    table.create_tag("kept", at=3)
    held = sorted(table.scan(at=lc.AtTag("kept")).to_arrow().to_pylist(), key=str)
    lake.maintain(lake.plan(budget=ENOUGH))
    lake.clock.advance(2 * HOUR)
    lake.maintain(lake.plan())
    lake.clock.advance(2 * HOUR)

    report = lake.maintain(lake.plan())

    assert all(each.is_done for each in report.outcomes)
    assert sorted(table.scan(at=lc.AtTag("kept")).to_arrow().to_pylist(), key=str) == held
    assert table.verify().findings == ()


def test_append_tables_null_partitions_and_deletion_vectors_are_maintained(lake: Lake) -> None:
    logs = lake.create_table(
        "db.logs", {"dt": "STRING", "id": "INT"}, partition_keys=["dt"], options={"write-only": "true"}
    )
    for number in range(6):
        logs.write([{"dt": None, "id": number}])
    vectors = lake.key_table("vectors", runs=3, **{"deletion-vectors.enabled": "true"})

    report = lake.maintain(lake.plan(operations=["compact", "compact_full"]))

    assert all(each.is_done for each in report.outcomes)
    assert [partition.file_count for partition in logs.partitions()] == [1]
    assert logs.scan().count() == 6
    # Readers of such a table skip what is not compacted.
    assert vectors.scan().count() == 18


def test_a_table_that_is_made_again_while_the_plan_runs_is_skipped(lake: Lake) -> None:
    lake.key_table(runs=6)
    plan = lake.plan(operations=["compact"])
    assert names(plan) == ["db.t compact dt=a", "db.t compact dt=b"]

    def make_again(progress: lc.Progress) -> None:
        if progress.phase == "carrying out the plan" and progress.done == 1:
            lake.drop_table("db.t")
            lake.clock.advance(1)
            lake.key_table(runs=6)

    first, second = lake.maintain(plan, progress=make_again).outcomes

    assert first.is_done
    assert second.skipped == "the table was dropped, and another one of its name was created. Plan again"
