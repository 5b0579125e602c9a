"""The page of a maintenance plan: its figures and sentences, every text of a table escaped, nothing loaded."""

from __future__ import annotations

from dataclasses import replace

import lakehouse_core as lc
from tests.api.fleet.lakes import Lake
from tests.api.test_health import pictures, text


def test_the_page_has_the_budget_each_choice_and_each_refusal() -> None:
    lake = Lake()
    lake.key_table(runs=9)
    lake.key_table("u")
    plan = lake.plan(budget=lc.Budget(bytes=10**6, requests=1000))

    page = lc.maintenance_page(plan)

    assert [len(picture.findall("rect")) for picture in pictures(page)] == [4]
    for each in (*plan.choices, *plan.refusals):
        assert each.reason in text(page)
    assert page.count('class="due"') == sum(choice.urgent is not None for choice in plan.choices) == 2


def test_the_page_of_a_run_has_the_outcome_of_each_choice() -> None:
    lake = Lake()
    lake.key_table(runs=6)
    lake.key_table("u", runs=6)
    plan = lake.plan(operations=["compact"])
    lake.drop_table("db.u")

    report = lake.maintain(plan)
    page = lc.maintenance_page(plan, report.outcomes[:3])

    assert all(each.text in text(page) for each in report.outcomes[:3])
    assert "skipped: Table 'db.u' does not exist" in text(page)
    assert text(page).count("not reached") == 1
    assert "not reached" not in text(lc.maintenance_page(plan))


def test_a_plan_without_choices_and_one_of_two_lakes_have_pages() -> None:
    lakes = Lake(), Lake()
    for lake in lakes:
        lake.key_table(runs=6)

    assert "Nothing is worth its cost within the budget." in text(
        lc.maintenance_page(lakes[0].plan(budget=lc.Budget(bytes=0, seconds=0)))
    )
    both = text(lc.maintenance_page(lakes[0].plan(also=[lakes[1]])))
    assert all(f"db.t in {lake.uri}" in both for lake in lakes)


def test_names_cannot_become_markup_and_long_plans_are_cut() -> None:
    lake = Lake()
    lake.key_table(runs=6)
    plan = lake.plan()
    bad = "<script>alert('&')</script>\"\ud800"
    choice = replace(plan.choices[0], table=bad, partition={"dt": bad}, reason=bad, urgent=bad)

    page = lc.maintenance_page(replace(plan, warehouses=(bad,), choices=(choice,) * 1001))

    assert "<script" not in page
    assert "… and 1 more; the JSON of the plan has all." in text(page)
    page.encode()
