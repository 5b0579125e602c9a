"""Warehouse files: the folders of databases and tables below a warehouse, the same for each kind of catalog.

Rule: a table's files are there as soon as its schema 0 is. Source: docs/format/catalogs.md#filesystem-catalog.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lakehouse_core.catalog.metastore import TableName
from lakehouse_core.catalog.names import DATABASE_SUFFIX, twins
from lakehouse_core.catalog.object_drop import check_deleted, drop_objects, drop_rest
from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    CommitConflict,
    InvalidRequest,
    StorageUnavailable,
    UnsupportedFeature,
    WriteOutcomeUnknown,
    shown,
)
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.storage import ObjectStore, delete_folder, is_hidden, is_temp
from lakehouse_core.storage.outcomes import begun, created, moved
from lakehouse_core.table.layout import COPY_MARK, DROP_MARK, MAIN, is_late
from lakehouse_core.table.schema import TableSchema

# The mark of an empty database, because object stores have no empty folders. The name is hidden, so that it is not
# listed as a table.
_DATABASE_MARK: Final = ".lakehouse-database"
_DROPPED_PREFIX: Final = ".dropped-"


class WarehouseFiles:
    """The files of databases and tables. `store` is rooted at the warehouse."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def databases(self) -> list[str]:
        """Return the names of the databases that have a folder, sorted."""
        folders = self._store.children("").folders
        return sorted(
            name.removesuffix(DATABASE_SUFFIX)
            for name in folders
            if name.endswith(DATABASE_SUFFIX) and name != DATABASE_SUFFIX
        )

    def create_database(self, name: str) -> None:
        """Create the folder of a database. A concurrent call may create the same one."""
        with self._cleared(_folder(name)):
            created(self._store, f"{_folder(name)}/{_DATABASE_MARK}", b"")

    def drop_database(self, name: str) -> str | None:
        """Remove the folder of a database without tables; return a phrase about what keeps the folder, None if nothing
        does.
        """
        self._clear_hidden(name)
        self.delete_empty_folders(_folder(name))
        others = [found.key for found in self._store.list(_folder(name))]
        if others:
            return f"{len(others)} files that belong to no table, such as {self._store.uri(others[0])}"
        if name in self.databases():
            if self._store.folders is None:
                return f"the mark {self._store.uri(_folder(name))}/ of another engine"
            raise StorageUnavailable(
                f"{self._store.uri(_folder(name))}: the folder has no file, but was not deleted. Try again."
            )
        return None

    def tables(self, database: str, *, like: str | None = None) -> list[str]:
        """Return the names of the folders of a database that hold a schema, sorted. `like`: see `Metastore.tables`."""
        names = twins(self._store.children(_folder(database)).folders, like)
        are_tables = in_order(
            lambda name: self.has_schema(TableName(database, name)),
            names,
            ahead=1,
            at_once=self._store.requests_at_once,
        )
        return sorted(name for name, is_table in zip(names, are_tables, strict=True) if is_table)

    def has_schema(self, name: TableName) -> bool:
        """Return whether the table's folder holds a schema."""
        try:
            files = self._store.children(f"{_table_folder(name)}/{MAIN.folders.schemas}").files
        except InvalidRequest:
            # The name is a symbolic link that is not followed; opening the table reports that.
            return False
        first = MAIN.schema(0).rpartition("/")[2]
        return bool(files) and (first in files or not self.is_part(name))

    def is_part(self, name: TableName) -> bool:
        """Return whether the table's folder holds a copy that is not a table yet, or what an interrupted drop left."""
        return self._mark_of_part(name) is not None

    def at(self, name: TableName) -> ObjectStore:
        """Return the store rooted at the table's folder."""
        return self._store.at(_table_folder(name))

    def database_location(self, name: str) -> str:
        """Return the address of the folder of a database as Java writes it: a path on a disk, else a URI."""
        uri = self._store.uri(_folder(name))
        return uri.removeprefix("file://")

    def create_table(self, name: TableName, schemas: SchemaLog, first: TableSchema) -> bool:
        """Create schema 0 of `name`, and so the table's files; return False if another table's schema is there.

        Raises InvalidRequest if the folder holds files without a schema, CommitConflict while a call drops a table.
        """
        self.check_free(name)
        with self._cleared(_table_folder(name)):
            return schemas.create(first)

    def check_free(self, name: TableName, *, for_copy: bool = False) -> None:
        """Raise InvalidRequest if the table's folder holds files but no table; remove what an interrupted drop left.
        With its schema, a table is there whose drop was refused.

        `for_copy`: the files of an unfinished copy may be there.
        """
        # Hidden files belong to another process that is writing, or to one that died.
        # Another process may have created the table since the tables were listed.
        store = self.at(name)
        keys = {found.key for found in store.list("")}
        if DROP_MARK in keys and MAIN.schema(0) not in keys:
            self._drop_rest(name)
            return
        if COPY_MARK in keys and MAIN.schema(0) not in keys:
            if for_copy:
                return
            raise InvalidRequest(
                f"{store.uri('')}: an unfinished copy of another table is in the folder of table {name}. Copy that "
                "table again to finish it, drop this one, or choose another name."
            )
        late = keys & set(MAIN.hints) if self._store.folders is not None else set(filter(is_late, keys))
        if any(not is_hidden(key.rpartition("/")[2]) for key in keys - late) and not self.has_schema(name):
            raise InvalidRequest(
                f"{store.uri('')}: the folder of table {name} holds files but no schema. Check the files, then "
                "remove the folder or choose another name."
            )
        if late and not self.has_schema(name):
            if self._store.folders is not None:
                check_deleted(store.delete(sorted(late)))
            else:
                self._drop_rest(name)

    def drop_part(self, name: TableName) -> bool:
        """Remove a copy that is not a table yet, or what an interrupted drop left; return False if there is neither."""
        mark = self._mark_of_part(name)
        if mark is None:
            return False
        if self._store.folders is not None:
            self.drop_table(name, mark)
        elif not self._drop_rest(name):
            raise CommitConflict(f"Table {shown(str(name))} was created meanwhile. Nothing was dropped: drop it again.")
        return True

    def drop_table(self, name: TableName, witness: str, is_dropped: Callable[[], bool] = lambda: True) -> None:
        """Remove the table's folder. `witness`: the key of its first schema, or another file by which it is known.
        `is_dropped`: asked at last; False if a later table has the name.
        """
        if self._store.folders is None:
            drop_objects(self.at(name), str(name), self._clock.uuid(), is_dropped)
            return
        # The folder gets a hidden name first, so that a crash leaves hidden files and never a part of a table.
        hidden = f"{_folder(name.database)}/{_DROPPED_PREFIX}{self._clock.uuid()}"
        rest = (
            f"Table {shown(str(name))} is dropped, but some of its files remain. Remove the folder "
            f"{self._store.uri(hidden)}."
        )
        if not is_dropped():
            return
        if not moved(self._store, _table_folder(name), hidden, witness=witness):
            raise StorageUnavailable(
                f"{self._store.uri(hidden)}: expected a new name, found an existing folder. Drop the table again."
            )
        with begun(rest):
            check_deleted(delete_folder(self._store, hidden))

    def _drop_rest(self, name: TableName) -> bool:
        return drop_rest(self.at(name), str(name), self._clock.uuid())

    def _mark_of_part(self, name: TableName) -> str | None:
        """Return the key of a mark in the table's folder if its schema 0 is missing."""
        found = self.at(name).infos([COPY_MARK, DROP_MARK, MAIN.schema(0)])
        return None if MAIN.schema(0) in found else next(iter(found), None)

    def move_table(self, source: TableName, target: TableName, witness: str) -> bool:
        """Move a table's folder; return False if the target exists."""
        self.check_moves(source)
        return moved(self._store, _table_folder(source), _table_folder(target), witness=witness)

    def check_moves(self, name: TableName) -> None:
        """Raise UnsupportedFeature if the table cannot be renamed, because the store has no folders."""
        if self._store.folders is None:
            raise UnsupportedFeature(
                f"Table {shown(str(name))} cannot be renamed: the store of {self._store.uri('')} has no folders that "
                "move at once. Nothing was changed. Copy the table to the other name, then drop this one."
            )

    def delete_empty_folders(self, folder: str) -> None:
        """Remove empty folders at and below `folder`. Stores without folders have none."""
        if (folders := self._store.folders) is not None:
            folders.delete_empty(folder)

    def _clear_hidden(self, database: str) -> None:
        """Remove the mark of a database and what interrupted calls left: dropped tables, temporary files."""
        folder = _folder(database)
        keys = {found.key.removeprefix(f"{folder}/") for found in self._store.list(folder)}
        left: list[str] = []
        for name in sorted({key.partition("/")[0] for key in keys}):
            own = {key.partition("/")[2] for key in keys if key.partition("/")[0] == name}
            if DROP_MARK in own or (self._store.folders is None and all(map(is_late, own))):
                # Tables have schemas, and the database has no table: these are of verbs that a drop overtook.
                self._drop_rest(TableName(database, name))
            elif name.startswith(_DROPPED_PREFIX):
                left += delete_folder(self._store, f"{folder}/{name}")
            elif name == _DATABASE_MARK or is_temp(name):
                left += self._store.delete([f"{folder}/{name}"])
            elif COPY_MARK not in own and (hints := own & set(MAIN.hints)):
                left += self._store.delete([f"{folder}/{name}/{hint}" for hint in sorted(hints)])
        check_deleted(left)

    @contextmanager
    def _cleared(self, folder: str) -> Iterator[None]:
        """Remove the empty folder if the block fails; otherwise the next attempt would find it."""
        try:
            yield
        except WriteOutcomeUnknown:
            raise
        except StorageUnavailable:
            with suppress(StorageUnavailable):
                self.delete_empty_folders(folder)
            raise


def _folder(database: str) -> str:
    return f"{database}{DATABASE_SUFFIX}"


def _table_folder(name: TableName) -> str:
    return f"{_folder(name.database)}/{name.table}"
