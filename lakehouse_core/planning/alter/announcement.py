"""Announcement: the schema which tells that `bucket` is about to become a number, so that no more rows come to wait.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from dataclasses import replace

from lakehouse_core.options import NEXT_BUCKET_OPTION
from lakehouse_core.table.schema import TableSchema, write_supported


def announcing(schema: TableSchema, bucket: str, *, now_millis: int) -> TableSchema:
    """Return the next version of the schema, which announces a value of `bucket`. Raises UnsupportedFeature."""
    options = {**schema.options, NEXT_BUCKET_OPTION: bucket}
    announced = replace(schema, id=schema.id + 1, time_millis=now_millis, options=options)
    write_supported(announced)
    return announced


def is_announcement(schema: TableSchema) -> bool:
    """Return whether the schema announces a value of `bucket`."""
    return NEXT_BUCKET_OPTION in schema.options


def taken_back(schema: TableSchema, *, now_millis: int) -> TableSchema | None:
    """Return the next version of the schema, which announces nothing; None if this one announces nothing."""
    if not is_announcement(schema):
        return None
    options = {key: value for key, value in schema.options.items() if key != NEXT_BUCKET_OPTION}
    return replace(schema, id=schema.id + 1, time_millis=now_millis, options=options)
