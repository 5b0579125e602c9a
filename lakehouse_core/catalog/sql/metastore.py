"""The SQL metastore: names are rows, in the tables of Paimon's JDBC catalog; files lie as in a catalog of folders.

Rule: a table is created files first, then rows, and dropped rows first, then files. So a listed table has files,
unless another program removed them. A row says that a table is dropped until its files are removed.
Source: docs/format/catalogs.md#jdbc-catalog, docs/decisions/0023-sql-catalogs.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import sqlalchemy as sa

from lakehouse_core.catalog.metastore import TableName, TablePlace
from lakehouse_core.catalog.names import twins
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.catalog_rows import DROPPED, LONGEST_NAME, CatalogRows
from lakehouse_core.catalog.sql.database import RowExists, SqlDatabase
from lakehouse_core.catalog.sql.lock import SqlLock
from lakehouse_core.catalog.sql.tables import LONGEST_VALUE, TABLE_PROPERTIES, TABLES, VIEWS
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    CorruptTable,
    InvalidRequest,
    NotFound,
    StorageUnavailable,
    WriteOutcomeUnknown,
    shown,
)
from lakehouse_core.metadata.arbiter import CREATE_IF_ABSENT, Arbiter
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.schema import TableSchema

# Rows that each database has. Users do not see the first, which keeps an empty database.
_EXISTS: Final = "exists"
_LOCATION: Final = "location"


def sql_metastore(metastore: str, options: Mapping[str, str], files: WarehouseFiles, clock: Clock) -> "SqlMetastore":
    """Return the metastore at the address of a database, without connecting. Raises as `connect` does."""
    database = SqlDatabase(sql_address(metastore, options))
    database.load_driver()
    return SqlMetastore(database, files, clock)


class SqlMetastore:
    """Names as rows of one catalog key. The store decides which writer of a table wins, with `lock.enabled` one that
    has the lock.
    """

    def __init__(self, database: SqlDatabase, files: WarehouseFiles, clock: Clock) -> None:
        self._clock = clock
        self._database = database
        self._files = files
        self._rows = CatalogRows(database)

    def describe(self) -> Mapping[str, str]:
        return {"metastore": str(self._database)}

    def databases(self) -> list[str]:
        return self._database.read(self._rows.databases, empty=[])

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        _check_properties(name, properties)
        rows = {**properties, _EXISTS: "true", _LOCATION: self._files.database_location(name)}
        try:
            self._database.change(
                lambda connection: self._rows.insert_database(connection, name, rows),
                is_done=lambda connection: name in self._rows.databases(connection),
            )
        except RowExists:
            # A concurrent call has created the same database.
            self._check_listed(name, self.databases(), "database")
            if properties:
                raise InvalidRequest(
                    f"Database {shown(name)} was created meanwhile by another call, which chose its properties."
                ) from None

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        _check_properties(name, properties)

        def alter(connection: sa.Connection) -> None:
            self._rows.lock_database(connection, name)
            if name not in self._rows.databases(connection):
                raise NotFound(f"Database {shown(name)} was dropped meanwhile. Nothing was changed: create it again.")
            self._rows.change_properties(connection, name, properties)

        def is_done(connection: sa.Connection) -> bool:
            found = self._rows.database_properties(connection, name)
            return all(found.get(key) == value for key, value in properties.items())

        self._database.change(alter, is_done=is_done)

    def database_properties(self, name: str) -> Mapping[str, str]:
        empty: dict[str, str] = {}
        rows = self._database.read(lambda connection: self._rows.database_properties(connection, name), empty=empty)
        return {key: rows[key] for key in sorted(rows) if key != _EXISTS}

    def check(self, database: str) -> list[str]:
        listed, there = self.tables(database), self._files.tables(database)
        names = sorted({*listed} ^ {*there})
        return [
            self._without_files(name) if name.table in listed else self._without_row(name)
            for name in (TableName(database, table) for table in names)
        ]

    def drop_database(self, name: str) -> None:
        for table in self._read_names(name, TABLE_PROPERTIES.c.table_name, TABLE_PROPERTIES.c.property_key == DROPPED):
            # An earlier call was interrupted.
            dropped = TableName(name, table)
            self.drop_table(dropped, self.place(dropped).schemas())
        if unlisted := self._files.tables(name):
            raise InvalidRequest(f"Database {shown(name)} stays. {self._without_row(TableName(name, unlisted[0]))}")
        if views := self._read_names(name, VIEWS.c.view_name):
            raise InvalidRequest(
                f"Database {shown(name)} has {len(views)} views of another engine, such as {shown(views[0])}. Drop "
                "them there first."
            )

        def drop(connection: sa.Connection) -> None:
            if tables := self._rows.names(connection, name, TABLES.c.table_name):
                raise InvalidRequest(
                    f"Database {shown(name)}: the table {shown(tables[0])} was created meanwhile. Drop it again."
                )
            self._rows.delete_database(connection, name)

        self._database.change(drop, is_done=lambda connection: name not in self._rows.databases(connection))
        # Files of no table stay: the database is dropped without them.
        self._files.drop_database(name)

    def tables(self, database: str, *, like: str | None = None) -> list[str]:
        return twins(self._read_names(database, TABLES.c.table_name), like)

    def place(self, name: TableName) -> TablePlace:
        return TablePlace(self._files.at(name), self._arbiter(name))

    def find(self, name: TableName, schemas: SchemaLog) -> str | None:
        is_listed, ids = both(lambda: self._is_listed(name), schemas.ids, at_once=schemas.store.requests_at_once)
        if not is_listed:
            return None
        if not ids:
            raise CorruptTable(self._without_files(name))
        return MAIN.schema(ids[0])

    def hint(self, name: TableName) -> str | None:
        return self._without_row(name) if self._files.has_schema(name) else None

    def create_table(self, name: TableName, schemas: SchemaLog, first: TableSchema, *, adopt: bool) -> bool:
        self._check_new(name)
        is_ours = self._files.create_table(name, schemas, first)
        if not is_ours and not adopt:
            if self._is_listed(name):
                # Another process was faster.
                return False
            raise InvalidRequest(self._without_row(name))
        self._list(name, first if is_ours else schemas.latest())
        return is_ours

    def check_free(self, name: TableName) -> None:
        self._check_new(name)
        self._files.check_free(name, for_copy=True)

    def adopt(self, name: TableName, schemas: SchemaLog) -> None:
        self._list(name, schemas.latest())

    def _list(self, name: TableName, schema: TableSchema) -> None:
        try:
            self._database.change(
                lambda connection: self._insert_table(connection, name, schema),
                is_done=lambda connection: self._rows.has_table(connection, name),
            )
        except RowExists:
            # Another process listed it.
            self._check_listed(name.table, self.tables(name.database), "table")
            return
        except StorageUnavailable as error:
            raise WriteOutcomeUnknown(
                f"{error} The files of table {shown(str(name))} are there. Create it again with exist_ok=True, which "
                "lists them."
            ) from None

    def _check_listed(self, name: str, listed: Sequence[str], noun: str) -> None:
        """Raise InvalidRequest if the database took another name for the same key."""
        if name not in listed:
            raise InvalidRequest(
                f"Invalid {noun} name {shown(name)}: to {self._database} it is the same as that of another {noun}. "
                "Choose another name, or give the columns of its tables a binary collation."
            )

    def _check_new(self, name: TableName) -> None:
        """Raise InvalidRequest if a view has the name, or a dropped table whose files are not removed yet."""
        is_view, token = self._database.read(
            lambda connection: (self._rows.has_view(connection, name), self._rows.dropped(connection, name)),
            empty=(False, ""),
        )
        if is_view:
            raise InvalidRequest(
                f"Table {shown(str(name))}: a view of another engine has that name. Choose another name."
            )
        if token:
            if self._files.has_schema(name):
                raise InvalidRequest(
                    f"Table {shown(str(name))} is dropped, but files of it remain at {self._files.at(name).uri('')}. "
                    "Drop it again, which removes them, then create it."
                )
            self._forget_dropped(name, token)

    def drop_table(self, name: TableName, schemas: SchemaLog) -> bool:
        ids = schemas.ids()
        new = self._clock.uuid()
        token = self._database.change(
            lambda connection: self._rows.drop_table(connection, name, new),
            is_done=lambda connection: not self._rows.has_table(connection, name),
        )
        if token == "":
            return self._files.drop_part(name)
        with begun(
            f"Table {shown(str(name))} is dropped. Files of it remain at {schemas.store.uri('')}. Drop it again, which "
            "removes them."
        ):
            if token is None:
                # The answer was lost. Without a row another drop has removed the files.
                token = self._database.read(lambda connection: self._rows.dropped(connection, name), empty="")
            if token and ids:
                # Another call may have removed the files, and created a table of the same name.
                self._files.drop_table(name, MAIN.schema(ids[0]), lambda: self._is_dropped(name, token))
            elif token:
                self._files.drop_part(name)
        with suppress(StorageUnavailable, WriteOutcomeUnknown):
            # A row that stays says nothing wrong: a drop or a creation by the same name removes it.
            self._forget_dropped(name, token)
        return True

    def _is_dropped(self, name: TableName, token: str) -> bool:
        """Return whether the table that the drop with this token dropped is the last one of the name."""
        return self._database.read(
            lambda connection: (
                self._rows.dropped(connection, name) == token and not self._rows.has_table(connection, name)
            ),
            empty=False,
        )

    def _forget_dropped(self, name: TableName, token: str) -> None:
        self._database.change(
            lambda connection: self._rows.forget_dropped(connection, name, token),
            is_done=lambda connection: self._rows.dropped(connection, name) != token,
        )

    def rename_table(self, source: TableName, target: TableName, witness: str) -> bool:
        # Refused before a row is changed.
        self._files.check_moves(source)
        moved = False

        def rename(connection: sa.Connection) -> None:
            nonlocal moved
            if self._rows.has_table(connection, target) or self._rows.has_view(connection, target):
                raise _TargetExists
            if not self._rows.rename_table(connection, source, target):
                raise NotFound(
                    f"Table {shown(str(source))} was dropped or renamed meanwhile. Nothing was changed: check its name."
                )
            # The rows are committed only when the folder has moved.
            moved = self._files.move_table(source, target, witness)
            if not moved:
                raise _TargetExists

        try:
            with self._locked(source, target):
                self._database.change(rename, is_done=lambda connection: self._rows.has_table(connection, target))
        except (_TargetExists, RowExists):
            return False
        except StorageUnavailable as error:
            if not moved:
                raise
            raise WriteOutcomeUnknown(
                f"{error} The folder of table {shown(str(source))} has moved to {shown(str(target))}. If the catalog "
                f"still lists the old name, drop that name and create {target} with exist_ok=True, which lists the "
                "files."
            ) from None
        return True

    def _arbiter(self, name: TableName) -> Arbiter:
        return self._lock(name) if self._database.address.takes_lock else CREATE_IF_ABSENT

    def _lock(self, name: TableName) -> SqlLock:
        return SqlLock(self._database, f"{self._database.address.catalog_key}.{name}", self._clock)

    @contextmanager
    def _locked(self, *names: TableName) -> Iterator[None]:
        """Hold the locks of tables, in an order that is the same for all writers, if locks are taken."""
        with ExitStack() as stack:
            if self._database.address.takes_lock:
                for name in sorted(names, key=str):
                    stack.enter_context(self._lock(name).held())
            yield

    def _read_names(self, database: str, column: sa.Column[str], *where: sa.ColumnElement[bool]) -> list[str]:
        empty: list[str] = []
        return self._database.read(
            lambda connection: self._rows.names(connection, database, column, *where), empty=empty
        )

    def _is_listed(self, name: TableName) -> bool:
        return self._database.read(lambda connection: self._rows.has_table(connection, name), empty=False)

    def _insert_table(self, connection: sa.Connection, name: TableName, schema: TableSchema) -> None:
        self._rows.lock_database(connection, name.database)
        if name.database not in self._rows.databases(connection):
            raise NotFound(
                f"Database {shown(name.database)} was dropped meanwhile. Files of table {shown(str(name))} remain at "
                f"{self._files.at(name).uri('')}."
            )
        if self._rows.has_view(connection, name):
            raise InvalidRequest(
                f"Table {shown(str(name))}: a view of another engine got that name meanwhile. Drop the view, then "
                "create the table with exist_ok=True."
            )
        self._rows.insert_table(connection, name, schema)

    def _without_files(self, name: TableName) -> str:
        return (
            f"Table {shown(str(name))}: the catalog lists it, but {self._files.at(name).uri('')} has no schema. "
            "Restore its files, or drop the table, which removes the name."
        )

    def _without_row(self, name: TableName) -> str:
        return (
            f"Table {shown(str(name))}: its files are at {self._files.at(name).uri('')}, but the catalog does not list "
            "it. Create it with exist_ok=True, which lists the files as they are, or remove the folder."
        )


def _check_properties(database: str, properties: Mapping[str, str | None]) -> None:
    for key, value in properties.items():
        if key in (_EXISTS, _LOCATION):
            raise InvalidRequest(
                f"Database {shown(database)}: the property {shown(key)} is kept by the catalog. Choose another name."
            )
        if len(key) > LONGEST_NAME or len(value or "") > LONGEST_VALUE:
            raise InvalidRequest(
                f"Database {shown(database)}: the property {shown(key)} is too long. Expected a name of at most "
                f"{LONGEST_NAME} and a value of at most {LONGEST_VALUE} characters."
            )


class _TargetExists(Exception):
    """The new name of a table is taken; the transaction is rolled back."""
