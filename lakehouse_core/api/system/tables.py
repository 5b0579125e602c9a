"""System tables: the tables that Java calls `table$snapshots`, `table$files` and so on, with its columns, types and
rows.

Rule: times are in UTC, while Java shows the clock of its own zone. Source: docs/semantics/reading.md#system-tables.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias, assert_never

import pyarrow as pa

from lakehouse_core.api.record_building import file_lineage
from lakehouse_core.api.scan import Scan
from lakehouse_core.api.spark_engine import spark_engine_of
from lakehouse_core.api.system.columns import FILES_WITH_LINEAGE, SYSTEM_COLUMNS
from lakehouse_core.api.system.rows import (
    Row,
    aggregation_rows,
    bucket_rows,
    file_rows,
    manifest_rows,
    option_rows,
    partition_rows,
    schema_rows,
    snapshot_rows,
    statistics_rows,
    tag_rows,
)
from lakehouse_core.api.verb import names_table, overtaken
from lakehouse_core.display import line, page
from lakehouse_core.errors import InvalidRequest, NotFound, UnsupportedFeature, near_hint, shown
from lakehouse_core.execution.branches.closing import listed_branches
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.lineage import load_lineage
from lakehouse_core.execution.read.scan import ReadRequest, explain_missing_files, plan_read, read_point, read_tasks
from lakehouse_core.execution.read.state import ReadState, read_at
from lakehouse_core.format.data_types import arrow_type
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.options import parse_bool
from lakehouse_core.table.bucketing import Dynamic, Fixed, Postpone, Unaware, is_placed
from lakehouse_core.table.layout import CONSUMER_PREFIX, statistics_key
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, parse_consumer
from lakehouse_core.table.statistics import parse_statistics
from lakehouse_core.tasks.changelogs.binlog import binlog_batches, binlog_schema, by_bucket
from lakehouse_core.tasks.waiting.read import read_splits

# Named for the reader: this module must not know Spark.
SparkSession: TypeAlias = Any
DataFrame: TypeAlias = Any

_DELETION_VECTORS: Final = "DELETION_VECTORS"
_WITH_SEQUENCE_NUMBER: Final = "table-read.sequence-number.enabled"
# The system tables with rows of the table itself.
_OF_ROWS: Final = ("audit_log", "binlog", "ro")
# An option of this system table alone: the lineage of each file, which takes reading the changes of all snapshots.
_WITH_LINEAGE: Final = "lakehouse.files.lineage"
SYSTEM_TABLES: Final = (*SYSTEM_COLUMNS, *_OF_ROWS)


class SystemTable(ArrowRows):
    """One system table at the time of the read; `name` is `database.table$name`."""

    def __init__(
        self,
        name: str,
        *,
        schema: Callable[[], pa.Schema],
        batches: Callable[[], Iterator[pa.RecordBatch]],
        frame: Callable[[SparkSession | None], DataFrame],
        origin: "tuple[str, SystemSource]",
    ) -> None:
        self.name = name
        self._origin = origin
        self._table = origin[1].table
        self._schema = schema
        self._batches = batches
        self._frame = frame

    def __repr__(self) -> str:
        return line("SystemTable", self.name, {"options": dict(self._origin[1].options) or None})

    def _repr_html_(self) -> str:
        return page("SystemTable", self.name, {"options": dict(self._origin[1].options) or None})

    def __reduce__(self) -> tuple[Any, ...]:
        return system_table, self._origin

    @names_table
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self._schema()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in non-empty batches. Raises the errors of the table's own read."""
        with overtaken(self):
            yield from self._batches()

    @names_table
    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return the rows as a DataFrame, without `session` on that of the catalog. Metadata is read now; rows of the
        table are read when Spark runs it.
        """
        return self._frame(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSource:
    """The source of a system table's rows. `options` are read options, as `Table.scan` takes them."""

    table: TableContext
    options: Mapping[str, str]


