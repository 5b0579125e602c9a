"""Ticks of the sensors that look at each table: what the sources have, and what the tables are.

Nothing waits: so most ticks are. Half of the tables take files, the others the changes of one table with many
snapshots. A tick that takes longer than its budget goes on with the other tables at the next one.
"""

import logging
import tempfile
import time
from pathlib import Path

import dagster as dg
import pyarrow as pa

from benchmarks import _measure as measure
from lakehouse_dagster import Lake, TableSpec
from lakehouse_dagster.testing import ReadyLake, ready_lake

TABLES = 80
# A lake that a tick looks at as a whole.
_LAKE = 300
SNAPSHOTS = 40
# A run of all tables takes the square of their number.
_A_RUN = 20
_COMMON = {"database": "d", "comment": "T.", "columns": {"id": "BIGINT NOT NULL"}, "runs_on": "process"}
_KEYED = {"primary_key": ["id"], "options": {"bucket": "1"}}


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=3)
    tables = measure.scaled(TABLES, parsed)
    measure.print_header("Ticks of sensors", data=f"{tables} tables; the followed one has {SNAPSHOTS} snapshots")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, ready_lake(lake(Path(folder), tables), resources={}) as ready:
        fill(ready, Path(folder))
        taken = {name: [tick(ready, name) for _ in range(parsed.rounds)] for name in ("news", "state")}
    rows = [[name, f"{min(each):.2f}", f"{min(each) / tables * 1000:.1f}"] for name, each in taken.items()]
    measure.print_rows(f"{tables} tables", ["sensor", "CPU s", "CPU ms a table"], rows)
    bars = [
        measure.Bar(f"{name}, {_LAKE} tables", min(each) / tables * _LAKE, 10, 5, "s CPU")
        for name, each in taken.items()
    ]
    measure.print_bars(bars)


def lake(folder: Path, tables: int) -> Lake:
    followed = {"name": "followed", "write_mode": "upsert", "function": {"call": rows}, **_KEYED}
    followed["options"] = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    specs = [followed]
    for number in range(tables // 2):
        files = {"path": str(folder / f"{number}-*.csv")}
        specs += [
            {"name": f"files_{number}", "write_mode": "append", "files": files},
            {"name": f"changes_{number}", "write_mode": "cdc", "changes_of": {"table": "d.followed"}, **_KEYED},
        ]
    return Lake(name="lake", tables=[TableSpec.model_validate({**_COMMON, **each}) for each in specs])


def rows() -> pa.Table:
    return pa.table({"id": pa.array([1], pa.int64())})


def fill(ready: ReadyLake, folder: Path) -> None:
    """Load each table, so that nothing waits."""
    for number in range(len(ready.lake.tables) // 2):
        (folder / f"{number}-1.csv").write_text("id\n1\n")
    followed = ready.lake.table("d.followed")
    job = ready.definitions.resolve_job_def("lake_ingest")
    own = [ready.lake.operation_key(followed, "ingest"), ready.lake.table_key(followed)]
    assert job.execute_in_process(instance=ready.instance, asset_selection=own).success
    for number in range(SNAPSHOTS):
        ready.table("d.followed").write([{"id": number}])
    others = [spec for spec in ready.lake.tables if spec is not followed]
    for start in range(0, len(others), _A_RUN):
        specs = others[start : start + _A_RUN]
        keys = [key for spec in specs for key in (ready.lake.operation_key(spec, "ingest"), ready.lake.table_key(spec))]
        assert job.execute_in_process(instance=ready.instance, asset_selection=keys).success


def tick(ready: ReadyLake, name: str) -> float:
    """Return the CPU seconds that a tick takes which finds nothing to do."""
    sensor = ready.definitions.get_repository_def().get_sensor_def(f"lake_{name}")
    given = {key: (ready.definitions.resources or {})[key] for key in sensor.required_resource_keys}
    with dg.build_sensor_context(instance=ready.instance, resources=given, definitions=ready.definitions) as context:
        started = time.process_time()
        found = sensor.evaluate_tick(context)
        seconds = time.process_time() - started
    assert not found.run_requests
    return seconds


if __name__ == "__main__":
    main()
