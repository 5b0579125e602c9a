"""Catalog: the handle whose methods are the verbs on databases, tables, and many tables at once.

Rule: a verb is its docstring and one call of another module; the metastore keeps the names.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse_core.api.local_engine import local_engine
from lakehouse_core.api.reports import CompactionReport, CopyReport
from lakehouse_core.api.system.tables import SystemTable
from lakehouse_core.api.table import Table
from lakehouse_core.calls import checks_calls
from lakehouse_core.catalog import ddl, each_table
from lakehouse_core.catalog.context import CatalogContext
from lakehouse_core.catalog.ddl import StructType
from lakehouse_core.catalog.filesystem import FileSystemMetastore
from lakehouse_core.catalog.metastore import Metastore
from lakehouse_core.catalog.names import split_system_name
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import Clock
from lakehouse_core.display import page
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.engine import Engine
from lakehouse_core.planning.fleet.cost import RATES, Budget, Rates
from lakehouse_core.planning.fleet.operations import OPERATIONS, Operation
from lakehouse_core.progress import Listener, unfailing
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.schema import ColumnDeclarations

if TYPE_CHECKING:
    from lakehouse_core.api.answer import Answer
    from lakehouse_core.api.fleet.plan import MaintenanceChoice, MaintenancePlan
    from lakehouse_core.api.fleet.run import MaintenanceOutcome, MaintenanceReport


@checks_calls
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
        self._context = CatalogContext(
            store=store,
            clock=clock,
            engine=engine or local_engine(store, clock),
            metastore=metastore or FileSystemMetastore(WarehouseFiles(store, clock)),
        )

    def __repr__(self) -> str:
        shown_parts = [
            shown(self.uri)[1:-1],
            *(f"{key}={value}" for key, value in self._context.metastore.describe().items()),
        ]
        return f"Catalog({', '.join(shown_parts)})"

    def _repr_html_(self) -> str:
        return page("Catalog", "", {"at": self.uri, **self._context.metastore.describe()})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without the Spark session: in another process, tasks run in that process."""
        context = self._context
        return partial(Catalog, context.store, clock=context.clock, metastore=context.metastore), ()

    @property
    def uri(self) -> str:
        """The address of the warehouse."""
        return self._context.uri

    def databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._context.metastore.databases()

    def create_database(
        self, name: str, *, properties: Mapping[str, str] | None = None, exist_ok: bool = False
    ) -> None:
        """Create a database. A SQL catalog keeps its `properties`, such as an owner; a catalog of folders has none.

        Raises InvalidRequest for an invalid name, and for an existing database unless `exist_ok`; UnsupportedFeature
        for properties where they are not kept.
        """
        ddl.create_database(self._context, name, properties=properties, exist_ok=exist_ok)

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a database; none in a catalog of folders. Raises NotFound naming near matches."""
        self._context.check_database(name)
        return dict(self._context.metastore.database_properties(name))

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set properties of a database of a SQL catalog, all or none; None removes one. Raises NotFound,
        InvalidRequest; UnsupportedFeature in a catalog of folders.
        """
        ddl.alter_database(self._context, name, properties)

    def check(self) -> list[str]:
        """Return a sentence for each disagreement between the names of the catalog and the files of the warehouse.

        In a SQL catalog a table may be listed without files, or have files without being listed: a call was
        interrupted, or another program removed a part. A catalog of folders cannot disagree.
        """
        return [found for name in self.databases() for found in self._context.metastore.check(name)]

    def drop_database(self, name: str, *, cascade: bool = False, missing_ok: bool = False) -> None:
        """Drop a database, with `cascade` also its tables.

        Raises NotFound; InvalidRequest when the database has tables; CommitConflict as `drop_table` does.
        """
        ddl.drop_database(self._context, name, cascade=cascade, missing_ok=missing_ok)

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted. Raises NotFound naming near matches."""
        return self._context.tables(database)

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
        does not carry out; NotFound for the database; CommitConflict as `drop_table` does.
        """
        return ddl.create_table(
            self._context,
            name,
            schema,
            partition_keys=partition_keys,
            primary_keys=primary_keys,
            options=options,
            comment=comment,
            nullable=nullable,
            exist_ok=exist_ok,
        )

    def table(self, name: str) -> Table:
        """Open `database.table`, or its branch `database.table$branch_name`. Raises NotFound naming near matches,
        CorruptTable for an unreadable schema.
        """
        return self._context.table(name)

    def system_table(self, name: str, *, options: Mapping[str, str] | None = None) -> SystemTable:
        """Open a system table by Java's name, such as `sales.orders$files`; `options` as in `Table.system`.

        Raises NotFound, InvalidRequest.
        """
        table, system = split_system_name(name)
        return self.table(table).system(system, options=options)

    def drop_table(self, name: str, *, missing_ok: bool = False) -> None:
        """Drop a table with all its files, snapshots and tags. Raises NotFound unless `missing_ok`.

        A symbolic link is removed, not its target. Raises WriteOutcomeUnknown when the catalog has dropped the table
        but some of its files remain, CommitConflict while another call drops it in an object store.
        """
        ddl.drop_table(self._context, name, missing_ok=missing_ok)

    def rename_table(self, source: str, target: str) -> Table:
        """Rename a table, all or nothing, and return it. Raises NotFound; InvalidRequest when `target` exists."""
        return ddl.rename_table(self._context, source, target)

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
        """Copy a table of any catalog into this one, as `name` (None: its own name), and verify the copy.

        `snapshots` is the number of the newest snapshots to copy; `tags` and `branches` are names; None copies all.
        With `data`, the verification also reads the data files of the copy. The table exists as soon as its copy is
        complete. After an interruption call again: the call copies only files that are missing. Pending commits and
        consumers are not copied. The call only reads the source, which may expire a snapshot before it is copied; then
        the copy begins again, and raises SnapshotExpired after some attempts. Raises InvalidRequest for a name that is
        taken, NotFound, UnsupportedFeature for files outside the table, CorruptTable, CommitConflict,
        StorageUnavailable.
        """
        # Programs that copy nothing need not load what does.
        from lakehouse_core.catalog import copying  # noqa: PLC0415

        return copying.copy_table(
            self._context,
            source,
            name,
            snapshots=snapshots,
            tags=tags,
            branches=branches,
            data=data,
            progress=progress,
        )

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

        `tables` and `database`: as in `matching`; `copy_tables(source, database="sales")` copies a whole database.
        Databases are created where there are none. Returns a report for each table, by name. When one table fails, its
        report has the `error`, and the other tables continue; call again to go on.
        Raises NotFound when no table matches, InvalidRequest.
        """
        if not isinstance(source, Catalog):
            raise InvalidRequest(
                f"copy_tables: found {shown(source)} as the source, expected a catalog, as lakehouse_core.connect "
                "returns it."
            )
        from lakehouse_core.catalog import copying  # noqa: PLC0415

        return copying.copy_tables(
            self._context,
            source._context,
            tables,
            database=database,
            snapshots=snapshots,
            tags=tags,
            branches=branches,
            data=data,
            progress=progress,
        )

    def matching(self, tables: str = "*", *, database: str | None = None) -> list[str]:
        """Return `database.table` of each table whose name and database match, sorted. `database` None means all
        databases.

        In names `*` stands for any characters, `?` for one character and `[…]` for one of those listed. `tables` may
        also name the database, as in `sales.*`. Raises NotFound when no table matches, InvalidRequest.
        """
        return each_table.matching(self._context, tables, database=database)

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

        `tables` and `database`: as in `matching`. Returns a report for each table, by name. When one table fails, its
        report has the `error`, and the other tables continue. `progress` receives the progress of the call and of each
        table. Raises NotFound when no table matches, InvalidRequest.
        """
        return each_table.compact(
            self._context,
            tables,
            database=database,
            full=full,
            partition_idle=partition_idle,
            dry_run=dry_run,
            properties=properties,
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
        """Return how to spend a budget on the tables whose name and database match, as in `matching`, or on a list of
        names: which partitions to compact, which manifests to merge, which snapshots to expire. Reads metadata only,
        and changes nothing.

        An operation is worth the seconds of reading that it saves each day. `reads` says how often a day each table is
        read, by name; nothing records that, so other tables count as read once, as a whole. `operations` are those to
        choose from: leave out 'expire' where another engine expires snapshots. With `only_urgent`, the plan has only
        operations that should not wait. `rates` are the speeds of the machine and the store, by default those of a
        local disk. `also` are catalogs whose tables share the budget.
        A table that cannot be read or maintained is a refusal with its reason, and so is a catalog whose store does not
        answer. Raises NotFound when no table matches in any catalog, InvalidRequest.
        """
        # Programs that maintain no fleet need not load what does.
        from lakehouse_core.catalog.maintenance import plan_maintenance  # noqa: PLC0415

        return plan_maintenance(
            [self._context, *(each._context for each in _catalogs(also))],
            tables,
            budget=budget,
            database=database,
            reads=reads,
            operations=operations,
            only_urgent=only_urgent,
            rates=rates,
            progress=progress,
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
            self._context.table_context,
            clock=self._context.clock,
            properties=properties,
            progress=None if progress is None else unfailing(progress),
            before=before,
            after=after,
        )

    def sql(
        self,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
        database: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> "Answer":
        """Run one statement of Spark's SQL: on Spark where the catalog has a session, else in this process by DuckDB.

        `parameters` are the values of `:name`. `tables` are data by name: anything with an Arrow stream, a pandas
        frame, a list of dicts, a Spark frame. `database` is where names of one part are looked up. `settings`: those of
        the statement that docs/sql.md lists. The rows of a query are read when the answer is asked for them, from the
        snapshots of this call. Raises InvalidRequest with line and column for a wrong text, UnsupportedFeature for what
        is known and not carried out, NotFound, and the errors of the verbs.
        """
        # Programs that ask nothing in SQL need not load its parser.
        from lakehouse_core.catalog.statements.run import run_statement  # noqa: PLC0415

        return run_statement(
            self,
            text,
            context=self._context.table_context,
            opened=self._context.opened_table,
            engine=self._context.engine,
            parameters=parameters,
            tables=tables,
            database=database,
            settings=settings,
        )


def _catalogs(also: object) -> Sequence[Catalog]:
    """Return the catalogs given as the argument `also`. Raises InvalidRequest."""
    if not isinstance(also, Sequence) or not all(isinstance(each, Catalog) for each in also):
        raise InvalidRequest(f"also={shown(also)}: expected a list of catalogs, as lc.connect returns them.")
    return also
