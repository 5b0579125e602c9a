"""Context of a catalog, as its verbs work on it: the warehouse, the metastore, the clock and the engine of its tables.

Rule: a name is checked before the metastore is asked, and a missing one is answered with near names.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lakehouse_core.api.table import Table
from lakehouse_core.api.table_branches import branch as branch_of
from lakehouse_core.catalog.metastore import Metastore, TableName, TablePlace
from lakehouse_core.catalog.names import check_part, level_hint, near, split_branch_name, split_name
from lakehouse_core.clock import Clock
from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, shown
from lakehouse_core.execution.context import TableContext, table_context
from lakehouse_core.execution.engine import Engine
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.storage import ObjectStore

# What stands for other characters in a name.
_PATTERN: Final = frozenset("*?[")
# A table takes 20 KB with 5 manifests, 200 KB with 200 of one file each, at most some 20 MB.
_REMEMBERED_TABLES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table that exists. `witness`: the key of its first schema."""

    name: TableName
    place: TablePlace
    schemas: SchemaLog
    witness: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogContext:
    """One catalog. `store` is rooted at the warehouse; `engine` makes the engine at the first task; `opened`: tables
    that were read.
    """

    store: ObjectStore
    clock: Clock
    engine: Callable[[], Engine]
    metastore: Metastore
    opened: Recent[TableContext] = field(default_factory=lambda: Recent(_REMEMBERED_TABLES))

    @property
    def uri(self) -> str:
        """The address of the warehouse."""
        return self.store.uri("")

    def has_database(self, name: str) -> bool:
        """Return whether a database exists. Raises InvalidRequest for a name that none can have."""
        check_part(name, "database")
        return name in self.metastore.databases()

    def check_database(self, name: str) -> None:
        """Raise NotFound, naming near matches, if a database does not exist."""
        if not self.has_database(name):
            raise self.no_database(name)

    def tables(self, database: str, *, like: str | None = None) -> list[str]:
        """Return the sorted names of the tables of a database; with `like`, only those equal to it but for case.

        Raises NotFound.
        """
        check_part(database, "database")
        if self.store.folders is not None:
            # On a disk the folder may be a link that leaves the warehouse, and no database.
            self.check_database(database)
            return self.metastore.tables(database, like=like)
        found = self.metastore.tables(database, like=like)
        if not found:
            self.check_database(database)
        return found

    def find(self, name: str) -> FoundTable:
        """Return where `database.table` lies. Raises NotFound, CorruptTable for a listed table without a schema."""
        full_name = TableName(*split_name(name))
        place = self.metastore.place(full_name)
        schemas = place.schemas()
        witness = self.metastore.find(full_name, schemas)
        if witness is None:
            raise self.no_table(full_name)
        return FoundTable(name=full_name, place=place, schemas=schemas, witness=witness)

    def table(self, name: str) -> Table:
        """Open `database.table` or `database.table$branch_name`. Raises as `find` does."""
        base, branch = split_branch_name(name)
        found = self.find(base)
        table = self.table_at(base, found.place, found.schemas)
        return table if branch is None else table.branch(branch)

    def table_at(self, name: str, place: TablePlace, schemas: SchemaLog) -> Table:
        """Return a table that is known to exist."""
        store = place.of_table()
        return Table(
            name, store, schemas=schemas.over(store), engine=self.engine, clock=self.clock, arbiter=place.arbiter
        )

    def table_context(self, name: str) -> TableContext:
        """Return `database.table` as the verbs of tables work on it. Raises as `find` does."""
        base, branch = split_branch_name(name)
        table = self._opened(base, self.find(base))
        return table if branch is None else branch_of(table, branch)

    def opened_table(self, name: str) -> TableContext:
        """Return `table_context`, for reads only: that of an earlier call, which knows the metadata that it read,
        if the table is still the same one. Raises as `find` does.
        """
        base, branch = split_branch_name(name)
        if branch is not None:
            return self.table_context(name)
        found = self.find(base)
        key = base, found.place.store.spec
        known = self.opened.get(key)
        if known is None or not _is_same(known):
            known = self._opened(base, found)
            self.opened.put(key, known)
        return known

    def _opened(self, name: str, found: FoundTable) -> TableContext:
        place, store = found.place, found.place.of_table()
        return table_context(name, store, self.clock, self.engine, found.schemas.over(store), arbiter=place.arbiter)

    def no_table(self, name: TableName) -> NotFound:
        """Return the error for a table that does not exist: what is missing, and near names."""
        full = shown(str(name))
        if not _PATTERN.isdisjoint(str(name)):
            return NotFound(
                f"Table {full} does not exist. For many tables loop over matching({full}), which gives their names; "
                "compact takes the pattern itself."
            )
        if not self.has_database(name.database):
            return self.no_database(name.database)
        advice = self.metastore.hint(name) or near(name.table, self.metastore.tables(name.database))
        return NotFound(f"Table {full} does not exist. {advice}")

    def no_database(self, name: str) -> NotFound:
        known = self.metastore.databases()
        advice = near(name, known) if known else f"It has no databases.{level_hint(self.uri)}"
        return NotFound(f"Database {shown(name)} does not exist in {self.uri}. {advice}")


def _is_same(table: TableContext) -> bool:
    """Return whether a table was neither dropped nor created again since it was opened."""
    try:
        table.schemas.latest()
    except (NotFound, InvalidRequest, CorruptTable):
        return False
    return True
