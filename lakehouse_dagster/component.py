"""Component: one table of a lake from a `defs.yaml`, with its assets, checks, jobs, schedule and sensors.

Rule: its attributes are those of a table specification, which checks them.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import dagster as dg
import yaml
from pydantic import BaseModel, Field

import lakehouse_core as lc
from lakehouse_dagster.definitions import lake_definitions
from lakehouse_dagster.feed import Feed
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.resources import FeedResource, LakehouseResource, SparkRuntime
from lakehouse_dagster.specs import TableSpec, WriteMode, checked_spec, line_of, nearest, node_of

_EXAMPLE = {
    "warehouse": "./warehouse",
    "database": "sales",
    "name": "orders",
    "comment": "Orders of the shop, one file a day.",
    "columns": {"id": "BIGINT NOT NULL", "status": "STRING"},
    "write_mode": "append",
    "runs_on": "process",
}
_FILE = "defs.yaml"
# Of each loading of components, the tables with the component that has each, and its file and line.
_SPECIFIED: WeakKeyDictionary[Any, dict[tuple[str, str, str], tuple[str, str]]] = WeakKeyDictionary()
_OF_THE_FEED = {"definition", "reader"}
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
        if request.params.source == "sql":
            made = Path(request.target_path) / _FILE
            advice = "# A number or a time that only rises; the order of texts is that of the database's collation."
            made.write_text(re.sub(r"( +)(cursor: )", rf"\1{advice}\n\1\2", made.read_text()))
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


class FeedAttributes(dg.Model, dg.Resolvable):
    """Batches of a feed in Python: `source` names the feed, and `name` one of its `names`.

    `definition` is the dotted name of the `Feed`, and `reader` that of its `FeedResource`. Components of one feed name
    the same ones.
    """

    source: str
    name: str
    batches: bool = True
    definition: str
    reader: str


class CommitAttributes(dg.Model, dg.Resolvable):
    """How the batches of a feed are committed: `each` alone, or `together`."""

    how: Literal["each", "together"] | None = None
    most_batches: int | None = None
    wait_minutes: int | None = None


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
    max_waiting_rows: int | None = None
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
    feed: FeedAttributes | None = None
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
    commit: Literal["each", "together"] | CommitAttributes | None = None
    tag_batches: bool = False
    maintenance: MaintenanceAttributes | None = None
    ingest: IngestAttributes | None = None
    behind: BehindAttributes | None = None
    freshness: FreshnessAttributes | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the table. Raises InvalidRequest with a line for each fault."""
        folder = Path(context.path)
        node = self._node(folder / _FILE, context)
        spec = self._checked(folder, node)
        self._refuse_second(context, folder, node)
        feeds, readers = self._feeds(folder, node)
        resource = f"{self.lake}_lakehouse"
        lake = Lake(
            name=self.lake,
            tables=(spec,),
            feeds=feeds,
            resource=resource,
            prefix=f"{self.lake}_{spec.database}_{spec.name}",
            followed=() if spec.changes_of is None else (spec.changes_of.table,),
        )
        metastore = self.metastore if isinstance(self.metastore, str | None) else dg.EnvVar(self.metastore["env"])
        lakehouse = _lakehouse(self.lake, self.warehouse, metastore, tuple(sorted(self.storage.items())), self.profile)
        return lake_definitions(lake, resources={resource: lakehouse, **readers}, with_location=False)

    def specification(self, folder: Path) -> TableSpec:
        """Return the table specification that the component in `folder` is. Raises InvalidRequest."""
        return self._checked(folder, self._node(folder / _FILE))

    def _checked(self, folder: Path, node: yaml.Node) -> TableSpec:
        attributes = self.model_dump(exclude=_OF_THE_LAKE, exclude_none=True)
        if self.feed is not None:
            attributes["feed"] = self.feed.model_dump(exclude=_OF_THE_FEED)
        return checked_spec(attributes, str(folder / _FILE), node).read_from(_FILE, folder.absolute())

    def _refuse_second(self, context: dg.ComponentLoadContext, folder: Path, node: yaml.Node) -> None:
        """Raise InvalidRequest when another component of the code location is the same table of the same lake."""
        known = _SPECIFIED.setdefault(context.component_tree.state_tracker, {})
        place, here = str(context.component_path), _where(folder, node, "name")
        first, where = known.setdefault((self.lake, self.database, self.name), (place, here))
        if first != place:
            raise lc.InvalidRequest(
                f"{here}: {self.database}.{self.name} of the lake {self.lake} is specified in {where} too. Keep one."
            )

    def _feeds(self, folder: Path, node: yaml.Node) -> tuple[Mapping[str, Feed], Mapping[str, FeedResource]]:
        """Return the feed of the component by its source, and its resource by its key. Raises InvalidRequest."""
        if self.feed is None:
            return {}, {}
        feed: Feed = _imported(self.feed.definition, Feed, _where(folder, node, "feed", "definition"), "definition")
        reader: FeedResource = _imported(
            self.feed.reader, FeedResource, _where(folder, node, "feed", "reader"), "reader"
        )
        if self.feed.name not in feed.names:
            raise lc.InvalidRequest(
                f"{_where(folder, node, 'feed', 'name')}: feed.name {self.feed.name!r} is not known"
                f"{nearest(self.feed.name, feed.names)}"
            )
        return {self.feed.source: feed}, {feed.resource: reader}

    def _node(self, file: Path, context: dg.ComponentLoadContext | None = None) -> yaml.Node:
        """Return the attributes as they stand in the file."""
        path = None if context is None else context.component_path
        place = path.instance_key if path is not None and isinstance(path.instance_key, int) else None
        if not file.is_file():
            return yaml.MappingNode("tag:yaml.org,2002:map", [], yaml.Mark(str(file), 0, 0, 0, None, 0))
        return node_of(file, self.database, self.name, place=place)


def _where(folder: Path, node: yaml.Node, *place: str) -> str:
    return f"{folder / _FILE}:{line_of(node, place)}"


def _imported(dotted: str, kind: type, where: str, what: str) -> Any:
    """Return what a dotted name means. Raises InvalidRequest with file and line."""
    module_name, _, name = dotted.rpartition(".")
    try:
        module = import_module(module_name)
    except (ImportError, ValueError) as error:
        raise lc.InvalidRequest(
            f"{where}: feed.{what} {dotted!r}: the module {module_name!r} cannot be imported ({error}). Install it, or "
            "name another."
        ) from error
    found = getattr(module, name, None)
    if not isinstance(found, kind):
        known = [each for each, value in vars(module).items() if isinstance(value, kind)]
        raise lc.InvalidRequest(
            f"{where}: feed.{what} {dotted!r}: found {type(found).__name__}, expected a {kind.__name__}"
            f"{nearest(name, known) if known else '. Make one in the module.'}"
        )
    return found


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
