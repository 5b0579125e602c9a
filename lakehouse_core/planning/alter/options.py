"""ALTER TABLE of options: set and remove them, and rename the columns that they name.

Source: docs/semantics/tables.md#schema-changes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options import (
    DYNAMIC_BUCKET,
    KNOWN,
    NEXT_BUCKET_OPTION,
    WriteKind,
    check_known,
    check_writable,
    current_options,
    is_index_option,
    known_key,
    parse_bool,
    parse_names,
    renamed_index_option,
)
from lakehouse_core.table.bucketing import moves_keys, moves_rows
from lakehouse_core.table.merge_spec import REMOVE_ON_SEQUENCE_GROUP
from lakehouse_core.table.schema import TableSchema

# Existing files depend on these options.
IMMUTABLE_OPTIONS: Final = frozenset(
    {
        "bucket-key",
        "bucket-function.type",
        "data-file.path-directory",
        "merge-engine",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "rowkind.field",
        "primary-key.nullable",
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "blob-field",
        "blob-descriptor-field",
        "blob-view-field",
        "pk-clustering-override",
    }
)
# These options decide the names of folders in which files are searched. Java allows a change, and then finds no file.
_FOLDER_OPTIONS: Final = frozenset({"partition.legacy-name", "partition.default-name"})
# Keys are part of the schema itself, and a table does not move.
_NEVER_CHANGEABLE: Final = frozenset({"type", "path", "primary-key", "partition"})
# Rows that the value true dropped are lost: after a change to false they would be missing.
_ONLY_TO_TRUE: Final = frozenset({"ignore-delete", "ignore-update-before"})

# The columns whose changes alone emit no changelog. A name without a column is ignored, so a stale one would go
# unnoticed.
_IGNORED_FIELDS: Final = "changelog-producer.row-deduplicate-ignore-fields"
_COLUMN_LIST_OPTIONS: Final = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    REMOVE_ON_SEQUENCE_GROUP,
    _IGNORED_FIELDS,
)
_COLUMN_LIST_ENDING: Final = ".sequence-group"
# Options of a ROW column that name its nested fields by path. When the field is renamed, Java keeps the option; when a
# column of the same name is renamed, Java renames it in the option. Both break the table.
_NESTED_LIST_ENDINGS: Final = {"nested-key": "element", "nested-sequence-field": "element", "ts-field": "value"}


def set_option(schema: TableSchema, key: str, value: str, *, has_snapshots: bool) -> dict[str, str]:
    """Return the options with `key` set to `value`. Raises InvalidRequest for an unknown option or a forbidden
    change.
    """
    check_known({key: value}, schema.column_names)
    ((key, value),) = current_options({key: value}).items()
    if key == NEXT_BUCKET_OPTION:
        raise InvalidRequest(f"Option {key} is set and unset by an alteration of bucket: set bucket to {value}.")
    if parse_names(value) == {"primary-key": schema.primary_keys, "partition": schema.partition_keys}.get(key):
        return dict(schema.options)
    _check_changeable(schema, key, value, has_snapshots)
    if schema.options.get(key) != value:
        check_writable({key: value}, table="", kind=WriteKind.SETTINGS)
    options = {**schema.options, key: value}
    if key == "bucket":
        # What another alteration has announced does not come any more.
        options.pop(NEXT_BUCKET_OPTION, None)
    return options


def remove_option(schema: TableSchema, key: str, *, has_snapshots: bool) -> dict[str, str]:
    """Return the options without `key`, which then has its default. Raises InvalidRequest as `set_option` does."""
    if key not in schema.options:
        # An unknown name is refused; a known option may be removed also if it is not set.
        if not key.startswith(("fields.", "file-index.")):
            known_key(key)
        return dict(schema.options)
    if key == "bucket" and has_snapshots:
        raise InvalidRequest(
            "Option bucket cannot be removed: it is the number of buckets of the files. Set another number."
        )
    _check_changeable(schema, key, None, has_snapshots)
    # With another bucket, what another alteration has announced does not come any more.
    gone = (key, NEXT_BUCKET_OPTION) if key == "bucket" else (key,)
    return {name: text for name, text in schema.options.items() if name not in gone}


def _check_changeable(schema: TableSchema, key: str, value: str | None, has_snapshots: bool) -> None:
    """Raise InvalidRequest unless the option may change to `value`; None: to its default.

    The present value may be set again, as in Java 2 (1.4 refuses it). An explicit and an implicit default count as the
    same value; Java counts that as a change.
    """
    default = KNOWN[key].default if key in KNOWN else None
    old, new = schema.options.get(key, default), default if value is None else value
    if old == new:
        return
    if key in _NEVER_CHANGEABLE:
        raise InvalidRequest(
            f"Option {key} cannot change after the table was created. Create a table with the other value, and copy "
            "the rows."
        )
    if not has_snapshots:
        if key == "bucket" and moves_keys(schema.bucketing):
            keys, columns = ", ".join(schema.primary_keys), ", ".join(schema.partition_keys)
            raise InvalidRequest(
                f"Option bucket is -1 and cannot become {new}: the primary key ({keys}) lacks a partition column of "
                f"({columns}), and the same key could be in several partitions. Create a table with the partition "
                "columns in its primary key."
            )
        return
    if key in IMMUTABLE_OPTIONS or (key in _FOLDER_OPTIONS and schema.partition_keys):
        raise InvalidRequest(
            f"Option {key} is {old} and the table has data that depends on it: it cannot become {new}. "
            "Create a new table."
        )
    if key == "bucket" and moves_rows(int(old or DYNAMIC_BUCKET), int(new or DYNAMIC_BUCKET)):
        raise InvalidRequest(
            f"Option bucket is {old or DYNAMIC_BUCKET} and cannot become {new or DYNAMIC_BUCKET} once there are rows: "
            "-1 and a number of buckets put them into different buckets. Create a table with the other number and "
            "copy the rows."
        )
    if key == "deletion-vectors.enabled" and not _flag(schema, "deletion-vectors.modifiable"):
        raise InvalidRequest(
            f"Option {key} cannot change once there is data, unless deletion-vectors.modifiable is true. Set that "
            "first, and compact the table in full afterwards."
        )
    if key in _ONLY_TO_TRUE and old is not None and parse_bool(key, old) and not parse_bool(key, new or "false"):
        raise InvalidRequest(
            f"Option {key} is true and may have dropped rows: it cannot become {new}. Create a table without it, and "
            "write the rows anew."
        )


def _flag(schema: TableSchema, key: str) -> bool:
    return parse_bool(key, schema.options.get(key, "false"))


def rename_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options after a column was renamed from `old` to `new`."""
    return dict(_renamed(key, value, old, new) for key, value in options.items())