def system_table(name: str, source: SystemSource) -> SystemTable:
    """Return the system table of this name. Raises NotFound naming near matches.

    Raises InvalidRequest for options of a system table that does not depend on the state.
    """
    if not isinstance(name, str) or name not in SYSTEM_TABLES:
        hint = near_hint(name, SYSTEM_TABLES, f"There are: {', '.join(SYSTEM_TABLES)}.")
        raise NotFound(f"{source.table.name}: system table {shown(name)} does not exist. {hint}")
    full_name = f"{source.table.name}${name}"
    if name in _OF_ROWS:
        return _of_rows(name, full_name, source)
    if source.options and name not in _STATE_ROWS:
        raise InvalidRequest(
            f"{full_name}: options are given, but this system table is the same for every snapshot. Leave options out."
        )
    fields = FILES_WITH_LINEAGE if _has_lineage(name, source) else SYSTEM_COLUMNS[name]
    schema = pa.schema([pa.field(field.name, arrow_type(field.type), field.type.nullable) for field in fields])

    def rows() -> pa.Table:
        columns = list(zip(*_rows(name, source), strict=True)) or [()] * len(fields)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def frame(session: SparkSession | None) -> DataFrame:
        return spark_engine_of(session, source.table).from_arrow(rows(), fields)

    return SystemTable(
        full_name,
        schema=lambda: schema,
        batches=lambda: (batch for batch in rows().to_batches() if batch.num_rows),
        frame=frame,
        origin=(name, source),
    )


def _of_rows(name: str, full_name: str, source: SystemSource) -> SystemTable:
    request = ReadRequest(
        table=source.table.name,
        options=source.options,
        read_optimized=name == "ro",
        with_row_kinds=name != "ro",
    )

    def plan() -> Any:
        options = source.table.schemas.latest().options
        if name != "ro" and parse_bool(_WITH_SEQUENCE_NUMBER, options.get(_WITH_SEQUENCE_NUMBER, "false")):
            raise UnsupportedFeature(f"{full_name}: {_WITH_SEQUENCE_NUMBER} is not supported yet. Use Java Paimon.")
        return plan_read(source.table, request)

    scan = Scan(plan, source.table)
    if name != "binlog":
        return SystemTable(
            full_name, schema=scan.schema, batches=scan.to_batches, frame=scan.to_spark, origin=(name, source)
        )

    def batches() -> Iterator[pa.RecordBatch]:
        found, runtime = scan.plan(), source.table.runtime
        for tasks in by_bucket(read_tasks(found)):
            rows = chain.from_iterable(
                explain_missing_files(read_splits([task], runtime), source.table, found) for task in tasks
            )
            yield from binlog_batches(rows, packs=found.is_increment)

    def frame(session: SparkSession | None) -> DataFrame:
        return spark_engine_of(session, source.table).binlog(scan.plan())

    return SystemTable(
        full_name,
        schema=lambda: binlog_schema(scan.schema()),
        batches=batches,
        frame=frame,
        origin=(name, source),
    )


def _snapshots(source: SystemSource) -> Iterable[Row]:
    return snapshot_rows(source.table.snapshots.history())


def _schemas(source: SystemSource) -> Iterable[Row]:
    return schema_rows(source.table.schemas.all())


def _options(source: SystemSource) -> Iterable[Row]:
    return option_rows(source.table.schemas.latest())


def _tags(source: SystemSource) -> Iterable[Row]:
    return tag_rows(source.table.tags.all())


def _branches(source: SystemSource) -> Iterable[Row]:
    for branch in listed_branches(source.table):
        yield branch.name, branch.create_time_millis


def _consumers(source: SystemSource) -> Iterable[Row]:
    store, layout = source.table.store, source.table.layout
    for file in store.children(layout.folders.consumers).files:
        if file.startswith(CONSUMER_PREFIX):
            name = file.removeprefix(CONSUMER_PREFIX)
            key = layout.consumer(name)
            yield name, parse_consumer(store.read(key), key)


def _aggregation_fields(source: SystemSource) -> Iterable[Row]:
    return aggregation_rows(source.table.schemas.latest())


def _statistics(source: SystemSource, snapshot: Snapshot) -> Iterable[Row]:
    if snapshot.statistics is None:
        return ()
    key = statistics_key(snapshot.statistics)
    return statistics_rows(parse_statistics(source.table.store.read(key), key))


def _manifests(source: SystemSource, snapshot: Snapshot) -> Iterable[Row]:
    manifests = [*source.table.manifests.of(snapshot), *source.table.manifests.changelog(snapshot)]
    return manifest_rows(manifests, source.table.schemas.latest())


