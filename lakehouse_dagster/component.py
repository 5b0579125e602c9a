"""Component: one table of a lake from a `defs.yaml`, with its assets, checks, jobs, schedule and sensors.

Rule: its attributes are those of a table specification, which checks them.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import yaml
from pydantic import BaseModel, Field

from lakehouse_dagster.definitions import lake_definitions
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.resources import LakehouseResource, SparkRuntime
from lakehouse_dagster.specs import TableSpec, WriteMode, checked_spec

_EXAMPLE = {
    "warehouse": "./warehouse",
    "database": "sales",
    "name": "orders",
    "comment": "Orders of the shop, one file a day.",
    "columns": {"id": "BIGINT NOT NULL", "status": "STRING"},
    "write_mode": "append",
    "runs_on": "process",
}
# The attributes that are no part of the specification of a table.
_OF_THE_LAKE = {"lake", "warehouse", "metastore", "storage", "profile"}
# What each source adds to the example, or changes in it.
_SOURCES: Mapping[str, Mapping[str, Any]] = {
    "files": {"files": {"path": "incoming/*.csv"}},
    "sql": {
        "comment": "Orders of the shop.",
        "sql": {"connection": "SHOP_DATABASE", "query": "SELECT id, status FROM orders", "cursor": "id"},
    },
    "function": {
        "comment": "Orders of the shop.",
        "function": {"call": "my_project.rows.orders", "cursor": "id"},
    },
    "asset": {"comment": "Orders of the shop.", "write_mode": "overwrite", "asset": {"key": "raw/orders"}},
    "changes_of": {
        "name": "open_orders",
        "comment": "Orders that are not closed.",
        "write_mode": "cdc",
        "primary_key": ["id"],
        "options": {"bucket": 1},
        "changes_of": {"table": "sales.orders"},
    },
}


class ScaffoldAttributes(BaseModel):
    """What the scaffolded component takes its rows from: `dg scaffold defs … --source sql`."""

    source: Literal["files", "sql", "function", "asset", "changes_of"] = "files"


class TableScaffolder(dg.Scaffolder[ScaffoldAttributes]):
    """Writes a component of a table of orders. With files as its source it runs at once: it has the first file."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldAttributes]:
        return ScaffoldAttributes

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldAttributes]) -> None:
        dg.scaffold_component(request, {**_EXAMPLE, **_SOURCES[request.params.source]})
        if request.params.source == "files":
            incoming = Path(request.target_path) / "incoming"
            incoming.mkdir(parents=True, exist_ok=True)
            (incoming / "2013-01-01.csv").write_text("id,status\n1,new\n2,paid\n")


class FilesAttributes(dg.Model, dg.Resolvable):
    """Files of rows, each loaded once. A relative `path` begins at the folder of the component."""

    path: str
    format: Literal["parquet", "csv", "tsv", "jsonl", "json", "arrow"] | None = None
    delimiter: str | None = None
    null: str = ""


class ChangesAttributes(dg.Model, dg.Resolvable):
    """The changelog of another table of the warehouse. A row stays while the columns `while_null` are null."""

    table: str
    while_null: list[str] = Field(default_factory=list)


class SqlAttributes(dg.Model, dg.Resolvable):
    """New rows of a SQL query, in the order of its column `cursor`; without a cursor, all of its rows.

    `connection` is the name of the environment variable with the address of the database, as SQLAlchemy takes it.
    """

    connection: str
    query: str
    cursor: str | None = None


class FunctionAttributes(dg.Model, dg.Resolvable):
    """Rows that the function of the dotted name `call` yields; with `cursor`, a column of them, the new ones."""

    call: str
    cursor: str | None = None


class AssetAttributes(dg.Model, dg.Resolvable):
    """The rows that the asset `key` (`raw/orders`) returned, loaded by the resource `io_manager` or by its own."""

    key: str
    io_manager: str | None = None


class TimePartitionsAttributes(dg.Model, dg.Resolvable):
    """Time windows: every `hour`, `day`, `week`, `month`, or by a cron schedule."""

    every: str
    start: str
    end: str | None = None
    timezone: str = "UTC"
    # Columns of the table's partitions → patterns of strftime.
    columns: dict[str, str] = Field(default_factory=dict)


class StaticPartitionsAttributes(dg.Model, dg.Resolvable):
    """Partitions with these keys, which are the values of `column`, or names of its `values`."""

    keys: list[str]
    column: str | None = None
    values: dict[str, str] | None = None


class DynamicPartitionsAttributes(dg.Model, dg.Resolvable):
    """Partitions whose keys are added to the instance under this name."""

    name: str
    column: str | None = None
    values: dict[str, str] | None = None


class DimensionAttributes(dg.Model, dg.Resolvable):
    """Partitions of one kind."""

    time: TimePartitionsAttributes | None = None
    static: StaticPartitionsAttributes | None = None
    dynamic: DynamicPartitionsAttributes | None = None


class PartitionsAttributes(DimensionAttributes):
    """Partitions of one kind, or of two dimensions by name."""

    multi: dict[str, DimensionAttributes] | None = None


