"""Schema record: one immutable version of a table's schema.

Rule: a schema file is never changed, but each alteration writes a new one from the latest, so unknown attributes are
kept. Source: docs/format/schema.md#schema-file.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, UnsupportedFeature, near_names, shown
from lakehouse_core.format.data_types import DataField, field_from_json, field_ids, field_to_json
from lakehouse_core.format.strict_json import json_with_checksum, strict_json
from lakehouse_core.options import TableOptions
from lakehouse_core.table.bucketing import Bucketing, bucketing_of

# Stored in every schema file. Readers refuse newer ones.
SCHEMA_VERSION: Final = 3

# Stored in schema files. Other engines ignore it. Never rename.
_BEFORE_KEY: Final = "lakehouseBefore"
_KNOWN_KEYS: Final = frozenset(
    {
        "version",
        "id",
        "fields",
        "highestFieldId",
        "partitionKeys",
        "primaryKeys",
        "options",
        "comment",
        "timeMillis",
        _BEFORE_KEY,
    }
)
_FIELD_KEYS: Final = frozenset({"id", "name", "type", "description", "defaultValue"})
_TYPE_KEYS: Final = frozenset({"type", "element", "key", "value", "fields", "length"})
_MAX_ID: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1

T = TypeVar("T", bound=str | int)


# No slots: the parsed options, the index of names and the columns of keys are kept in the instance.
@dataclass(frozen=True, kw_only=True, repr=False)
class TableSchema:
    """One version of a table's schema. Names of columns are in table order, key names in key order.

    `options`: the stored string map, with the defaults of older file versions filled in; `table_options`: its parsed
    form. `time_before_millis`: the time of the schema with the id before, None if the writer did not tell. `extra`:
    unknown top-level attributes of newer writers, kept unchanged.
    """

    version: int = SCHEMA_VERSION
    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    time_before_millis: int | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Unknown attributes of fields, which an alteration would lose.
    foreign_attributes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        told = {
            "columns": ", ".join(f"{field.name} {field.type}" for field in self.fields),
            "primary_keys": ", ".join(self.primary_keys),
            "partition_keys": ", ".join(self.partition_keys),
            "options": dict(self.options),
        }
        return f"TableSchema({self.id}, {', '.join(f'{name}={value!r}' for name, value in told.items() if value)})"

    @cached_property
    def table_options(self) -> TableOptions:
        """The parsed options. Raises InvalidRequest if the value of a supported option cannot be parsed."""
        return TableOptions.parse(self.options)

    @cached_property
    def bucketing(self) -> Bucketing:
        """The rule that assigns rows to buckets. Raises InvalidRequest for a wrong value of the option `bucket`."""
        options = self.table_options
        return bucketing_of(
            options.bucket,
            options.bucket_function,
            has_key=not self.is_append,
            crosses_partitions=self.is_cross_partition,
        )

    @property
    def bucket_setting(self) -> str:
        """The text of the option `bucket`. Reading it does not parse the other options, which a comparison does not
        need.
        """
        return self.options.get("bucket", "-1")

    @cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {field.name: field for field in self.fields}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def field(self, name: str) -> DataField:
        """Return the column. Raises InvalidRequest naming near matches."""
        if not isinstance(name, str):
            raise InvalidRequest(f"Column {shown(name)}: expected the name of a column.")
        if (found := self._by_name.get(name)) is not None:
            return found
        near = near_names(name, self._by_name)
        hint = f"did you mean {near}?" if near else f"the table has {', '.join(self._by_name)}."
        raise InvalidRequest(f"There is no column {name!r}: {hint}")

    def has_field(self, name: str) -> bool:
        """Return whether there is a column of this name, not of another case."""
        return isinstance(name, str) and name in self._by_name

    @property
    def is_append(self) -> bool:
        """Whether the table has no primary key."""
        return not self.primary_keys

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns: what orders the rows of a bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The columns of the trimmed primary key, under their own names and ids; empty for append tables."""
        return tuple(map(self.field, self.trimmed_primary_keys))

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns in the order of the partition keys."""
        return tuple(map(self.field, self.partition_keys))

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that decide the bucket: the option `bucket-key`, else the trimmed primary key."""
        return self.table_options.bucket_key or self.trimmed_primary_keys

    @cached_property
    def bucket_fields(self) -> tuple[DataField, ...]:
        return tuple(map(self.field, self.bucket_keys))

    @property
    def is_cross_partition(self) -> bool:
        """Whether one key may move between partitions: the primary key lacks a partition column."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)


def parse_schema(data: bytes, key: str) -> TableSchema:
    """Return the schema that the file `key` holds.

    Raises CorruptTable when the file contradicts the format or itself, UnsupportedFeature for newer versions and types.
    """
    document = strict_json(data, key)
    version = _integer(document, "version", key, default=1)
    if version > SCHEMA_VERSION:
        raise UnsupportedFeature(
            f"{key}: its version is {version}, this package reads up to {SCHEMA_VERSION}: upgrade it to read the table."
        )
    try:
        fields = tuple(field_from_json(source) for source in _list(document, "fields", key))
    except InvalidRequest as error:
        raise CorruptTable(f"{key}: {error} Restore the file from a copy of the table.") from error
    except UnsupportedFeature as error:
        raise UnsupportedFeature(f"{key}: {error}") from error
    comment = document.get("comment")
    if comment is not None and not isinstance(comment, str):
        raise _corrupt(key, f"its comment is {comment!r}, expected text")
    schema = TableSchema(
        version=version,
        id=_integer(document, "id", key, high=_MAX_LONG),
        fields=fields,
        highest_field_id=_integer(document, "highestFieldId", key, low=-1),
        partition_keys=_names(document, "partitionKeys", key),
        primary_keys=_names(document, "primaryKeys", key),
        options=_former_defaults(version) | _options(document, key),
        comment=comment,
        time_millis=_integer(document, "timeMillis", key, default=0, low=-_MAX_LONG, high=_MAX_LONG),
        time_before_millis=_time_before(document, key),
        extra={name: value for name, value in document.items() if name not in _KNOWN_KEYS},
        foreign_attributes=tuple(sorted(set(_foreign_attributes(document["fields"])))),
    )
    _check_consistent(schema, key)
    return schema


def serialize_schema(schema: TableSchema) -> bytes:
    """Return the schema file, laid out as Java lays it out; always of the current version."""
    document: dict[str, Any] = {
        "version": SCHEMA_VERSION,
        "id": schema.id,
        "fields": [field_to_json(field) for field in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        document["comment"] = schema.comment
    document["timeMillis"] = schema.time_millis
    if schema.time_before_millis is not None:
        document[_BEFORE_KEY] = {"id": schema.id - 1, "timeMillis": schema.time_before_millis}
    return json_with_checksum({**document, **schema.extra})


def _time_before(document: Mapping[str, Any], key: str) -> int | None:
    before = document.get(_BEFORE_KEY)
    # A writer that does not know the attribute may copy it from the schema before, with an id that is too low then.
    if not isinstance(before, dict) or before.get("id") != _integer(document, "id", key, high=_MAX_LONG) - 1:
        return None
    return _integer(before, "timeMillis", key, low=-_MAX_LONG, high=_MAX_LONG)


def _former_defaults(version: int) -> dict[str, str]:
    """Return the defaults of this file version that have changed since."""
    defaults = {"bucket": "1"} if version == 1 else {}
    return defaults | ({"file.format": "orc"} if version <= 2 else {})


def _check_consistent(schema: TableSchema, key: str) -> None:
    names, ids = [field.name for field in schema.fields], field_ids(schema.fields)
    if (name := _repeated(names)) is not None:
        raise _corrupt(key, f"the column {name!r} occurs more than once")
    if (field_id := _repeated(ids)) is not None:
        raise _corrupt(key, f"the field id {field_id} occurs more than once")
    if ids and not 0 <= min(ids) <= max(ids) <= schema.highest_field_id:
        raise _corrupt(key, f"its field ids go from {min(ids)} to {max(ids)}, highestFieldId {schema.highest_field_id}")
    for what, keys in (("partition", schema.partition_keys), ("primary", schema.primary_keys)):
        for name in keys:
            if name not in names:
                raise _corrupt(key, f"its {what} key {name!r} is not a column")
        if len(set(keys)) < len(keys):
            raise _corrupt(key, f"its {what} keys {', '.join(keys)} repeat a column")
    suffix = re.search(r"schema-(\d+)$", key)
    if suffix is not None and int(suffix[1]) != schema.id:
        raise _corrupt(key, f"its id is {schema.id}, its name says {suffix[1]}")


def _repeated(values: Sequence[T]) -> T | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _foreign_attributes(fields: Iterable[Any]) -> Iterable[str]:
    for source in fields:
        yield from set(source) - _FIELD_KEYS
        yield from _foreign_in_type(source["type"])


def _foreign_in_type(source: Any) -> Iterable[str]:
    if not isinstance(source, dict):
        return
    yield from set(source) - _TYPE_KEYS
    yield from _foreign_attributes(source.get("fields", ()))
    for part in ("element", "key", "value"):
        yield from _foreign_in_type(source.get(part))


def _integer(
    document: Mapping[str, Any], name: str, key: str, *, default: int | None = None, low: int = 0, high: int = _MAX_ID
) -> int:
    value = document.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _corrupt(key, f"its {name} is {value!r}, expected an integer from {low} to {high}")
    return value


def _list(document: Mapping[str, Any], name: str, key: str) -> list[Any]:
    value = document.get(name)
    if not isinstance(value, list):
        raise _corrupt(key, f"its {name} is {value!r}, expected a list")
    return value


def _names(document: Mapping[str, Any], name: str, key: str) -> tuple[str, ...]:
    values = _list(document, name, key)
    if any(not isinstance(value, str) for value in values):
        raise _corrupt(key, f"its {name} is {values!r}, expected a list of names")
    return tuple(values)


def _options(document: Mapping[str, Any], key: str) -> dict[str, str]:
    value = document.get("options")
    if not isinstance(value, dict) or any(not isinstance(item, str) for item in value.values()):
        raise _corrupt(key, f"its options are {value!r}, expected texts by name")
    return value


def _corrupt(key: str, found: str) -> CorruptTable:
    return CorruptTable(f"{key}: {found}. Restore the file from a copy of the table.")
