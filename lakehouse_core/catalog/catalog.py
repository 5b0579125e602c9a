"""Catalog: databases and tables by name, and the verbs over many tables; the same for each kind of metastore.

Rule: the catalog checks names and says what is wrong; the metastore keeps the names.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakehouse_core.api.arguments import checks_flags, idle_millis, mapping_of, texts_of
from lakehouse_core.api.copying import checked_choice, checked_source, copy_report
from lakehouse_core.api.error_context import named
from lakehouse_core.api.local_engine import local_engine
from lakehouse_core.api.reports import CompactionReport, CopyReport, outcome
from lakehouse_core.api.system.tables import SystemTable
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.each_table import each_table
from lakehouse_core.catalog.filesystem import FileSystemMetastore
from lakehouse_core.catalog.metastore import Metastore, TableName, TablePlace
from lakehouse_core.catalog.names import (
    SYSTEM_DATABASE,
    check_new_name,
    check_no_twin,
    check_part,
    near,
    split_name,
    split_system_name,
)
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import Clock
from lakehouse_core.display import page
from lakehouse_core.errors import (
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    shown,
)
from lakehouse_core.execution.context import TableContext, table_context
from lakehouse_core.execution.copying import CopyResult, copied_from, copy_files, end_copy, is_complete
from lakehouse_core.execution.engine import Engine
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.copying import CopyChoice
from lakehouse_core.planning.fleet.cost import RATES, Budget, Rates
from lakehouse_core.planning.fleet.operations import OPERATIONS, Operation
from lakehouse_core.progress import Listener, Watch, log_outcome, unfailing
from lakehouse_core.storage import ObjectStore
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.schema import ColumnDeclarations, new_schema

if TYPE_CHECKING:
    from lakehouse_core.api.fleet.plan import MaintenanceChoice, MaintenancePlan
    from lakehouse_core.api.fleet.run import MaintenanceOutcome, MaintenanceReport

StructType: TypeAlias = Any

# What stands for other characters in a name.
_PATTERN: Final = frozenset("*?[")


@checks_flags
class Catalog:
    """A catalog: table names → tables.

    `store` is rooted at the warehouse; `engine` makes the engine at the first task. `metastore` None: the folders of
    the warehouse are the names.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        clock: Clock,
        engine: Callable[[], Engine] | None = None,
        metastore: Metastore | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._engine = engine or local_engine(self._store, self._clock)
        self._metastore = metastore or FileSystemMetastore(WarehouseFiles(store, clock))

    def __repr__(self) -> str:
        shown_parts = [shown(self.uri)[1:-1], *(f"{key}={value}" for key, value in self._metastore.describe().items())]
        return f"Catalog({', '.join(shown_parts)})"

    def _repr_html_(self) -> str:
        return page("Catalog", "", {"at": self.uri, **self._metastore.describe()})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without the Spark session: in another process, tasks run in that process."""
        return _in_this_process, (self._store, self._clock, self._metastore)

    @property
    def uri(self) -> str:
        """The address of the warehouse."""
        return self._store.uri("")

    def databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._metastore.databases()

    def create_database(
        self, name: str, *, properties: Mapping[str, str] | None = None, exist_ok: bool = False
    ) -> None:
        """Create a database. A SQL catalog keeps its `properties`, such as an owner; a catalog of folders has none.

        Raises InvalidRequest for an invalid name, and for an existing database unless `exist_ok`; UnsupportedFeature
        for properties where they are not kept.
        """
        given = texts_of("properties", properties)
        check_new_name(name, "database")
        if name.casefold() == SYSTEM_DATABASE:
            raise InvalidRequest(
                f"Invalid database name {shown(name)}: reserved for system tables. Choose another name."
            )
        known = self.databases()
        if name not in known:
            check_no_twin(name, known, "database")
            self._metastore.create_database(name, given)
            log_outcome("create_database", name, "created")
        elif not exist_ok:
            raise InvalidRequest(f"Database {shown(name)} exists already. Pass exist_ok=True to accept that.")

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a database; none in a catalog of folders. Raises NotFound naming near matches."""
        if not self._has_database(name):
            raise self._no_database(name)
        return dict(self._metastore.database_properties(name))

    def check(self) -> list[str]:
        """Return a sentence for each disagreement between the names of the catalog and the files of the warehouse.

        In a SQL catalog a table may be listed without files, or have files without being listed: a call was
        interrupted, or another program removed a part. A catalog of folders cannot disagree.
        """
        return [found for name in self.databases() for found in self._metastore.check(name)]

    def drop_database(self, name: str, *, cascade: bool = False, missing_ok: bool = False) -> None:
        """Drop a database, with `cascade` also its tables.

        Raises NotFound; InvalidRequest when the database has tables.
        """
        if not self._has_database(name):
            if missing_ok:
                return
            raise self._no_database(name)
        tables = self.tables(name)
        if tables and not cascade:
            raise InvalidRequest(
                f"Database {shown(name)} has {len(tables)} tables ({', '.join(tables[:5])}). "
                "Drop them first, or pass cascade=True."
            )
        with begun(f"Database {shown(name)}: some of its tables may be dropped. Drop the database again."):
            for table in tables:
                self.drop_table(f"{name}.{table}")
            self._metastore.drop_database(name)

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted. Raises NotFound naming near matches."""
        if not self._has_database(database):
            raise self._no_database(database)
        return self._metastore.tables(database)

    def create_table(
        self,
        name: str,
        schema: ColumnDeclarations | StructType,
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        nullable: bool = False,
        exist_ok: bool = False,
    ) -> Table:
        """Create `database.table` and return it; with `exist_ok`, return an existing table unchanged.

        `schema` maps column names to SQL types, or is an Arrow schema or a Spark StructType. With `nullable`, all
        columns except the primary key may hold nulls, whatever the schema says: Spark marks literals and ranges as NOT
        NULL, although later data may have nulls. Raises InvalidRequest; UnsupportedFeature for an option that the core
        does not carry out; NotFound for the database.
        """
        database, table = split_name(name)
        known = self.tables(database) if self._has_database(database) else []
        if table in known:
            return self._existing(name, exist_ok=exist_ok)
        check_new_name(table, "table")
        check_no_twin(table, known, "table")
        with named(name):
            first = new_schema(
                _declarations(schema),
                primary_keys=primary_keys,
                partition_keys=partition_keys,
                options=options,
                comment=comment,
                nullable=nullable,
                now_millis=self._clock.now_millis(),
            )
        # The database is checked last, so that a user who creates a missing one can create the table then.
        if not self._has_database(database):
            raise self._no_database(database)
        full_name = TableName(database, table)
        place = self._metastore.place(full_name)
        schemas = place.schemas()
        if not self._metastore.create_table(full_name, schemas, first, adopt=exist_ok):
            return self._existing(name, exist_ok=exist_ok)
        log_outcome("create_table", name, f"created with {len(first.fields)} columns")
        return self._table_at(name, place, schemas)

    def table(self, name: str) -> Table:
        """Open `database.table`. Raises NotFound naming near matches, CorruptTable for an unreadable schema."""
        opened = self._opened(name)
        return self._table_at(name, opened.place, opened.schemas)

    def system_table(self, name: str, *, options: Mapping[str, str] | None = None) -> SystemTable:
        """Open a system table by Java's name, such as `sales.orders$files`; `options` as in `Table.system`.

        Raises NotFound, InvalidRequest.
        """
        table, system = split_system_name(name)
        return self.table(table).system(system, options=options)

    def drop_table(self, name: str, *, missing_ok: bool = False) -> None:
        """Drop a table with all its files, snapshots and tags. Raises NotFound unless `missing_ok`.

        A symbolic link is removed, not its target. Raises WriteOutcomeUnknown when the catalog has dropped the table
        but some of its files remain.
        """
        full_name = TableName(*split_name(name))
        if not self._metastore.drop_table(full_name, self._metastore.place(full_name).schemas()):
            if missing_ok:
                return
            raise self._no_table(full_name)
        log_outcome("drop_table", name, "dropped")

    def rename_table(self, source: str, target: str) -> Table:
        """Rename a table, all or nothing, and return it. Raises NotFound; InvalidRequest when `target` exists."""
        database, table = split_name(target)
        opened = self._opened(source)
        if not self._has_database(database):
            raise self._no_database(database)
        check_new_name(table, "table")
        others = [name for name in self.tables(database) if f"{database}.{name}" != source]
        check_no_twin(table, others, "table")
        # The place is looked up first, because after the move nothing may fail.
        new = TableName(database, table)
        place = self._metastore.place(new)
        if not self._metastore.rename_table(opened.name, new, opened.witness):
            raise InvalidRequest(f"Table {shown(target)}: the table or its folder already exists. Choose another name.")
        log_outcome("rename_table", source, f"renamed to {target}")
        return self._table_at(target, place, place.schemas())

    def copy_table(
        self,
        source: Table,
        name: str | None = None,
        *,
        snapshots: int | None = None,
        tags: Sequence[str] | None = None,
        branches: Sequence[str] | None = None,
        data: bool = False,
        progress: Listener | None = None,
    ) -> CopyReport:
        """Copy a table of any catalog into this one, as `name` (None: its own name), and verify the copy, with `data`
        also the bytes of its data files.

        None copies everything: else `snapshots` is the number of the newest ones, and `tags` and `branches` are names.
        The copy is a table when it is complete. Call again after an interruption: files that are there are not copied
        twice. Commits that are kept as pending and consumers stay behind. The source is only read, so it may expire
        what is not copied yet: SnapshotExpired, if it does each time. Raises InvalidRequest for a name that is taken,
        NotFound, UnsupportedFeature for files outside the table, CorruptTable, CommitConflict, StorageUnavailable.
        """
        choice = checked_choice(checked_source(source).name, snapshots=snapshots, tags=tags, branches=branches)
        name = source.name if name is None else name
        database, table = split_name(name)
        if not self._has_database(database):
            raise self._no_database(database)
        known = self.tables(database)
        if table not in known:
            check_new_name(table, "table")
            check_no_twin(table, known, "table")
        full_name = TableName(database, table)
        place = self._metastore.place(full_name)
        started = self._clock.monotonic_seconds()
        with named(name):
            result = self._copied(source, full_name, place, choice, Watch("copy_table", name, progress))
        with begun(f"Table {shown(name)} is copied, but was not verified. Verify it."):
            copy = self._table_at(name, place, place.schemas())
            findings = copy.verify(data=data, progress=progress).findings
        report = copy_report(copy, source, result, findings=findings)
        report = replace(report, duration_seconds=self._clock.monotonic_seconds() - started)
        log_outcome("copy_table", name, outcome(report))
        return report

    def copy_tables(
        self,
        source: "Catalog",
        tables: str = "*",
        *,
        database: str | None = None,
        snapshots: int | None = None,
        tags: Sequence[str] | None = None,
        branches: Sequence[str] | None = None,
        data: bool = False,
        progress: Listener | None = None,
    ) -> tuple[CopyReport, ...]:
        """Copy each table of `source` whose name and database match into this catalog, as `copy_table` does.

        `tables` and `database` as in `compact`: `copy_tables(source, database="sales")` copies a whole database.
        Databases are created where there are none. Returns a report for each table, by name. When one table fails, its
        report has the `error`, and the other tables continue; call again to go on.
        Raises NotFound when no table matches, InvalidRequest.
        """
        if not isinstance(source, Catalog):
            raise InvalidRequest(
                f"copy_tables: found {shown(source)} as the source, expected a catalog, as lakehouse_core.connect "
                "returns it."
            )
        names = source.matching(tables, database=database)

        def copy(name: str, listener: Listener | None) -> CopyReport:
            self.create_database(split_name(name)[0], exist_ok=True)
            return self.copy_table(
                source.table(name), snapshots=snapshots, tags=tags, branches=branches, data=data, progress=listener
            )

        # Arguments that fit no table are refused once, not in each table's report.
        checked_choice("copy_tables", snapshots=snapshots, tags=tags, branches=branches)
        return each_table(
            names,
            copy,
            lambda name, error: CopyReport(table=name, error=error),
            verb="copy_tables",
            phase="copying the tables",
            progress=progress,
        )

    def _copied(
        self, source: Table, name: TableName, place: TablePlace, choice: CopyChoice, watch: Watch
    ) -> CopyResult | None:
        """Copy the files and list the table; return None if an earlier call had copied all."""
        origin = copied_from(place.store)
        is_listed = self._metastore.find(name, place.schemas()) is not None
        is_there = is_listed or is_complete(place.store)
        if is_there and origin != source.uri:
            raise InvalidRequest(
                f"Table {shown(str(name))} exists already. Copy to another name."
                if is_listed
                else str(self._metastore.hint(name))
            )
        result = None
        if not is_there:
            self._metastore.check_free(name)
            result = copy_files(source._context, place.store, choice, self._clock, engine=self._engine, watch=watch)
        if not is_listed:
            with begun(f"The files of table {shown(str(name))} are copied, but not listed. Copy again."):
                self._metastore.adopt(name, place.schemas())
        end_copy(place.store)
        return result

    def matching(self, tables: str = "*", *, database: str | None = None) -> list[str]:
        """Return `database.table` of each table whose name and database match, sorted. `database` None means all
        databases.

        In names `*` stands for any characters, `?` for one character and `[…]` for one of those listed. `tables` may
        also name the database, as in `sales.*`. Raises NotFound when no table matches, InvalidRequest.
        """
        if database is None and isinstance(tables, str) and "." in tables:
            database, _, tables = tables.partition(".")
        database = "*" if database is None else database
        for noun, pattern in (("database", database), ("tables", tables)):
            if not isinstance(pattern, str):
                raise InvalidRequest(f"{noun}={shown(pattern)}: expected a name or a pattern, as in 'sales*'.")
        databases = [name for name in self.databases() if fnmatchcase(name, database)]
        if not databases:
            raise NotFound(f"No database matches {shown(database)} in {self.uri}. {near(database, self.databases())}")
        found = [f"{name}.{table}" for name in databases for table in self.tables(name) if fnmatchcase(table, tables)]
        if not found:
            known = [table for name in databases for table in self.tables(name)]
            raise NotFound(f"No table matches {shown(tables)} in {', '.join(databases)}. {near(tables, known)}")
        return found

    def compact(
        self,
        tables: str = "*",
        *,
        database: str | None = None,
        full: bool = False,
        partition_idle: timedelta | None = None,
        dry_run: bool = False,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> tuple[CompactionReport, ...]:
        """Compact each table whose name and database match, one after the other, as `Table.compact` does.

        `database` None means all databases, or the one that `tables` names before a dot, as in `sales.*`. In names `*`
        stands for any characters, `?` for one character and `[…]` for one of those listed.
        Returns a report for each table, by name. When one table fails, its report has the `error`, and the other tables
        continue. `progress` receives the progress of the call and of each table.
        Raises NotFound when no table matches, InvalidRequest.
        """
        # Arguments that fit no table are refused once, not in each table's report.
        idle_millis(partition_idle)
        check_properties(mapping_of("properties", properties))

        def compact(name: str, listener: Listener | None) -> CompactionReport:
            return self.table(name).compact(
                full=full, partition_idle=partition_idle, dry_run=dry_run, properties=properties, progress=listener
            )

        return each_table(
            self.matching(tables, database=database),
            compact,
            lambda name, error: CompactionReport(table=name, dry_run=dry_run, error=error),
            verb="compact",
            phase="compacting the tables",
            progress=progress,
        )

    def plan_maintenance(
        self,
        tables: str | Sequence[str] = "*",
        *,
        budget: Budget,
        database: str | None = None,
        reads: Mapping[str, float] | None = None,
        operations: Sequence[Operation] = OPERATIONS,
        only_urgent: bool = False,
        rates: Rates = RATES,
        also: Sequence["Catalog"] = (),
        progress: Listener | None = None,
    ) -> "MaintenancePlan":
        """Return how to spend a budget on the tables whose name and database match, as in `compact`, or on a list of
        names: which partitions to compact, which manifests to merge, which snapshots to expire. Reads metadata only,
        and changes nothing.

        An operation is worth the seconds of reading that it saves each day. `reads` says how often a day each table is
        read, by name; nothing records that, so other tables count as read once, as a whole. `operations` are those to
        choose from: leave out 'expire' where another engine expires snapshots. With `only_urgent`, only what should not
        wait is chosen. `rates` are the speeds of the machine and the store, by default those of a local disk. `also`
        are catalogs whose tables share the budget.
        A table that cannot be read or maintained is a refusal with its reason, and so is a lake that is away. Raises
        NotFound when no table matches in any lake, InvalidRequest.
        """
        # Programs that maintain no fleet need not load what does.
        from lakehouse_core.api.fleet.planning import FleetTable, check_budget, names_of, plan_fleet  # noqa: PLC0415

        check_budget(budget)
        catalogs = [self, *checked_catalogs(also)]
        if twice := [uri for uri, count in Counter(each.uri for each in catalogs).items() if count > 1]:
            raise InvalidRequest(f"also: {', '.join(twice)} is given twice. Name each lake once.")
        found: list[FleetTable] = []
        missing: NotFound | None = None
        for each in catalogs:
            try:
                names = each.matching(tables, database=database) if isinstance(tables, str) else names_of(tables)
            except NotFound as nothing:
                missing = missing or nothing
            except StorageUnavailable as away:
                found.append(FleetTable(warehouse=each.uri, name=str(tables), open=_raising(away)))
            else:
                found += [FleetTable(warehouse=each.uri, name=name, open=each._context) for name in names]
        if missing is not None and not found:
            raise missing
        return plan_fleet(
            found,
            budget,
            clock=self._clock,
            reads=reads,
            operations=operations,
            only_urgent=only_urgent,
            rates=rates,
            progress=None if progress is None else unfailing(progress),
        )

    def maintain(
        self,
        plan: "MaintenancePlan",
        *,
        properties: Mapping[str, str] | None = None,
        progress: Listener | None = None,
        before: Callable[["MaintenanceChoice"], None] | None = None,
        after: Callable[["MaintenanceOutcome"], None] | None = None,
    ) -> "MaintenanceReport":
        """Carry out the choices of a plan that are tables of this warehouse, in their order, each at most once.

        `properties` become properties of the snapshots. What would exceed the budget of the plan is skipped; so is a
        table that was dropped since. When one choice fails, its outcome has the `error`, and the others continue. A
        choice that is done already, as in a repeated run, does nothing. `before` is called with each choice whose
        operation begins, and `after` with each outcome. Raises InvalidRequest for a plan of other warehouses, and the
        errors of these two functions.
        """
        from lakehouse_core.api.fleet.run import run_plan  # noqa: PLC0415

        return run_plan(
            plan,
            self.uri,
            self._context,
            clock=self._clock,
            properties=properties,
            progress=None if progress is None else unfailing(progress),
            before=before,
            after=after,
        )

    def _context(self, name: str) -> TableContext:
        opened = self._opened(name)
        place = opened.place
        return table_context(name, place.store, self._clock, self._engine, opened.schemas, arbiter=place.arbiter)

    def _table_at(self, name: str, place: TablePlace, schemas: SchemaLog) -> Table:
        return Table(name, place.store, schemas=schemas, engine=self._engine, clock=self._clock, arbiter=place.arbiter)

    def _opened(self, name: str) -> "_Opened":
        """Find a table. Raises NotFound."""
        full_name = TableName(*split_name(name))
        place = self._metastore.place(full_name)
        schemas = place.schemas()
        witness = self._metastore.find(full_name, schemas)
        if witness is not None:
            return _Opened(full_name, place, schemas, witness)
        raise self._no_table(full_name)

    def _no_table(self, name: TableName) -> NotFound:
        full = shown(str(name))
        if not _PATTERN.isdisjoint(str(name)):
            return NotFound(
                f"Table {full} does not exist. For many tables loop over matching({full}), which gives their names; "
                "compact takes the pattern itself."
            )
        if not self._has_database(name.database):
            return self._no_database(name.database)
        advice = self._metastore.hint(name) or near(name.table, self.tables(name.database))
        return NotFound(f"Table {full} does not exist. {advice}")

    def _existing(self, name: str, *, exist_ok: bool) -> Table:
        if not exist_ok:
            raise InvalidRequest(f"Table {shown(name)} exists already. Pass exist_ok=True to accept that.")
        return self.table(name)

    def _has_database(self, name: str) -> bool:
        check_part(name, "database")
        return name in self.databases()

    def _no_database(self, name: str) -> NotFound:
        return NotFound(f"Database {shown(name)} does not exist in {self.uri}. {near(name, self.databases())}")


def _raising(error: LakehouseError) -> Callable[[str], TableContext]:
    """Return a function that opens no table: it raises the error."""

    def open_table(_: str) -> TableContext:
        raise error

    return open_table


def checked_catalogs(given: object) -> Sequence[Catalog]:
    """Return the catalogs given as the argument `also`. Raises InvalidRequest."""
    if not isinstance(given, Sequence) or not all(isinstance(each, Catalog) for each in given):
        raise InvalidRequest(f"also={shown(given)}: expected a list of catalogs, as lc.connect returns them.")
    return given


@dataclass(frozen=True, slots=True)
class _Opened:
    """A table that exists. `witness`: the key of its first schema."""

    name: TableName
    place: TablePlace
    schemas: SchemaLog
    witness: str


def _in_this_process(store: ObjectStore, clock: Clock, metastore: Metastore) -> Catalog:
    return Catalog(store, clock=clock, metastore=metastore)


def _declarations(schema: Any) -> ColumnDeclarations:
    if type(schema).__module__.startswith("pyspark.") and type(schema).__name__ == "StructType":
        # A value can be a Spark schema only if Spark is loaded.
        from lakehouse_core.execution.engines.spark.types import fields_from_spark  # noqa: PLC0415

        return fields_from_spark(schema)
    declarations: ColumnDeclarations = schema
    return declarations
