"""IO manager: tables of a lake as inputs and outputs of assets.

Rule: all inputs of a run see one snapshot of a table, until an asset of the run writes it. What cannot be narrowed as
asked is an error, never a whole read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import dagster as dg
from pydantic import ConfigDict

import lakehouse_core as lc
from lakehouse_dagster.failures import retry_transient
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.frames import Read, Values, is_spark, loader_of, parted, rows_of
from lakehouse_dagster.instance.dagster_internals import add_input_metadata
from lakehouse_dagster.lineage import Dataset, StepLineage, attempt_in, emitted_lineage, table_dataset
from lakehouse_dagster.metadata import Metadata, batch_metadata, commit_metadata, read_metadata, state_metadata
from lakehouse_dagster.partition_maps import (
    PartitionMap,
    any_of,
    parse_partition_map,
    partition_condition,
    partition_values,
)
from lakehouse_dagster.pipeline import RUN_ID, CommittedBatch, TableState, original_of, read_state
from lakehouse_dagster.resources import LakehouseResource, spark_job
from lakehouse_dagster.run_tags import root_run_id
from lakehouse_dagster.specs import part_fault

WriteMode: TypeAlias = Literal["append", "upsert", "overwrite"]

_WRITE_MODES: tuple[WriteMode, ...] = get_args(WriteMode)


def table_metadata(
    *,
    write_mode: WriteMode | None = None,
    partition_map: PartitionMap | None = None,
    rowkind_column: str | None = None,
    lake: str | None = None,
    table: str | None = None,
) -> Metadata:
    """Return the metadata by which the IO manager knows the table of an asset: `@dg.asset(metadata=table_metadata(…))`.

    `write_mode`: `append` adds rows, `upsert` merges them by the table's primary key, and `overwrite` replaces what the
    partitions of the run mean, or the whole table when the asset has no partitions. `partition_map` says what part of
    the table a partition key means. `rowkind_column` holds +I, -U, +U or -D for each row. `lake` and `table`
    (`database.table`) are for assets whose key is not `<lake>/<database>/<table>`. Raises InvalidRequest.
    """
    if table is not None and (fault := part_fault(table)) is not None:
        raise lc.InvalidRequest(f"table_metadata: {fault}.")
    given = {
        "write_mode": None if write_mode is None else _checked_mode(write_mode),
        "partition_map": None
        if partition_map is None
        else dg.MetadataValue.json(parse_partition_map(partition_map).model_dump(mode="json")),
        "rowkind_column": rowkind_column,
        "paimon/lake": lake,
        "dagster/table_name": table,
    }
    return {key: value for key, value in given.items() if value is not None}


class LakehouseIOManager(dg.ConfigurableIOManager):
    """Gives assets the rows of tables, and writes the rows that assets return. See docs/dagster.md.

    An input becomes what its annotation names: `lc.Scan` (also without annotation), an Arrow table or reader, a pandas
    frame, a polars DataFrame or LazyFrame, a Spark DataFrame. `AssetIn(metadata=…)` takes `columns`, a list of names,
    and `where`, a SQL condition.
    """

    # Dagster would leave out a misspelled argument silently.
    model_config = ConfigDict(extra="forbid")

    lakehouse: LakehouseResource

    def load_input(self, context: dg.InputContext) -> Any:
        with _step(context, "load_input"):
            loader = loader_of(context.dagster_type.typing_type)
            upstream = {} if context.upstream_output is None else context.upstream_output.definition_metadata
            table = self._table(context.asset_key, upstream, self.lakehouse.local_catalog())
            request = _input_request(context, self.lakehouse.name, table, _plain(upstream))
            planned = request.scan(None, None).plan()
            if request.at == lc.Latest() and planned.snapshot_id is not None:
                request = request.at_snapshot(planned.snapshot_id)
            add_input_metadata(
                context,
                read_metadata(
                    lake=self.lakehouse.name,
                    table=table.name,
                    snapshot_id=0 if request.is_empty_table else planned.snapshot_id or 0,
                    columns=request.columns,
                    where=request.where_text,
                    partitions=request.partitions,
                    files=planned.file_count,
                ),
            )
            return loader(Read(scan=request.scan, session=lambda: self.lakehouse.spark.spark_session))

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        with _step(context, "handle_output"):
            rows = rows_of(obj)
            definition = context.definition_metadata
            # The session that made the frame is one of this process, and so is the resource's.
            catalog = self.lakehouse.catalog() if is_spark(rows) else self.lakehouse.local_catalog()
            table = self._table(context.asset_key, definition, catalog)
            with self._told(context, table) as lineage:
                for name, snapshot_id in _tables_read(context, self.lakehouse.name) if self.lakehouse.lineage else ():
                    lineage.reads(partial(self._dataset_read, catalog, name, snapshot_id))
                parts = _output_parts(context, table, _plain(definition), rows)
                committed, state = self._write(context, table, parts, _plain(definition).get("rowkind_column"))
                reports = [part.report for part in committed if part.report is not None and not part.is_replay]
                if any(report.snapshot_id is not None for report in reports):
                    lineage.writes(lambda: table_dataset(self.lakehouse.uri, table, state.snapshot_id or 0, reports))

    def _table(self, key: dg.AssetKey, definition: Mapping[str, Any], catalog: lc.Catalog) -> lc.Table:
        plain = _plain(definition)
        named, lake, own = plain.get("dagster/table_name"), plain.get("paimon/lake"), self.lakehouse.name
        if (lake or key.path[0]) == own:
            if named is not None:
                return catalog.table(named)
            if lake is None and len(key.path) == 3:
                return catalog.table(".".join(key.path[1:]))
        raise lc.InvalidRequest(
            f"{key.to_user_string()}: found an asset that is not known as a table of the lake {own}, expected the key "
            f"{own}/<database>/<table>. Change the key, take the IO manager of the right lake, or name the table: "
            f"table_metadata(lake={own!r}, table='database.table')."
        )

    def _dataset_read(self, catalog: lc.Catalog, name: str, snapshot_id: int) -> Dataset:
        return table_dataset(self.lakehouse.uri, catalog.table(name), snapshot_id)

    def _told(self, context: dg.OutputContext, table: lc.Table) -> AbstractContextManager[StepLineage]:
        step = attempt_in(
            context.step_context.dagster_run,
            namespace=self.lakehouse.name,
            job=f"{table.name}.write",
            attempt=context.step_context.previous_attempt_count,
        )
        return emitted_lineage(
            step,
            self.lakehouse.lineage,
            self.lakehouse.lineage_api_key,
            context.log.warning,
            context.step_context.instance,
        )

    def _write(
        self, context: dg.OutputContext, table: lc.Table, parts: "Sequence[_Part]", rowkind_column: str | None
    ) -> tuple[list[CommittedBatch], TableState]:
        run = context.step_context.dagster_run
        asset = "/".join(context.asset_key.path)
        committed = []
        for part in parts:
            staged = table.stage(
                part.rows,
                # The same in each retry of the run: its rows are committed once.
                commit_user="/".join(["run", root_run_id(run.root_run_id or run.run_id, run.tags), *part.names, asset]),
                commit_identifier=0,
                mode=part.mode,
                rowkind_column=rowkind_column,
                properties={RUN_ID: run.run_id},
            )
            report = table.commit(staged)
            key = part.names[0] if part.names else None
            done = CommittedBatch(
                batch=Batch(key=key, identifier=0), report=report, original=original_of(table, report)
            )
            committed.append(done)
            if report.compaction_failure is not None:
                context.log.warning(f"{table.name}: committed, but not compacted: {report.compaction_failure}")
            if report.tag_failure is not None:
                context.log.warning(f"{table.name}: committed, but not tagged: {report.tag_failure}")
            if key is not None:
                context.step_context.add_asset_metadata(batch_metadata(done), context.asset_key, key)
        state = read_state(table)
        context.add_output_metadata(
            {
                **commit_metadata(committed),
                **state_metadata(state),
                "dagster/row_count": table.scan().count(),
                "dagster/uri": table.uri,
            }
        )
        # Of the content, not of the code: else a table would look unchanged while the code is.
        context.step_context.set_data_version(context.asset_key, dg.DataVersion(state.content_version))
        return committed, state


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What an input asks of a table. `is_empty_table`: an earlier input of the run found no snapshot."""

    table: lc.Table
    at: lc.ReadPoint
    columns: Sequence[str] | None
    conditions: Sequence[Any]
    where_text: str
    partitions: int
    reads_nothing: bool
    is_empty_table: bool

    def at_snapshot(self, snapshot_id: int) -> "_Request":
        return replace(self, at=lc.AtSnapshot(snapshot_id))

    def scan(self, columns: Sequence[str] | None, limit: int | None) -> lc.Scan:
        return self.table.scan(
            self.columns if columns is None else columns,
            list(self.conditions),
            self.at,
            limit=0 if self.reads_nothing or self.is_empty_table else limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Rows that become one commit. `names`: the partition key that they replace, if they replace that of one key."""

    rows: Any
    mode: Any
    names: tuple[str, ...] = ()


def _input_request(context: dg.InputContext, lake: str, table: lc.Table, upstream: Mapping[str, Any]) -> _Request:
    asked = _plain(context.definition_metadata)
    columns, where = asked.get("columns"), asked.get("where")
    if columns is not None and (isinstance(columns, str) or not all(isinstance(name, str) for name in columns)):
        raise lc.InvalidRequest(f"columns: found {columns!r}, expected a list of names of columns. Write ['id', …].")
    if "where" in asked and where is None:
        raise lc.InvalidRequest("where: found None, expected a SQL condition. Leave it out to read all rows.")
    keys = context.asset_partition_keys if context.has_asset_partitions else None
    conditions = [] if where is None else [where]
    if keys:
        mapped, partitions = _mapped(upstream), context.asset_partitions_def
        conditions.append(
            any_of([partition_condition(partition_values(table, mapped, key, partitions)) for key in keys])
        )
    pinned = _pinned(context, lake, table)
    return _Request(
        table=table,
        at=lc.AtSnapshot(pinned) if pinned else lc.Latest(),
        columns=None if columns is None else list(columns),
        conditions=conditions,
        where_text="" if where is None else str(where),
        partitions=len(keys or ()),
        reads_nothing=keys is not None and not keys,
        is_empty_table=pinned == 0,
    )


def _output_parts(
    context: dg.OutputContext, table: lc.Table, definition: Mapping[str, Any], rows: Any
) -> Sequence[_Part]:
    mode = _checked_mode(definition.get("write_mode"))
    has_key = bool(table.schema.primary_keys)
    if mode != "overwrite" and has_key != (mode == "upsert"):
        raise lc.InvalidRequest(
            f"{table.name}: found write_mode {mode!r}, but the table has {'a' if has_key else 'no'} primary key. Write "
            f"{'upsert' if has_key else 'append'!r} or 'overwrite'."
        )
    keys = list(context.asset_partition_keys) if context.has_asset_partitions else []
    mapped = _mapped(definition)
    values: list[Values] = []
    # Rows of partitions may be added to a table without any: then only readers of a partition need the map.
    if keys and (mapped is not None or mode == "overwrite"):
        values = [partition_values(table, mapped, key, context.asset_partitions_def) for key in keys]
    if mode != "overwrite":
        return [_Part(rows=rows if not values else _checked(rows, values), mode=lc.Append())]
    if not values:
        return [_Part(rows=rows, mode=lc.StaticOverwrite())]
    return [
        _Part(
            rows=own,
            mode=lc.StaticOverwrite({column: str(each) for column, each in value.items()}),
            names=(key,),
        )
        for key, value, own in zip(keys, values, parted(rows, values), strict=True)
    ]


def _checked(rows: Any, values: Sequence[Values]) -> Any:
    # A stream is read once.
    rows = rows if is_spark(rows) or not hasattr(rows, "read_all") else rows.read_all()
    parted(rows, values)
    return rows


def _pinned(context: dg.InputContext, lake: str, table: lc.Table) -> int | None:
    """Return the snapshot that an earlier input of the run has read, 0 when the table had none; None without such.

    The run's events say so in each process of the run. A table that the run itself has written since is read anew.
    """
    kinds = {dg.DagsterEventType.LOADED_INPUT, dg.DagsterEventType.ASSET_MATERIALIZATION}
    for entry in reversed(context.instance.all_logs(context.step_context.run_id, of_type=kinds)):
        event = entry.dagster_event
        if event is None:
            continue
        if event.is_step_materialization:
            if event.asset_key == context.asset_key:
                return None
            continue
        loaded: Any = event.event_specific_data
        found = _plain(loaded.metadata)
        if (found.get("paimon/lake"), found.get("paimon/table")) == (lake, table.name):
            snapshot_id: int = found["paimon/snapshot_id"]
            return snapshot_id
    return None


def _tables_read(context: dg.OutputContext, lake: str) -> list[tuple[str, int]]:
    """Return the tables of the lake that the step has read as inputs, and their snapshots."""
    step = context.step_context
    found: dict[str, int] = {}
    for entry in step.instance.all_logs(step.run_id, of_type=dg.DagsterEventType.LOADED_INPUT):
        event = entry.dagster_event
        if event is not None and event.step_key == context.step_key:
            loaded: Any = event.event_specific_data
            read = _plain(loaded.metadata)
            if read.get("paimon/lake") == lake:
                found[read["paimon/table"]] = read["paimon/snapshot_id"]
    return list(found.items())


def _mapped(definition: Mapping[str, Any]) -> PartitionMap | None:
    found = definition.get("partition_map")
    return None if found is None else parse_partition_map(found)


def _checked_mode(found: object) -> WriteMode:
    for mode in _WRITE_MODES:
        if found == mode:
            return mode
    raise lc.InvalidRequest(
        f"write_mode: found {found!r}, expected one of {', '.join(_WRITE_MODES)}. Say it in the metadata of the asset: "
        "table_metadata(write_mode=…)."
    )


def _plain(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value.value if isinstance(value, dg.MetadataValue) else value for key, value in metadata.items()}


@contextmanager
def _step(context: dg.InputContext | dg.OutputContext, operation: str) -> Iterator[None]:
    name = context.asset_key.to_user_string() if context.has_asset_key else "a value without asset"
    step = context.step_context
    with (
        retry_transient(name, operation, retry_number=step.previous_attempt_count),
        spark_job(f"{step.run_id}/{name}/{operation}", f"{operation} {name}"),
    ):
        if not context.has_asset_key:
            raise lc.InvalidRequest(
                f"found {context.name!r}, which is not an asset; expected an asset that is a table. Take another IO "
                "manager for values of ops."
            )
        yield
