"""Testing: a lake with an empty warehouse and an instance of its own, for the tests of a code location.

Nothing of it outlives the test.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.definitions import lake_definitions
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.page import latest_checks
from lakehouse_dagster.resources import LakehouseResource, SparkRuntime
from lakehouse_dagster.run_tags import range_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyLake:
    """A lake whose jobs run in this process. `ready_lake` makes it.

    Tables are named `database.table`. An `operation` is `ingest`, `compact_manifests`, `compact_full` or `expire`;
    None means the table's own asset, which commits. Errors of a run are raised as Dagster raises them.
    """

    lake: Lake
    definitions: dg.Definitions
    instance: dg.DagsterInstance
    warehouse: Path

    @property
    def catalog(self) -> lc.Catalog:
        """The catalog of the warehouse, without Spark."""
        return lc.connect(self.warehouse)

    def ingest(self, first: str | None = None, last: str | None = None) -> dg.ExecuteInProcessResult:
        """Run the ingest job for the batches `first` to `last`, which are partition keys; `last` None: for `first`.

        Without batches the job loads the feeds that are loaded whole.
        """
        if first is not None:
            for feed in (each for each in self.lake.feeds.values() if each.delivered is not None):
                ends = feed.batch(first).identifier, feed.batch(last or first).identifier
                feed.offer(self.instance, feed.batches.get_partition_keys()[ends[0] : ends[1] + 1])
        return self._run("ingest", {} if first is None else range_tags(first, last or first))

    def maintain(self) -> dg.ExecuteInProcessResult:
        """Run the maintenance job: both compactions, then expiry, of all tables."""
        return self._run("maintain", {})

    def table(self, table: str) -> lc.Table:
        """Open a table. Raises NotFound."""
        return self.catalog.table(table)

    def metadata(self, table: str, operation: str | None = None) -> Mapping[str, Any]:
        """Return the metadata that the page of an asset shows: those of its latest materialization, as plain values.

        Tables are lists of mappings. Empty when the asset was never materialized. Raises InvalidRequest when the lake
        has no such table.
        """
        event = self.instance.get_latest_materialization_event(self._key(table, operation))
        if event is None or event.asset_materialization is None:
            return {}
        return {name: _plain(value) for name, value in event.asset_materialization.metadata.items()}

    def assert_metadata(self, table: str, expected: Mapping[str, Any], operation: str | None = None) -> None:
        """Check that the page of an asset shows the `expected` values; other metadata may be there too.

        Raises AssertionError with one line for each key that differs.
        """
        found = self.metadata(table, operation)
        faults = [
            f"{name}: expected {value!r}, found {repr(found[name]) if name in found else 'no such key'}"
            for name, value in expected.items()
            if name not in found or found[name] != value
        ]
        if faults:
            raise AssertionError("\n".join([f"metadata of {self._key(table, operation).to_user_string()}", *faults]))

    def checks(self, table: str) -> Mapping[str, bool]:
        """Return the checks of a table that have run, by name: whether the latest evaluation passed."""
        key = self._key(table, None)
        graph = self.definitions.resolve_asset_graph()
        keys = [check for check in graph.asset_check_keys if check.asset_key == key]
        latest = latest_checks(self.instance, key, [check.name for check in keys])
        return {name: check.evaluation.passed for name, check in sorted(latest.items())}

    def _key(self, table: str, operation: str | None) -> dg.AssetKey:
        spec = self.lake.table(table)
        return self.lake.table_key(spec) if operation is None else self.lake.operation_key(spec, operation)

    def _run(self, job: str, tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
        definition = self.definitions.resolve_job_def(self.lake.scoped(job))
        return definition.execute_in_process(instance=self.instance, tags=dict(tags))


@contextmanager
def ready_lake(lake: Lake, *, resources: Mapping[str, Any]) -> Iterator[ReadyLake]:
    """Give a lake with an empty warehouse in a temporary folder and an instance in memory.

    `resources` has the resources of the feeds under their keys; the lake's own resource is made here. Tables whose
    specification says `runs_on: spark` start a Spark session.
    """
    with TemporaryDirectory() as folder, dg.DagsterInstance.ephemeral() as instance:
        warehouse = Path(folder) / "warehouse"
        own = LakehouseResource(name=lake.name, warehouse=str(warehouse), spark=SparkRuntime())
        definitions = lake_definitions(lake, resources={**resources, lake.resource: own})
        yield ReadyLake(lake=lake, definitions=definitions, instance=instance, warehouse=warehouse)


def _plain(value: dg.MetadataValue[Any]) -> Any:
    if isinstance(value, dg.TableMetadataValue):
        return [dict(record.data) for record in value.records]
    return value.value
