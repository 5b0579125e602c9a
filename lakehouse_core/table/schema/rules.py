"""What a schema must fulfil, at its creation and after every alteration.

The rules of features that are refused altogether (see `support`) are not repeated here.
Source: docs/semantics/tables.md#constraints; by number.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_parts,
    field_ids,
    nested_fields,
    parse_literal,
    type_to_sql,
)
from lakehouse_core.format.file_index import MOST_BYTES, filter_size, takes
from lakehouse_core.format.java_time import parse_time_pattern
from lakehouse_core.format.stored import LONGEST_NAME_BYTES, check_text, control_character, is_broken
from lakehouse_core.options import (
    DYNAMIC_BUCKET,
    POSTPONE_BUCKET,
    BucketFunction,
    ChangelogProducer,
    IndexKind,
    MergeEngine,
    check_consistent,
    parse_bool,
)
from lakehouse_core.table.layout import TABLE_FOLDERS
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema.record import TableSchema

RESERVED_PREFIX: Final = "_KEY_"
RESERVED_NAMES: Final = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind"})

_VECTORS: Final = "deletion-vectors.enabled"
_DELTA_COMMITS: Final = "full-compaction.delta-commits"
_TIME_FIELD: Final = "record-level.time-field"
# A schema is read with every snapshot, and Parquet keeps a footer entry for each column and row group.
_MOST_FIELDS: Final = 10_000

# Their values may lie in several columns or in other files.
_UNSUPPORTED_ROOTS: Final = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})
# What a row's time may be, by which it expires.
_TIME_ROOTS: Final = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def check_schema(schema: TableSchema) -> None:
    """Raise InvalidRequest for what no table may be, UnsupportedFeature for types that files here cannot hold."""
    check_columns(schema.fields)
    check_types(schema.fields)
    check_consistent(schema.options, schema.column_names)
    _check_keys(schema)
    _check_buckets(schema)
    _check_sequence(schema)
    _check_rowkind_and_changelog(schema)
    _check_merging(schema)
    _check_record_expiry(schema)
    _check_partition_times(schema)
    _check_defaults(schema)
    _check_file_indexes(schema)
    _check_data_folder(schema)


def check_columns(fields: Sequence[DataField]) -> None:
    """Check that there are columns and that each can be named so (rule 15), nested fields included."""
    if not fields:
        raise InvalidRequest("A table needs at least one column.")
    _check_names([field.name for field in fields], "The table")
    for field in fields:
        if field.name in RESERVED_NAMES or field.name.startswith(RESERVED_PREFIX):
            raise InvalidRequest(
                f"Column {shown(field.name)}: the name is reserved, as are {', '.join(sorted(RESERVED_NAMES))} and "
                "every "
                f"name that starts with {RESERVED_PREFIX}. Choose another."
            )
        _check_nested(field.type, field.name)


def _check_names(names: Sequence[str], owner: str) -> None:
    for name, count in Counter(names).items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidRequest(
                f"{owner} has a column named {shown(name)}: a name needs a character that is not blank."
            )
        if count > 1:
            raise InvalidRequest(f"{owner} has {count} columns named {shown(name)}: names must differ.")
        if is_broken(name):
            raise InvalidRequest(
                f"{owner} has a column named {shown(name)}, which is not valid Unicode: choose another."
            )


def check_new_fields(fields: Iterable[DataField]) -> None:
    """Refuse new columns whose names or descriptions, nested ones too, no file or message can carry.

    Tables of other engines that have them are read and altered as they are.
    """
    for field in fields:
        check_new_name(field.name)
        for what, text in (("comment", field.description), ("default", field.default_value)):
            if text is not None:
                check_text(f"The {what} of column {shown(field.name)}", text)
        check_new_fields(nested_fields(field.type))


def check_new_name(name: str) -> None:
    """Refuse the name of a new column that breaks a line, is no Unicode or does not fit the name of a folder."""
    check_text("The name of a column", name, longest=LONGEST_NAME_BYTES)
    if (character := control_character(name)) is not None:
        raise InvalidRequest(
            f"Column {shown(name)}: the control character {shown(character)} is not allowed in a name. Choose another."
        )


def check_count(fields: Sequence[DataField]) -> None:
    """Refuse more columns than a table may get, nested fields included."""
    if (count := len(field_ids(fields))) > _MOST_FIELDS:
        raise InvalidRequest(
            f"The table would have {count} columns, nested fields included: at most {_MOST_FIELDS} are allowed. "
            "Put them into several tables, or into a MAP."
        )


def check_no_twin(name: str, others: Iterable[str]) -> None:
    """Refuse a new column that differs from another only by case: Spark takes the two for one and reads neither.

    Tables of other engines that have such columns are read and altered as they are.
    """
    for other in others:
        if other != name and other.casefold() == name.casefold():
            raise InvalidRequest(
                f"Column {shown(name)} differs from column {shown(other)} only by case. Choose another name."
            )


def _check_nested(data_type: DataType, path: str) -> None:
    match data_type:
        case AtomicType():
            pass
        case ArrayType(element) | MultisetType(element):
            _check_nested(element, path)
        case MapType(key, value):
            _check_nested(key, path)
            _check_nested(value, path)
        case RowType(fields):
            if not fields:
                raise InvalidRequest(f"Column {path}: a ROW needs at least one field; Parquet holds no empty ones.")
            _check_names([field.name for field in fields], f"Column {path}")
            for field in fields:
                _check_nested(field.type, f"{path}.{field.name}")


def check_types(fields: Sequence[DataField]) -> None:
    """Raise UnsupportedFeature naming the first column whose type no data file here can hold for Java to read."""
    for field in fields:
        for part in atomic_parts(field.type):
            if part.root in _UNSUPPORTED_ROOTS:
                raise UnsupportedFeature(
                    f"Column {field.name}: the type {part.root} is not supported yet. Declare another."
                )


def _check_keys(schema: TableSchema) -> None:
    """Rule 1, and that key columns exist once."""
    for what, names in (("primary", schema.primary_keys), ("partition", schema.partition_keys)):
        for name, count in Counter(names).items():
            if not schema.has_field(name):
                raise InvalidRequest(
                    f"The {what} key names column {shown(name)}, which the table does not have: "
                    f"take some of {', '.join(schema.column_names)}."
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
            f"The primary key ({', '.join(schema.primary_keys)}) has partition columns only, so that a partition could "
            "hold one row: add the column that tells rows of a partition apart."
        )
    if schema.table_options.partition_legacy_name:
        for field in schema.partition_fields:
            if isinstance(field.type, AtomicType) and field.type.root in BINARY_ROOTS:
                raise InvalidRequest(
                    f"Column {field.name} is {type_to_sql(field.type)} and a partition key: its folder would have no "
                    "stable name. Use a string, or set partition.legacy-name to false."
                )


def _check_buckets(schema: TableSchema) -> None:
    """Rules 3 to 6, and what the bucket function takes."""
    options, explicit = schema.table_options, schema.table_options.bucket_key
    if options.bucket == DYNAMIC_BUCKET:
        if explicit:
            raise InvalidRequest(
                f"bucket-key is {','.join(explicit)}, and bucket is -1, which needs none: set bucket to 1 or more, or "
                "remove bucket-key."
            )
        return
    if options.bucket < 1 and not (options.bucket == POSTPONE_BUCKET and schema.primary_keys):
        raise InvalidRequest(f"Option bucket is {options.bucket}: expected 1 or more, or -1.")
    if not schema.bucket_keys:
        raise InvalidRequest(
            f"Option bucket is {options.bucket} on a table without primary key: set bucket-key, or bucket to -1."
        )
    if len(set(explicit)) < len(explicit):
        raise InvalidRequest(f"bucket-key is {','.join(explicit)}: a column occurs more than once.")
    for field in (_named(schema, "bucket-key", name) for name in schema.bucket_keys):
        if field.name in schema.partition_keys:
            raise InvalidRequest(
                f"bucket-key names {field.name}, a partition column: it says nothing inside a partition."
            )
        if schema.primary_keys and field.name not in schema.primary_keys:
            raise InvalidRequest(
                f"bucket-key names {field.name}, which is not in the primary key ({', '.join(schema.primary_keys)}): "
                "versions of one row would lie in different buckets. Take columns of "
                "the primary key."
            )
        if not isinstance(field.type, AtomicType):
            raise InvalidRequest(
                f"bucket-key names {field.name}, a {type_to_sql(field.type)}: only types without parts."
            )
    _check_bucket_function(schema)


def _check_bucket_function(schema: TableSchema) -> None:
    function, fields = schema.table_options.bucket_function, schema.bucket_fields
    roots = [field.type.root for field in fields if isinstance(field.type, AtomicType)]
    if function is BucketFunction.MOD and (len(roots) != 1 or roots[0] not in (TypeRoot.INT, TypeRoot.BIGINT)):
        raise InvalidRequest(
            f"bucket-function.type is mod, which takes one INT or BIGINT column; the bucket key is "
            f"({', '.join(f'{field.name} {type_to_sql(field.type)}' for field in fields)})."
        )
    if function is BucketFunction.HIVE and {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ} & set(roots):
        raise InvalidRequest("bucket-function.type is hive, which takes no timestamps: use default.")


def _check_sequence(schema: TableSchema) -> None:
    """Rule 9."""
    names = schema.table_options.sequence_fields
    if not names:
        return
    if not schema.primary_keys:
        raise InvalidRequest("sequence.field orders the versions of one key: the table needs a primary key.")
    if schema.is_cross_partition:
        raise InvalidRequest(
            "sequence.field needs all partition columns in the primary key: otherwise a key moves between partitions."
        )
    for name, count in Counter(names).items():
        field = _named(schema, "sequence.field", name)
        if count > 1:
            raise InvalidRequest(f"sequence.field names {name} {count} times: once is enough.")
        if not isinstance(field.type, AtomicType):
            raise InvalidRequest(f"sequence.field names {name}, a {type_to_sql(field.type)}, which has no order.")
        if f"fields.{name}.aggregate-function" in schema.options:
            raise InvalidRequest(f"Column {name} is a sequence.field: it takes no aggregate-function.")


def _check_rowkind_and_changelog(schema: TableSchema) -> None:
    """Rules 3, 11, 13 and 19."""
    options = schema.table_options
    if options.rowkind_field is not None:
        field = _named(schema, "rowkind.field", options.rowkind_field)
        if not isinstance(field.type, AtomicType) or field.type.root not in STRING_ROOTS:
            raise InvalidRequest(f"rowkind.field names {field.name}, a {type_to_sql(field.type)}: it must be a STRING.")
    if options.changelog_producer is not ChangelogProducer.NONE and not schema.primary_keys:
        raise InvalidRequest(
            f"changelog-producer is {options.changelog_producer}: only a table with a primary key has a changelog. "
            "Declare one, or remove the option."
        )
    if _DELTA_COMMITS in schema.options:
        if options.changelog_producer is ChangelogProducer.LOOKUP:
            raise InvalidRequest(
                f"changelog-producer is lookup and {_DELTA_COMMITS} is set, which Java Paimon 2 refuses to open: "
                "remove one of the two, or take the producer full-compaction."
            )
        if schema.is_append and options.bucket == DYNAMIC_BUCKET:
            raise InvalidRequest(
                f"{_DELTA_COMMITS} is set for an append table without buckets, whose writes compact nothing: remove it."
            )


def _check_merging(schema: TableSchema) -> None:
    """Rules 8 to 10, 18 and 20, for tables with a primary key; others merge nothing."""
    if not schema.primary_keys:
        return
    options = schema.table_options
    has_vectors = parse_bool(_VECTORS, schema.options.get(_VECTORS, "false"))
    if options.merge_engine is MergeEngine.FIRST_ROW:
        if options.sequence_fields:
            raise InvalidRequest(
                "merge-engine is first-row, which keeps the record that came first: it takes no sequence.field."
            )
        if options.changelog_producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
            raise InvalidRequest(
                f"changelog-producer is {options.changelog_producer} and merge-engine first-row: take none or lookup."
            )
        if has_vectors:
            raise InvalidRequest(f"merge-engine is first-row, which deletes nothing: {_VECTORS} cannot be true.")
    if has_vectors and options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        raise InvalidRequest(
            f"changelog-producer is full-compaction and {_VECTORS} is true: take none, input or lookup."
        )
    merge_spec(schema)


def _check_record_expiry(schema: TableSchema) -> None:
    """Rule 17."""
    if schema.table_options.record_expiry is None:
        if (named := schema.options.get(_TIME_FIELD)) is not None:
            _time_field(schema, named)
        return
    if not schema.primary_keys:
        raise InvalidRequest("record-level.expire-time is for tables with a primary key: declare one, or remove it.")
    time_field(schema)


def _check_partition_times(schema: TableSchema) -> None:
    options = schema.table_options.partition_times
    # Java puts values into the places of names wherever they stand and leaves the rest as it is, for the formatter.
    longest_first = sorted(schema.partition_keys, key=len, reverse=True)
    left = re.sub("|".join(re.escape(f"${name}") for name in longest_first) or "(?!)", "", options.pattern or "")
    unknown = re.search(r"\$\w+", left)
    if unknown and unknown[0] not in (options.formatter or ""):
        names = ", ".join(f"${name}" for name in schema.partition_keys) or "no columns"
        raise InvalidRequest(
            f"Option partition.timestamp-pattern is {shown(options.pattern)}: {unknown[0]} names no partition "
            "column; the "
            f"table is partitioned by {names}."
        )
    formatter = options.formatter
    if formatter is None:
        return
    try:
        parse_time_pattern(formatter)
    except InvalidRequest as error:
        raise InvalidRequest(f"Option partition.timestamp-formatter: {error}") from error


def time_field(schema: TableSchema) -> DataField:
    """Return the column that says how old a row is. Raises InvalidRequest unless there is one that holds a time."""
    options = schema.table_options.record_expiry
    if options is None or options.time_field is None:
        raise InvalidRequest(f"record-level.expire-time is set and {_TIME_FIELD} is not: name the column of the time.")
    return _time_field(schema, options.time_field)


def _time_field(schema: TableSchema, name: str) -> DataField:
    field = _named(schema, _TIME_FIELD, name)
    if not isinstance(field.type, AtomicType) or field.type.root not in _TIME_ROOTS:
        raise InvalidRequest(
            f"{_TIME_FIELD} names {field.name}, a {type_to_sql(field.type)}: expected INT or BIGINT, seconds since "
            "1970 (BIGINT also milliseconds), or a timestamp."
        )
    return field


def _named(schema: TableSchema, option: str, name: str) -> DataField:
    if not schema.has_field(name):
        raise InvalidRequest(
            f"{option} names {shown(name)}, which is no column: the table has {', '.join(schema.column_names)}."
        )
    return schema.field(name)


def _check_defaults(schema: TableSchema) -> None:
    """Rule 28."""
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
    """Rule 24."""
    for one in schema.table_options.indexed_columns:
        option = f"file-index.{one.kind}.columns"
        name, bracket, _ = one.column.partition("[")
        field = _named(schema, option, name if bracket else one.column)
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
    """Refuse a folder for data files that leaves the table's, that listings pass over, or that holds other files."""
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
    # Some file systems take names for the same that differ by case only.
    if parts[0].casefold() in TABLE_FOLDERS:
        raise InvalidRequest(
            f"Option {option} is {shown(folder)}: the folder {shown(parts[0])} holds other files of the table. "
            "Choose another name, such as data."
        )


def _is_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS
