"""Time rules: the rules of a schema for the times of its rows and partitions.

Source: docs/semantics/compaction.md#record-expiry, docs/semantics/maintenance.md#partition-expiry.
"""

import re
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import AtomicType, DataField, TypeRoot, type_to_sql
from lakehouse_core.format.java_time import parse_time_pattern
from lakehouse_core.table.schema.columns import named_column
from lakehouse_core.table.schema.record import TableSchema

_TIME_FIELD: Final = "record-level.time-field"
# The column types of a row's time, by which it expires.
_TIME_ROOTS: Final = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def check_record_expiry(schema: TableSchema) -> None:
    """Rule 17."""
    if schema.table_options.record_expiry is None:
        if (named := schema.options.get(_TIME_FIELD)) is not None:
            _time_field(schema, named)
        return
    if not schema.primary_keys:
        raise InvalidRequest("record-level.expire-time needs a primary key: declare one, or remove the option.")
    time_field(schema)


def check_partition_times(schema: TableSchema) -> None:
    """Raise InvalidRequest unless the pattern names partition columns and the formatter is valid."""
    options = schema.table_options.partition_times
    # Java replaces names by values anywhere in the pattern and passes the rest unchanged to the formatter.
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
    """Return the column with a row's time. Raises InvalidRequest unless the option names a column of a time type."""
    options = schema.table_options.record_expiry
    if options is None or options.time_field is None:
        raise InvalidRequest(f"record-level.expire-time is set and {_TIME_FIELD} is not: name the column of the time.")
    return _time_field(schema, options.time_field)


def _time_field(schema: TableSchema, name: str) -> DataField:
    field = named_column(schema, _TIME_FIELD, name)
    if not isinstance(field.type, AtomicType) or field.type.root not in _TIME_ROOTS:
        raise InvalidRequest(
            f"{_TIME_FIELD} names {field.name}, a {type_to_sql(field.type)}: expected INT or BIGINT, seconds since "
            "1970 (BIGINT also milliseconds), or a timestamp."
        )
    return field
