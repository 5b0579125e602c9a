"""The SQL tables of a catalog, as Java Paimon 2.0.0 makes them.

Rule: stored in databases that Java opens, too. Never rename a column, never change a key.
Source: docs/format/catalogs.md#jdbc-catalog.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text, text
from sqlalchemy.types import TIMESTAMP

_METADATA: Final = MetaData()


def _key(name: str) -> Column[str]:
    return Column(name, String(255), primary_key=True, nullable=False)


TABLES: Final = Table("paimon_tables", _METADATA, _key("catalog_key"), _key("database_name"), _key("table_name"))
DATABASE_PROPERTIES: Final = Table(
    "paimon_database_properties",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    # A part of the key that Java declares without NOT NULL.
    Column("property_key", String(255), primary_key=True, nullable=True),
    Column("property_value", String(1000)),
)
TABLE_PROPERTIES: Final = Table(
    "paimon_table_properties",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    _key("table_name"),
    _key("property_key"),
    Column("property_value", String(1000)),
)
VIEWS: Final = Table(
    "paimon_views",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    _key("view_name"),
    Column("view_schema", Text, nullable=False),
)
LOCKS: Final = Table(
    "paimon_distributed_locks",
    _METADATA,
    Column("lock_id", String(255), primary_key=True, nullable=False),
    Column("acquired_at", TIMESTAMP, server_default=text("CURRENT_TIMESTAMP"), nullable=False),
    Column("expire_time_seconds", BigInteger, server_default=text("0"), nullable=False),
)
ALL: Final = (TABLES, DATABASE_PROPERTIES, TABLE_PROPERTIES, VIEWS, LOCKS)
LONGEST_VALUE: Final = 1000
