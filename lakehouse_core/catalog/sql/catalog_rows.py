"""Rows of a catalog key: what the SQL tables say of databases and tables, and the statements that change it.

Rule: each function is a part of the transaction whose connection it is given; none begins one.
Source: docs/format/catalogs.md#jdbc-catalog.
"""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from lakehouse_core.catalog.metastore import TableName
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.tables import DATABASE_PROPERTIES, LONGEST_VALUE, TABLE_PROPERTIES, TABLES, VIEWS, same
from lakehouse_core.table.schema import TableSchema

# A property of a table that is dropped and whose files are being removed. Other engines do not list the table. Its
# value is the token of the drop, so that one that was overtaken does not take the row of a later table for its own.
DROPPED: Final = "lakehouse.dropped"
LONGEST_NAME: Final = 255


class CatalogRows:
    """The rows of one catalog key in the database."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._key = database.address.catalog_key

    def databases(self, connection: sa.Connection) -> list[str]:
        """Return the databases that have a table, a property or a view, sorted."""
        queries = [
            sa.select(table.c.database_name).distinct().where(self._same(table.c.catalog_key, self._key))
            for table in (TABLES, DATABASE_PROPERTIES, VIEWS)
            if self._database.has(table)
        ]
        return sorted(set(connection.execute(sa.union_all(*queries)).scalars()))

    def names(
        self, connection: sa.Connection, database: str, column: sa.Column[str], *where: sa.ColumnElement[bool]
    ) -> list[str]:
        """Return the values of a column in the rows of a database, sorted."""
        if not self._database.has(column.table):
            return []
        query = sa.select(column).where(*self._in(column.table, database), *where)
        return sorted(connection.execute(query).scalars())

    def database_properties(self, connection: sa.Connection, database: str) -> dict[str, str]:
        columns = DATABASE_PROPERTIES.c
        query = sa.select(columns.property_key, columns.property_value).where(*self._in(DATABASE_PROPERTIES, database))
        return {row[0]: row[1] for row in connection.execute(query)}

    def insert_database(self, connection: sa.Connection, database: str, properties: Mapping[str, str]) -> None:
        """Add properties to a database; the first ones make it."""
        row = {"catalog_key": self._key, "database_name": database}
        connection.execute(
            sa.insert(DATABASE_PROPERTIES),
            [{**row, "property_key": key, "property_value": value} for key, value in properties.items()],
        )

    def change_properties(self, connection: sa.Connection, database: str, properties: Mapping[str, str | None]) -> None:
        """Set properties of a database; None removes one."""
        key = DATABASE_PROPERTIES.c.property_key
        connection.execute(
            sa.delete(DATABASE_PROPERTIES).where(*self._in(DATABASE_PROPERTIES, database), key.in_(properties))
        )
        if given := {key: value for key, value in properties.items() if value is not None}:
            self.insert_database(connection, database, given)

    def delete_database(self, connection: sa.Connection, database: str) -> None:
        connection.execute(sa.delete(DATABASE_PROPERTIES).where(*self._in(DATABASE_PROPERTIES, database)))

    def lock_database(self, connection: sa.Connection, database: str) -> None:
        """Let a concurrent drop of the database wait until the transaction ends, where rows can be locked."""
        query = sa.select(DATABASE_PROPERTIES.c.property_key).where(*self._in(DATABASE_PROPERTIES, database))
        connection.execute(query.with_for_update()).all()

    def has_table(self, connection: sa.Connection, name: TableName) -> bool:
        return connection.execute(sa.select(TABLES).where(*self._of(TABLES, name))).first() is not None

    def has_view(self, connection: sa.Connection, name: TableName) -> bool:
        return name.table in self.names(connection, name.database, VIEWS.c.view_name)

    def dropped(self, connection: sa.Connection, name: TableName) -> str:
        """Return the token of the drop of a table of which files may remain, "" if there is none."""
        columns = TABLE_PROPERTIES.c
        query = sa.select(columns.property_value).where(
            *self._of(TABLE_PROPERTIES, name), columns.property_key == DROPPED
        )
        return str(connection.execute(query).scalar() or "")

    def insert_table(self, connection: sa.Connection, name: TableName, schema: TableSchema) -> None:
        connection.execute(sa.insert(TABLES), self._row(name))
        properties = [
            self._property(name, key, value)
            for key, value in _table_properties(schema).items()
            if len(key) <= LONGEST_NAME and len(value) <= LONGEST_VALUE
        ]
        # Rows of a table that Java dropped in the middle.
        connection.execute(sa.delete(TABLE_PROPERTIES).where(*self._of(TABLE_PROPERTIES, name)))
        if properties:
            connection.execute(sa.insert(TABLE_PROPERTIES), properties)

    def drop_table(self, connection: sa.Connection, name: TableName, token: str) -> str:
        """Say that a table is dropped, by a drop with this token. Return the token of the row: that of an earlier drop
        if there is only its row, "" if no row says that there is or was a table.
        """
        if not connection.execute(sa.delete(TABLES).where(*self._of(TABLES, name))).rowcount:
            return self.dropped(connection, name)
        connection.execute(sa.delete(TABLE_PROPERTIES).where(*self._of(TABLE_PROPERTIES, name)))
        connection.execute(sa.insert(TABLE_PROPERTIES), [self._property(name, DROPPED, token)])
        return token

    def forget_dropped(self, connection: sa.Connection, name: TableName, token: str) -> int:
        """Remove the row of the drop with this token; return the number of removed rows."""
        columns = TABLE_PROPERTIES.c
        is_row = sa.and_(columns.property_key == DROPPED, columns.property_value == token)
        return connection.execute(sa.delete(TABLE_PROPERTIES).where(*self._of(TABLE_PROPERTIES, name), is_row)).rowcount

    def rename_table(self, connection: sa.Connection, source: TableName, target: TableName) -> bool:
        """Give the rows of a table another name; return False if there is no such table."""
        new = {"database_name": target.database, "table_name": target.table}
        connection.execute(sa.update(TABLE_PROPERTIES).where(*self._of(TABLE_PROPERTIES, source)).values(new))
        return connection.execute(sa.update(TABLES).where(*self._of(TABLES, source)).values(new)).rowcount > 0

    def _of(self, table: sa.Table, name: TableName) -> tuple[sa.ColumnElement[bool], ...]:
        return (*self._in(table, name.database), self._same(table.c.table_name, name.table))

    def _in(self, table: Any, database: str) -> tuple[sa.ColumnElement[bool], ...]:
        return (self._same(table.c.catalog_key, self._key), self._same(table.c.database_name, database))

    def _same(self, column: sa.Column[str], value: str) -> sa.ColumnElement[bool]:
        return same(column, value, self._database.address.dialect)

    def _row(self, name: TableName) -> dict[str, str]:
        return {"catalog_key": self._key, "database_name": name.database, "table_name": name.table}

    def _property(self, name: TableName, key: str, value: str) -> dict[str, str]:
        return {**self._row(name), "property_key": key, "property_value": value}


def _table_properties(schema: TableSchema) -> dict[str, str]:
    """Return what Java keeps in rows of a table: its options, and its keys."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
