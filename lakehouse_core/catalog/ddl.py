"""DDL: create and drop databases; create, drop and rename tables."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakehouse_core.api.arguments import mapping_of, texts_of
from lakehouse_core.api.table import Table
from lakehouse_core.api.verb import named
from lakehouse_core.catalog.context import CatalogContext
from lakehouse_core.catalog.metastore import TableName
from lakehouse_core.catalog.names import SYSTEM_DATABASE, check_new_name, check_no_twin, split_name
from lakehouse_core.display import count_text
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.progress import log_outcome
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.schema import ColumnDeclarations, new_schema

# Named for the reader: Spark is loaded only where a value of this type is.
StructType: TypeAlias = Any


def create_database(
    catalog: CatalogContext, name: str, *, properties: Mapping[str, str] | None, exist_ok: bool
) -> None:
    """Create a database; see `Catalog.create_database`."""
    given = texts_of("properties", properties)
    check_new_name(name, "database")
    if name.casefold() == SYSTEM_DATABASE:
        raise InvalidRequest(f"Invalid database name {shown(name)}: reserved for system tables. Choose another name.")
    known = catalog.metastore.databases()
    if name not in known:
        check_no_twin(name, known, "database")
        catalog.metastore.create_database(name, given)
        log_outcome("create_database", name, "created")
    elif not exist_ok:
        raise InvalidRequest(f"Database {shown(name)} exists already. Pass exist_ok=True to accept that.")


def alter_database(catalog: CatalogContext, name: str, properties: Mapping[str, str | None]) -> None:
    """Change properties of a database; see `Catalog.alter_database`."""
    changes = mapping_of("properties", properties)
    given = texts_of("properties", {key: value for key, value in changes.items() if value is not None})
    catalog.check_database(name)
    catalog.metastore.alter_database(name, {**dict.fromkeys(changes), **given})


def drop_database(catalog: CatalogContext, name: str, *, cascade: bool, missing_ok: bool) -> None:
    """Drop a database, with `cascade` also its tables; see `Catalog.drop_database`."""
    if missing_ok and not catalog.has_database(name):
        return
    tables = catalog.tables(name)
    if tables and not cascade:
        raise InvalidRequest(
            f"Database {shown(name)} has {count_text(len(tables), 'table')} ({', '.join(tables[:5])}). "
            "Drop them first, or pass cascade=True."
        )
    with begun(f"Database {shown(name)}: some of its tables may be dropped. Drop the database again."):
        for table in tables:
            drop_table(catalog, f"{name}.{table}", missing_ok=False)
        catalog.metastore.drop_database(name)


def create_table(
    catalog: CatalogContext,
    name: str,
    schema: ColumnDeclarations | StructType,
    *,
    partition_keys: Sequence[str],
    primary_keys: Sequence[str],
    options: Mapping[str, str] | None,
    comment: str | None,
    nullable: bool,
    exist_ok: bool,
) -> Table:
    """Create a table and return it; see `Catalog.create_table`."""
    database, table = split_name(name)
    has_database = catalog.has_database(database)
    known = catalog.metastore.tables(database, like=table) if has_database else []
    if table in known:
        return _existing(catalog, name, exist_ok=exist_ok)
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
            now_millis=catalog.clock.now_millis(),
        )
    # A missing database is told last, so that a user who creates it can create the table then.
    if not has_database:
        raise catalog.no_database(database)
    full_name = TableName(database, table)
    place = catalog.metastore.place(full_name)
    schemas = place.schemas()
    if not catalog.metastore.create_table(full_name, schemas, first, adopt=exist_ok):
        return _existing(catalog, name, exist_ok=exist_ok)
    log_outcome("create_table", name, f"created with {len(first.fields)} columns")
    return catalog.table_at(name, place, schemas)


def drop_table(catalog: CatalogContext, name: str, *, missing_ok: bool) -> None:
    """Drop a table with all its files; see `Catalog.drop_table`."""
    full_name = TableName(*split_name(name))
    if not catalog.metastore.drop_table(full_name, catalog.metastore.place(full_name).schemas()):
        if missing_ok:
            return
        raise catalog.no_table(full_name)
    log_outcome("drop_table", name, "dropped")


def rename_table(catalog: CatalogContext, source: str, target: str) -> Table:
    """Rename a table and return it; see `Catalog.rename_table`."""
    database, table = split_name(target)
    found = catalog.find(source)
    others = [name for name in catalog.tables(database, like=table) if f"{database}.{name}" != source]
    check_new_name(table, "table")
    check_no_twin(table, others, "table")
    # The place is looked up first, because after the move nothing may fail.
    new = TableName(database, table)
    place = catalog.metastore.place(new)
    if not catalog.metastore.rename_table(found.name, new, found.witness):
        raise InvalidRequest(f"Table {shown(target)}: the table or its folder already exists. Choose another name.")
    log_outcome("rename_table", source, f"renamed to {target}")
    return catalog.table_at(target, place, place.schemas())


def _existing(catalog: CatalogContext, name: str, *, exist_ok: bool) -> Table:
    if not exist_ok:
        raise InvalidRequest(f"Table {shown(name)} exists already. Pass exist_ok=True to accept that.")
    return catalog.table(name)


def _declarations(schema: Any) -> ColumnDeclarations:
    if type(schema).__module__.startswith("pyspark.") and type(schema).__name__ == "StructType":
        # A value can be a Spark schema only if Spark is loaded.
        from lakehouse_core.execution.engines.spark.types import fields_from_spark  # noqa: PLC0415

        return fields_from_spark(schema)
    declarations: ColumnDeclarations = schema
    return declarations