class MaintenanceAttributes(dg.Model, dg.Resolvable):
    """The figures above which the table is maintained."""

    max_small_files: int | None = None
    max_sorted_runs: int | None = None
    max_manifests: int | None = None
    max_snapshots: int | None = None


class IngestAttributes(dg.Model, dg.Resolvable):
    """When the table loads what is new: `news` as soon as its source has something, or by a cron `schedule`."""

    news: bool | None = None
    schedule: str | None = None
    timezone: str = "UTC"


class BehindAttributes(dg.Model, dg.Resolvable):
    """How far behind its source the table may be, in batches; a time has a unit, such as `36 h`."""

    warn_above: int | None = None
    fail_above: int | None = None
    fail_after: str | None = None


class FreshnessAttributes(dg.Model, dg.Resolvable):
    """How old the newest rows may become: `fail_after`, or `within` at each `deadline`, a cron schedule."""

    warn_after: str | None = None
    fail_after: str | None = None
    deadline: str | None = None
    within: str | None = None
    timezone: str = "UTC"


@dg.scaffold_with(TableScaffolder)
class LakehouseTableComponent(dg.Component, dg.Model, dg.Resolvable):
    """A table in the Apache Paimon format: ingest from its source, commit, compaction, expiry, checks and sensors.

    `lake` is the first part of its asset keys. `warehouse` is a path, where a relative one begins at the working
    directory, or a URI. Components of one lake have the same warehouse, metastore, storage and profile. The other
    attributes are those of a table specification.
    """

    warehouse: str
    # The SQL database with the names of the tables, or `env` with the name of the environment variable that has it.
    metastore: str | dict[Literal["env"], str] | None = None
    # Settings of the store's client; keys belong into the environment.
    storage: dict[str, str] = Field(default_factory=dict)
    # The name in the file of profiles of what is not given here.
    profile: str = ""
    database: str
    name: str
    comment: str
    # SQL types, or mappings of `type` and `description`.
    columns: dict[str, str | dict[str, str]]
    write_mode: WriteMode
    # The rows come from one of them.
    files: FilesAttributes | None = None
    changes_of: ChangesAttributes | None = None
    sql: SqlAttributes | None = None
    function: FunctionAttributes | None = None
    asset: AssetAttributes | None = None
    partitions: PartitionsAttributes | None = None
    lake: str = "lake"
    primary_key: list[str] = Field(default_factory=list)
    partition_by: list[str] = Field(default_factory=list)
    rowkind_column: str | None = None
    # Dagster reads the text "1" as a number, too; the specification makes texts of them.
    options: dict[str, str | bool | int | float] = Field(default_factory=dict)
    runs_on: Literal["spark", "process"] = "spark"
    tag_batches: bool = False
    maintenance: MaintenanceAttributes | None = None
    ingest: IngestAttributes | None = None
    behind: BehindAttributes | None = None
    freshness: FreshnessAttributes | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the table. Raises InvalidRequest with a line for each fault."""
        spec = self.specification(Path(context.path))
        resource = f"{self.lake}_lakehouse"
        lake = Lake(
            name=self.lake,
            tables=(spec,),
            resource=resource,
            prefix=f"{self.lake}_{spec.database}_{spec.name}",
            followed=() if spec.changes_of is None else (spec.changes_of.table,),
        )
        metastore = self.metastore if isinstance(self.metastore, str | None) else dg.EnvVar(self.metastore["env"])
        lakehouse = _lakehouse(self.lake, self.warehouse, metastore, tuple(sorted(self.storage.items())), self.profile)
        resources = {resource: lakehouse}
        return lake_definitions(lake, resources=resources, with_location=False)

    def specification(self, folder: Path) -> TableSpec:
        """Return the table specification that the component in `folder` is. Raises InvalidRequest."""
        attributes = self.model_dump(exclude=_OF_THE_LAKE, exclude_none=True)
        file = folder / "defs.yaml"
        spec = checked_spec(attributes, str(file), self._node(file))
        return spec.read_from(file.name, folder.absolute())

    def _node(self, file: Path) -> yaml.Node:
        """Return the attributes as they stand in the file, which may have several components."""
        own = {"database": self.database, "name": self.name}
        if file.is_file():
            for document in yaml.compose_all(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
                attributes = _child(document, "attributes")
                values = {name: _child(attributes, name) for name in own}
                if attributes is not None and {k: v.value for k, v in values.items() if v is not None} == own:
                    return attributes
        return yaml.MappingNode("tag:yaml.org,2002:map", [], yaml.Mark(str(file), 0, 0, 0, None, 0))


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    found = (value for key, value in node.value if key.value == name) if isinstance(node, yaml.MappingNode) else ()
    return next(iter(found), None)


@cache
def _lakehouse(
    name: str, warehouse: str, metastore: str | None, storage: tuple[tuple[str, str], ...], profile: str
) -> LakehouseResource:
    """Return one resource for all components of a lake, or Dagster would refuse to merge them."""
    return LakehouseResource(
        name=name,
        warehouse=warehouse,
        metastore=metastore,
        storage=dict(storage),
        profile=profile,
        spark=SparkRuntime(),
    )
