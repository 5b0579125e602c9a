"""The main job on two committed weeks of flights: the vocabulary of the pipeline tests."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

import lakehouse_core as lc
from assets.flights.definitions import FLIGHTS
from assets.lake import LAKE
from orchestration.definitions import defs

EXTRACT = Path(__file__).parent.parent / "data" / "flights"
START = "2013-02-01"


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The code location on a warehouse and an instance of its own."""

    warehouse: Path
    cache: Path
    instance: dg.DagsterInstance

    @property
    def catalog(self) -> lc.Catalog:
        return lc.connect(str(self.warehouse))

    def table(self, name: str) -> lc.Table:
        return self.catalog.table(name)

    def load(self, first: str, last: str) -> dg.ExecuteInProcessResult:
        """Run the ingest job over a range of batches."""
        days = FLIGHTS.batches.get_partition_keys()
        FLIGHTS.offer(self.instance, days[days.index(first) : days.index(last) + 1])
        return self._execute("lake_ingest", self.resources(), range_tags(first, last))

    def maintain(self, **retention: Any) -> dg.ExecuteInProcessResult:
        """Run the maintenance job; without arguments with the retention of the tables."""
        ops = {"__".join(LAKE.operation_key(spec, "expire").path): {"config": retention} for spec in LAKE.tables}
        return self._execute("lake_maintain", {"ops": ops}, {})

    def resources(self) -> Mapping[str, Any]:
        lakehouse = {"warehouse": str(self.warehouse), "table_defaults": {"lakehouse.read.grace": "0 s"}}
        flights = {"folder": str(EXTRACT), "cache": str(self.cache), "start": START}
        return {"resources": {"flights": {"config": flights}, "lakehouse": {"config": lakehouse}}}

    def _execute(self, job: str, config: Mapping[str, Any], tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
        os.environ["LAKEHOUSE_WAREHOUSE"] = str(self.warehouse)
        return defs.resolve_job_def(job).execute_in_process(
            run_config={"loggers": {"progress": {}}, **config},
            instance=self.instance,
            tags=dict(tags),
            raise_on_error=False,
        )


def range_tags(first: str, last: str) -> Mapping[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def killed_run() -> None:
    """Run the ingest job in this process, and hang before the commit whose number the environment says.

    The parent kills the process when it finds the mark. `KILL_AFTER_COMMIT`: the commit itself still happens.
    """
    from lakehouse_dagster.pipeline import committing

    commits, hang_at, after = 0, int(os.environ["KILL_AT_COMMIT"]), os.environ["KILL_AFTER_COMMIT"] == "yes"
    committed = committing.commit_staged

    def hanging(*arguments: Any, **keywords: Any) -> Any:
        nonlocal commits
        commits += 1
        if commits == hang_at and not after:
            _hang()
        report = committed(*arguments, **keywords)
        if commits == hang_at and after:
            _hang()
        return report

    committing.commit_staged = hanging
    root = Path(os.environ["PIPELINE_ROOT"])
    with dg.DagsterInstance.from_config(str(root / "home")) as instance:
        pipeline = Pipeline(warehouse=root / "warehouse", cache=root / "cache", instance=instance)
        pipeline.load(os.environ["FIRST_BATCH"], os.environ["LAST_BATCH"])


def _hang() -> None:
    import time

    Path(os.environ["PIPELINE_ROOT"], "hanging").touch()
    time.sleep(600)


def ingest_job() -> dg.JobDefinition:
    """The ingest job, so that Dagster can find it again for a re-execution."""
    return defs.resolve_job_def("lake_ingest")


if __name__ == "__main__":
    killed_run()
