"""The SQL tables of a catalog, as Java Paimon 2.0.0 makes them.

Rule: stored in databases that Java opens, too. Never rename a column, never change a key.
Source: docs/format/catalogs.md#jdbc-catalog.
"""

from typing import Any, Final

from sqlalchemy import (
    BINARY,
    BigInteger,
    Column,
    ColumnElement,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    and_,
    cast,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TIMESTAMP

from lakehouse_core.catalog.sql.address import MYSQL

_METADATA: Final = MetaData()
# Java leaves the character set to the database. With utf8mb4, the default of MySQL 8, the longest key is too long. With
# a collation that ignores case, names of other case are the same key.
_MYSQL: Final[dict[str, Any]] = {"mysql_charset": "utf8mb3", "mysql_collate": "utf8mb3_bin", "mysql_engine": "InnoDB"}


def _key(name: str) -> Column[str]:
    return Column(name, String(255), primary_key=True, nullable=False)


TABLES: Final = Table(
    "paimon_tables", _METADATA, _key("catalog_key"), _key("database_name"), _key("table_name"), **_MYSQL
)
DATABASE_PROPERTIES: Final = Table(
    "paimon_database_properties",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    # A part of the key that Java declares without NOT NULL.
    Column("property_key", String(255), primary_key=True, nullable=True),
    Column("property_value", String(1000)),
    **_MYSQL,
)
TABLE_PROPERTIES: Final = Table(
    "paimon_table_properties",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    _key("table_name"),
    _key("property_key"),
    Column("property_value", String(1000)),
    **_MYSQL,
)
VIEWS: Final = Table(
    "paimon_views",
    _METADATA,
    _key("catalog_key"),
    _key("database_name"),
    _key("view_name"),
    Column("view_schema", Text, nullable=False),
    **_MYSQL,
)
LOCKS: Final = Table(
    "paimon_distributed_locks",
    _METADATA,
    Column("lock_id", String(255), primary_key=True, nullable=False),
    # Dagster gives each TIMESTAMP of its process six digits in MySQL, but for the dialect's own type. Java gives none.
    Column(
        "acquired_at",
        TIMESTAMP().with_variant(mysql.TIMESTAMP(), "mysql"),
        server_default=text("CURRENT_TIMESTAMP"),
        nullable=False,
    ),
    Column("expire_time_seconds", BigInteger, server_default=text("0"), nullable=False),
    **_MYSQL,
)
ALL: Final = (TABLES, DATABASE_PROPERTIES, TABLE_PROPERTIES, VIEWS, LOCKS)
LONGEST_VALUE: Final = 1000

# Ours alone: the objects that this database decides about. Keys are in ASCII, and ordered by their bytes.
COMMITS: Final = Table(
    "lakehouse_commits",
    _METADATA,
    _key("catalog_key"),
    Column(
        "object_key",
        String(1024)
        .with_variant(String(1024, collation="C"), "postgresql")
        .with_variant(mysql.VARCHAR(1024, charset="ascii", collation="ascii_bin"), "mysql"),
        primary_key=True,
        nullable=False,
    ),
    Column("nonce", String(64), nullable=False),
    Column("is_written", SmallInteger, nullable=False),
    Column("changed_millis", BigInteger, nullable=False),
    Column("content", LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")),
    **_MYSQL,
)


def same(column: Column[str], value: str, dialect: str) -> ColumnElement[bool]:
    """Return the condition that a column has exactly this text.

    In SQL tables that Java made in MySQL, letters may be equal that differ in case or in accents.
    """
    if dialect != MYSQL:
        return column == value
    characters = cast(column, mysql.CHAR(charset="utf8mb4"))
    # The first condition finds the row by its key.
    return and_(column == value, cast(characters, BINARY) == value.encode())
