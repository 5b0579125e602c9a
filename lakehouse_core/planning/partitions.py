"""Partitions as users name them: values by column, for some or all partition keys.

Source: docs/format/buckets.md#partition-directory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_core.errors import InvalidRequest, near_hint, shown
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataField, to_internal
from lakehouse_core.format.partition_path import partition_spec_text
from lakehouse_core.table.predicate import Compare, Comparison, IsNull, Predicate, all_of, bind
from lakehouse_core.table.schema import TableSchema


def partition_values(partition: Mapping[str, Any], schema: TableSchema) -> dict[str, Any]:
    """Return the comparable values of a full or partial partition; None is null.

    Raises InvalidRequest for a column that is not a partition key, and for a value that the column cannot hold.
    """
    if not isinstance(partition, Mapping):
        raise InvalidRequest(f"partition={shown(partition)}: expected a dict from columns to values.")
    return {name: _value(_partition_field(name, schema), value) for name, value in partition.items()}


def partition_texts(partition: Mapping[str, Any], schema: TableSchema) -> dict[str, str]:
    """Return the values as text, as in commits."""
    values = partition_values(partition, schema)
    types = [schema.field(name).type for name in values]
    default = schema.table_options.partition_default_name
    return partition_spec_text(list(values), types, list(values.values()), default_name=default)


def named_values(values: Sequence[Any], schema: TableSchema) -> dict[str, str | None]:
    """Return the values of a stored partition as SQL text, by column name; None is null."""
    types = [field.type for field in schema.partition_fields]
    texts = partition_spec_text(schema.partition_keys, types, values, default_name="")
    return {name: None if value is None else texts[name] for name, value in zip(texts, values, strict=True)}


def partition_name(partition: bytes, schema: TableSchema) -> str:
    """Return a stored partition as text, `dt=2013-01-05, h=7`; its folder name may have a number for the date."""
    types = [field.type for field in schema.partition_fields]
    values = deserialize_row(partition, types)
    texts = partition_spec_text(schema.partition_keys, types, values, default_name="NULL")
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def bucket_name(partition: bytes, bucket: int | None, schema: TableSchema) -> str:
    """Return a bucket of a stored partition as text; `bucket` None: the whole partition."""
    places = [f"partition {partition_name(partition, schema)}"] if schema.partition_keys else []
    if bucket is not None:
        places.append(f"bucket {bucket}")
    return ", ".join(places) or "the table"


def partition_condition(partition: Mapping[str, Any], schema: TableSchema) -> Predicate | None:
    """Return a bound condition that is true for the rows of the partition; None if no partition is named."""
    return condition_of_values(partition_values(partition, schema), schema)


def condition_of_values(values: Mapping[str, Any], schema: TableSchema) -> Predicate | None:
    """Return `partition_condition` for comparable values of partition columns."""
    condition = all_of(
        IsNull(name) if value is None else Compare(name, Comparison.EQUAL, value) for name, value in values.items()
    )
    return None if condition is None else bind(condition, schema.fields)


def _partition_field(name: str, schema: TableSchema) -> DataField:
    if not isinstance(name, str):
        raise InvalidRequest(f"Partition column {shown(name)}: expected the name of a column.")
    if name in schema.partition_keys:
        return schema.field(name)
    if not schema.partition_keys:
        raise InvalidRequest(f"Partition column {shown(name)}: the table is not partitioned. Leave the partition out.")
    keys = schema.partition_keys
    hint = near_hint(name, keys, f"It is partitioned by {', '.join(keys)}.", most=1)
    raise InvalidRequest(f"Partition column {shown(name)}: the table is not partitioned by it. {hint}")


def _value(field: DataField, value: Any) -> Any:
    try:
        return to_internal(value, field.type)
    except InvalidRequest as error:
        raise InvalidRequest(f"Partition {field.name}={shown(value)}: {error}") from error
