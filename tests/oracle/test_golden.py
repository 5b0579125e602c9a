"""The model against Java: the histories of the golden tables, with the compactions that Java chose.

Rows at every snapshot and the changelog of every snapshot must be Java's. What 1.4.2 does otherwise than 2.0.0 is told
to the model by name: `agg_values` keeps blanks in `listagg`, `pk_seq_desc` ascends inside a flush.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.differential.executors import QUIRKS, bare_steps
from tests.golden import sets
from tests.oracle.history import History, Replay, Trace

pytestmark = pytest.mark.golden

# Tables with a merge engine, a changelog producer or sequences; sketches are no values that can be checked by reading.
COVERED = re.compile(r"(pu|agg|fr|cl|dv|pk_seq|pk_ignore_delete|pk_rowkind|evolved_pk)(_(?!sketch)|$)")
TABLES = [(name, table) for name in sets.RECORDED for table in sets.docs(name) if COVERED.match(table)]


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    target = tmp_path_factory.mktemp("golden")
    return {name: sets.unpack(name, target) for name in sets.RECORDED}


def trace_of(doc: sets.Doc, table: lc.Table) -> Trace:
    """Return what Java recorded, with the files that its snapshots name."""
    rows = sets.rows_by_snapshot(doc)
    changes = {step["snapshot"]: step["rows"] for step in doc["changelog"]["snapshots"]}
    steps = {
        step.snapshot_id: replace(step, rows=rows[step.snapshot_id], changes=changes.get(step.snapshot_id, []))
        for step in bare_steps(table)
    }
    made = [[steps[snapshot_id] for snapshot_id in operation.get("snapshots", [])] for operation in doc["operations"]]
    assert sum(map(len, made)) == len(steps) == len(rows)
    return Trace(made)


def test_the_tables_of_every_engine_and_producer_are_covered() -> None:
    assert len(TABLES) == 2 * 52


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_the_model_shows_the_rows_and_changes_that_java_shows(
    warehouses: dict[str, Path], name: str, table: str
) -> None:
    doc = sets.docs(name)[table]
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")
    operations = [operation for operation in doc["operations"] if operation["verb"] != "close"]
    history = replace(History.of(doc), operations=operations)
    quirks = QUIRKS[name.removeprefix("java-")]

    assert Replay(history, quirks).differences(trace_of({**doc, "operations": operations}, opened)) == []


@pytest.mark.parametrize("table", ["agg_values", "pk_seq_desc"])
def test_the_model_tells_the_releases_apart(warehouses: dict[str, Path], table: str) -> None:
    doc = sets.docs("java-1.4.2")[table]
    opened = lc.connect(str(warehouses["java-1.4.2"])).table(f"db.{table}")

    assert Replay(History.of(doc), QUIRKS["2.0.0"]).differences(trace_of(doc, opened)) != []
