"""Metastore: where the names of a catalog are kept, where each table lies, and what lets one of its writers win.

Rule: names are checked by the catalog, before it calls the metastore. A table's place is all that its verbs need: the
store, with the credentials to reach it, and the arbiter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lakehouse_core.metadata.arbiter import Arbiter
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True)
class TableName:
    """The two parts of `database.table`."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where a table lies. `store` is rooted at the table and holds the credentials."""

    store: ObjectStore
    arbiter: Arbiter

    def of_table(self) -> ObjectStore:
        """Return the store of the table that is there; where folders move, it never makes the folder anew."""
        return self.store.at("", is_table=True)

    def schemas(self) -> SchemaLog:
        """Return the schema log of the table, which has read nothing yet."""
        return SchemaLog(self.store, MAIN, self.arbiter)


class Metastore(Protocol):
    """The names of databases and tables. Two of them: the folders of the warehouse, and a SQL database."""

    def describe(self) -> Mapping[str, str]:
        """Return what to show of the metastore beside the warehouse, without secrets."""
        ...

    def databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        ...

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a database; a concurrent call may create the same one. Raises UnsupportedFeature for properties."""
        ...

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set properties of a database, all or none; None removes one. Raises as `Catalog.alter_database` does."""
        ...

    def database_properties(self, name: str) -> Mapping[str, str]:
        """Return the properties of an existing database."""
        ...

    def check(self, database: str) -> list[str]:
        """Return a sentence for each table of an existing database that is listed without files, or the other way
        round.
        """
        ...

    def drop_database(self, name: str) -> None:
        """Drop a database that had no tables a moment ago. Raises InvalidRequest if it holds anything else."""
        ...

    def tables(self, database: str, *, like: str | None = None) -> list[str]:
        """Return the names of the tables of an existing database, sorted. `like`: only this one and those that differ
        from it by case alone.
        """
        ...

    def place(self, name: TableName) -> TablePlace:
        """Return where a table of that name lies or would lie, without reading."""
        ...

    def find(self, name: TableName, schemas: SchemaLog) -> str | None:
        """Return the key of the first schema of a table, None if there is no such table.

        `schemas`: the log at the table's place. Raises CorruptTable if the table is listed but has no schema.
        """
        ...

    def hint(self, name: TableName) -> str | None:
        """Return a sentence about a table that `find` does not find although something is left of it."""
        ...

    def check_free(self, name: TableName) -> None:
        """Raise InvalidRequest if no table can be copied to that name, which no table has; remove what an interrupted
        drop left.
        """
        ...

    def adopt(self, name: TableName, schemas: SchemaLog) -> None:
        """List a table whose files are there."""
        ...

    def create_table(self, name: TableName, schemas: SchemaLog, first: TableSchema, *, adopt: bool) -> bool:
        """Create a table with its first schema; return False if the table exists.

        `adopt`: list files of a table of that name that are there but not listed.
        """
        ...

    def drop_table(self, name: TableName, schemas: SchemaLog) -> bool:
        """Drop a table, all or nothing as seen through the catalog; return False if there is no such table."""
        ...

    def rename_table(self, source: TableName, target: TableName, witness: str) -> bool:
        """Rename a table, all or nothing; return False if `target` exists. `witness`: what `find` returned."""
        ...