def _files(source: SystemSource, snapshot: Snapshot, earliest: int | None) -> Iterable[Row]:
    entries = source.table.manifests.live_entries(snapshot, with_stats=True)
    if earliest is not None:
        entries = [entry for entry in entries if (entry.file.creation_time_millis or 0) >= earliest]
    schema, store = source.table.schemas.latest(), source.table.store

    def path_of(key: str) -> str:
        return f"{store.spec.root}/{key}" if store.spec.scheme == "file" else store.uri(key)

    real = list(_in_read_buckets(entries, schema))
    rows = file_rows(real, schema, file_schema=source.table.schemas.schema, path_of=path_of)
    if not _has_lineage("files", source):
        return rows
    known = load_lineage(source.table)
    return ((*row, *file_lineage(known, entry.file.file_name).values()) for row, entry in zip(rows, real, strict=True))


def _has_lineage(name: str, source: SystemSource) -> bool:
    """Return whether the rows have lineage columns. Raises InvalidRequest for a value other than true and false."""
    return name == "files" and parse_bool(_WITH_LINEAGE, source.options.get(_WITH_LINEAGE, "false"))


def _partitions(source: SystemSource, snapshot: Snapshot) -> Iterable[Row]:
    schema = source.table.schemas.latest()
    deleted: dict[bytes, int] = {}
    for index in source.table.manifests.index_entries(snapshot):
        for vector in index.deletion_vectors or ():
            if index.index_type == _DELETION_VECTORS and vector.cardinality is not None:
                deleted[index.partition] = deleted.get(index.partition, 0) + vector.cardinality
    entries = _in_read_buckets(_told_entries(source, snapshot), schema)
    return partition_rows(entries, schema, deleted=deleted)


def _buckets(source: SystemSource, snapshot: Snapshot) -> Iterable[Row]:
    return bucket_rows(_told_entries(source, snapshot), source.table.schemas.latest())


def _told_entries(source: SystemSource, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    for entries in source.table.manifests.entries_of_each(source.table.manifests.of(snapshot)):
        yield from entries


def _in_read_buckets(entries: Iterable[ManifestEntry], schema: TableSchema) -> Iterable[ManifestEntry]:
    """Yield the entries without those of the bucket for waiting rows, if batch reads skip them."""
    match schema.bucketing:
        case Postpone() if not schema.table_options.postponed_buckets.merge_on_read:
            return (entry for entry in entries if is_placed(entry.bucket))
        case Fixed() | Unaware() | Dynamic() | Postpone():
            return entries
        case _:
            assert_never(schema.bucketing)


def _rows(name: str, source: SystemSource) -> Iterable[Row]:
    if name not in _STATE_ROWS:
        return _ROWS[name](source)

    def of_state(state: ReadState) -> Sequence[Row]:
        if state.snapshot is None:
            return ()
        # All rows are read at once, because the files may be deleted meanwhile.
        return list(_STATE_ROWS[name](source, state.snapshot, state.created_from_millis))

    options = {key: value for key, value in source.options.items() if (name, key) != ("files", _WITH_LINEAGE)}
    point = read_point(source.table.schemas.latest(), source.table.name, None, options)
    return read_at(source.table, point, of_state)


_ROWS: Final[Mapping[str, Callable[[SystemSource], Iterable[Row]]]] = {
    "snapshots": _snapshots,
    "schemas": _schemas,
    "options": _options,
    "tags": _tags,
    "branches": _branches,
    "consumers": _consumers,
    "aggregation_fields": _aggregation_fields,
}
# The rows of a snapshot's state. A read point's creation time matters for its files only.
_STATE_ROWS: Final[Mapping[str, Callable[[SystemSource, Snapshot, int | None], Iterable[Row]]]] = {
    "files": _files,
    "manifests": lambda source, snapshot, _: _manifests(source, snapshot),
    "partitions": lambda source, snapshot, _: _partitions(source, snapshot),
    "buckets": lambda source, snapshot, _: _buckets(source, snapshot),
    "statistics": lambda source, snapshot, _: _statistics(source, snapshot),
}
