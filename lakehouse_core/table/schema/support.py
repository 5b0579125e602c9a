"""Support: refuse tables with unsupported features, whose reads or writes could be wrong.

Source: docs/semantics/options.md#treatment.
"""

from collections.abc import Collection
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.data_types import TypeRoot, atomic_parts
from lakehouse_core.options import (
    NEXT_BUCKET_OPTION,
    MergeEngine,
    WriteKind,
    about_option,
    check_bounds,
    check_writable,
    check_writable_indexes,
    parse_bool,
)
from lakehouse_core.table.bucketing import moves_keys
from lakehouse_core.table.schema.columns import check_types
from lakehouse_core.table.schema.file_styles import check_file_styles
from lakehouse_core.table.schema.record import TableSchema

# Switches that change what a reader must do; each is refused when it is on.
_READ_SWITCHES: Final = (
    "sequence.snapshot-ordering",
    "pk-clustering-override",
    "data-evolution.enabled",
    "chain-table.enabled",
    "primary-key.nullable",
    "query-auth.enabled",
)
# Settings that move a read to other files or another state; each is refused when it is set.
_READ_SETTINGS: Final = (
    "data-file.external-paths",
    "scan.fallback-branch",
    "scan.primary-branch",
    "scan.bucket",
)


def check_new(schema: TableSchema) -> None:
    """Raise UnsupportedFeature, naming option or column, if a new table has an unsupported feature, InvalidRequest for
    an option out of its bounds.
    """
    check_writable(schema.options, table="", kind=WriteKind.SETTINGS)
    if NEXT_BUCKET_OPTION in schema.options:
        raise InvalidRequest(f"Option {NEXT_BUCKET_OPTION} is set by an alteration of bucket alone: leave it out.")
    # Other engines do not know these options, so an old value out of bounds comes from an older release of this
    # package.
    check_bounds({key: value for key, value in schema.options.items() if key.startswith("lakehouse.")})
    check_writable_indexes(schema.options, about=about_option(""))
    _check_values(schema, "")
    check_moving_keys(schema, table="")
    check_types(schema.fields)
    check_file_styles(schema, table="")


def write_supported(schema: TableSchema, *, table: str = "", kind: WriteKind = WriteKind.ROWS) -> None:
    """Raise UnsupportedFeature if an existing table has a feature that writes of this kind do not support.

    The message names the feature, whether the table can be read here, and the engine that can write it. `table`: the
    start of the message, None if the caller adds the table's name.
    """
    try:
        check_moving_keys(schema, table=table)
        check_writable(schema.options, table=table, kind=kind)
        check_writable_indexes(schema.options, about=about_option(table))
        _check_values(schema, table)
        check_types(schema.fields)
        check_file_styles(schema, table=table)
    except UnsupportedFeature as error:
        raise UnsupportedFeature(f"{error} {_what_reads(schema)}") from error


def check_moving_keys(schema: TableSchema, *, table: str) -> None:
    """Raise UnsupportedFeature for an option that would double keys if keys move between partitions. `table`: as for
    `write_supported`.
    """
    options = schema.table_options
    if not moves_keys(schema.bucketing) or options.merge_engine is not MergeEngine.DEDUPLICATE:
        return
    if options.ignore_delete:
        raise UnsupportedFeature(
            f"{about_option(table)} ignore-delete is true, and keys move between partitions, for the primary key lacks "
            "a partition column: the delete of the old row would be ignored, and the key be there twice. Create "
            "the table without the option, or with the partition columns in its primary key."
        )


def _what_reads(schema: TableSchema) -> str:
    try:
        read_supported(schema)
    except UnsupportedFeature:
        return "It cannot be read here either."
    return "It can be read here."


def read_supported(schema: TableSchema, *, columns: Collection[str] | None = None, table: str = "") -> None:
    """Raise UnsupportedFeature, naming option or column, if a read of `columns` (None: all) could be wrong.

    Some tables that only Java can write can be read here: those with row tracking. File formats are checked for each
    file (`planning/readable`).
    """
    # Raises InvalidRequest for an option whose value has no meaning.
    schema.table_options  # noqa: B018
    for key in _READ_SWITCHES:
        if key in schema.options and parse_bool(key, schema.options[key]):
            raise _unsupported(table, key, schema.options[key])
    for key in _READ_SETTINGS:
        if key in schema.options:
            raise _unsupported(table, key, schema.options[key])
    _check_values(schema, table)
    for field in schema.fields:
        if columns is not None and field.name not in columns:
            continue
        for part in atomic_parts(field.type):
            # A VARIANT may be stored in several columns, a BLOB in separate files.
            if part.root in (TypeRoot.VARIANT, TypeRoot.BLOB):
                subject = f"{table}: column" if table else "Column"
                raise UnsupportedFeature(f"{subject} {field.name} is a {part.root}, which is not supported yet.")


def _check_values(schema: TableSchema, table: str) -> None:
    kind = schema.options.get("type", "table")
    if kind.lower() not in ("table", "materialized-table"):
        raise _unsupported(table, "type", kind)
    if schema.options.get("branch", "main") != "main":
        raise _unsupported(table, "branch", schema.options["branch"])
    for key, value in schema.options.items():
        if key.startswith("fields.") and key.endswith(".storage-layout") and value.lower() != "default":
            raise _unsupported(table, key, value)


def _unsupported(table: str, key: str, value: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{about_option(table)} {key} = {value} is not supported yet: use Java Paimon for this table."
    )
