"""Schema rules, checked at creation and after every alteration.

`support` refuses unsupported features, so their rules are not checked here.
Source: docs/semantics/tables.md#constraints; functions name the rules by number.
"""

from collections import Counter

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    AtomicType,
    DataType,
    MapType,
    parse_literal,
    type_to_sql,
)
from lakehouse_core.format.file_index import MOST_BYTES, filter_size, takes
from lakehouse_core.format.stored import LONGEST_NAME_BYTES
from lakehouse_core.options import IndexKind, check_consistent
from lakehouse_core.table.layout import TABLE_FOLDERS
from lakehouse_core.table.schema.bucket_rules import check_buckets
from lakehouse_core.table.schema.columns import check_columns, check_types, named_column
from lakehouse_core.table.schema.merge_rules import check_merging, check_rowkind_and_changelog, check_sequence
from lakehouse_core.table.schema.record import TableSchema
from lakehouse_core.table.schema.time_rules import check_partition_times, check_record_expiry


def check_schema(schema: TableSchema) -> None:
    """Raise InvalidRequest if the schema breaks a rule, UnsupportedFeature for types that our data files cannot
    hold.
    """
    check_columns(schema.fields)
    check_types(schema.fields)
    check_consistent(schema.options, schema.column_names)
    _check_keys(schema)
    check_buckets(schema)
    check_sequence(schema)
    check_rowkind_and_changelog(schema)
    check_merging(schema)
    check_record_expiry(schema)
    check_partition_times(schema)
    _check_defaults(schema)
    _check_file_indexes(schema)
    _check_data_folder(schema)


def _check_keys(schema: TableSchema) -> None:
    """Check rule 1, and that each key column exists and is named once."""
    for what, names in (("primary", schema.primary_keys), ("partition", schema.partition_keys)):
        for name, count in Counter(names).items():
            if not schema.has_field(name):
                raise InvalidRequest(
                    f"The {what} key names column {shown(name)}, which the table does not have: "
                    f"choose among {', '.join(schema.column_names)}."
                )
            field = schema.field(name)
            if count > 1:
                raise InvalidRequest(f"The {what} key names column {shown(name)} {count} times: once is enough.")
            if not isinstance(field.type, AtomicType):
                raise InvalidRequest(
                    f"Column {name} is {type_to_sql(field.type)}, which cannot be part of the {what} key: "
                    "only types without parts can."
                )
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidRequest(
            f"The primary key ({', '.join(schema.primary_keys)}) has partition columns only, so a partition could "
            "hold only one row: add the column that distinguishes rows of a partition."
        )
    if schema.table_options.partition_legacy_name:
        for field in schema.partition_fields:
            if isinstance(field.type, AtomicType) and field.type.root in BINARY_ROOTS:
                raise InvalidRequest(
                    f"Column {field.name} is {type_to_sql(field.type)} and a partition key: its folder would have no "
                    "stable name. Use a string, or set partition.legacy-name to false."
                )


def _check_defaults(schema: TableSchema) -> None:
    """Rule 24."""
    for field in schema.fields:
        if field.default_value is None:
            continue
        if not isinstance(field.type, AtomicType):
            raise UnsupportedFeature(
                f"Column {field.name}: a default of {type_to_sql(field.type)} is not supported yet."
            )
        try:
            parse_literal(field.default_value, field.type)
        except InvalidRequest as error:
            raise InvalidRequest(f"Column {field.name}, its default: {error}") from error


def _check_file_indexes(schema: TableSchema) -> None:
    """Rule 23."""
    for one in schema.table_options.indexed_columns:
        option = f"file-index.{one.kind}.columns"
        name, bracket, _ = one.column.partition("[")
        field = named_column(schema, option, name if bracket else one.column)
        if bracket:
            if not isinstance(field.type, MapType) or not _is_text(field.type.key):
                raise InvalidRequest(
                    f"{option} names {one.column}, and {name} is {type_to_sql(field.type)}: only a MAP with keys of "
                    "STRING has values to index by a key."
                )
        elif not takes(one.kind, field.type):
            raise InvalidRequest(
                f"{option} names {field.name}, a {type_to_sql(field.type)}, which a {one.kind} index cannot hold: "
                "leave it out, or take another kind of index."
            )
        if one.kind is IndexKind.BLOOM_FILTER:
            size_bytes, _ = filter_size(one.items, one.false_positive_rate)
            if size_bytes > MOST_BYTES:
                raise InvalidRequest(
                    f"The bloom filter of {one.column} would have {size_bytes} bytes, at most {MOST_BYTES} can be: set "
                    f"file-index.{one.kind}.{one.column}.items lower than {one.items}, or .fpp higher than "
                    f"{one.false_positive_rate}."
                )


def _check_data_folder(schema: TableSchema) -> None:
    """Raise InvalidRequest for a data folder that is outside the table's, that listings skip, or that holds other
    files.
    """
    option, folder = "data-file.path-directory", schema.table_options.data_file_directory
    if folder is None:
        return
    parts = folder.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidRequest(f"Option {option} is {shown(folder)}: expected a folder below the table's.")
    if not folder.isprintable() or "\\" in folder or any(part.startswith((".", "_")) for part in parts):
        raise InvalidRequest(f"Option {option} is {shown(folder)}: expected plain, visible names of folders.")
    if any(len(part.encode()) > LONGEST_NAME_BYTES for part in parts):
        raise InvalidRequest(f"Option {option} is {shown(folder)}: a name has {LONGEST_NAME_BYTES} bytes at most.")
    # On some file systems, names that differ only by case are the same.
    if parts[0].casefold() in TABLE_FOLDERS:
        raise InvalidRequest(
            f"Option {option} is {shown(folder)}: the folder {shown(parts[0])} holds other files of the table. "
            "Choose another name, such as data."
        )


def _is_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS
