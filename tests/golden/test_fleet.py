"""A plan over all tables that Java wrote, of every kind: each is planned or refused, and a run changes no row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.cli.output import json_rows
from tests.golden.sets import unpack

pytestmark = pytest.mark.golden


def rows(table: lc.Table) -> list[str]:
    return sorted(json.dumps(row) for batch in table.scan().to_batches() for row in json_rows(batch))


def objects(warehouse: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in warehouse.rglob("*") if path.is_file()
    }


def plan_of(catalog: lc.Catalog) -> lc.MaintenancePlan:
    return catalog.plan_maintenance(
        budget=lc.Budget(bytes=1 << 40),
        reads=dict.fromkeys(catalog.matching(), 1e6),
        # Java's readers and expiry do not know when ours deletes files.
        operations=("compact", "compact_full", "compact_manifests"),
    )


def test_every_table_of_java_is_planned_or_refused_without_a_change(unpacked: Callable[[str], Path]) -> None:
    warehouse = unpacked("java-2.0.0")
    catalog = lc.connect(warehouse)
    before = objects(warehouse)

    plan = plan_of(catalog)

    assert objects(warehouse) == before
    told = {choice.table for choice in plan.choices} | {refusal.table for refusal in plan.refusals}
    assert told == set(catalog.matching())
    # No kind of table ends its own survey: what is refused is an operation.
    assert [str(refusal) for refusal in plan.refusals if refusal.operation is None] == []


@pytest.mark.long
def test_a_run_of_the_plan_changes_no_row_of_a_table_of_java(tmp_path: Path) -> None:
    catalog = lc.connect(unpack("java-2.0.0", tmp_path))
    plan = plan_of(catalog)
    tables = {choice.table: catalog.table(choice.table) for choice in plan.choices}
    known = {name: rows(table) for name, table in tables.items()}

    report = catalog.maintain(plan)

    # It has times that ORC files of this package cannot store, which no metadata tells.
    assert {each.choice.table for each in report.outcomes if each.error is not None} == {"db.append_all_orc"}
    assert [str(each) for each in report.outcomes if each.skipped is not None] == []
    # Readers of these two skip rows until they are compacted, or moved to their buckets.
    changed = {name for name, table in tables.items() if rows(table) != known[name]}
    assert changed == {"db.dv_write_only", "db.postpone"}