def drop_in_options(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the options after a column was dropped. Options that need the column stay, and the schema check refuses
    them.
    """
    names = parse_names(options.get(_IGNORED_FIELDS, ""))
    if name not in names:
        return dict(options)
    left = {_IGNORED_FIELDS: ",".join(other for other in names if other != name)}
    return {key: left.get(key, value) for key, value in options.items() if left.get(key, value)}


def _renamed(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    """Return key and value of the option, with the column's new name in both."""
    if key in _COLUMN_LIST_OPTIONS:
        return key, _renamed_in_list(value, old, new)
    if is_index_option(key):
        return renamed_index_option(key, value, old, new)
    if not key.startswith("fields.") or key.count(".") < 2:
        return key, value
    head, middle, ending = key[:7], *key[7:].rsplit(".", 1)
    if middle.startswith(f"{old}."):
        # Suffixes that contain dots, such as `map.…`.
        middle = new + middle[len(old) :]
    names_columns = key.endswith(_COLUMN_LIST_ENDING)
    return (
        head + _renamed_in_list(middle, old, new) + "." + ending,
        _renamed_in_list(value, old, new) if names_columns else value,
    )


def rename_nested_in_options(options: Mapping[str, str], path: Sequence[str], new: str) -> dict[str, str]:
    """Return the options after the nested field at `path` was renamed to `new`."""
    found = dict(options)
    for ending, step in _NESTED_LIST_ENDINGS.items():
        key = f"fields.{path[0]}.{ending}"
        if key in found and tuple(path[1:-1]) == (step,):
            found[key] = _renamed_in_list(found[key], path[-1], new)
    return found


def _renamed_in_list(names: str, old: str, new: str) -> str:
    parts = parse_names(names)
    return ",".join(new if part == old else part for part in parts) if old in parts else names
