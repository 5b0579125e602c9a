"""Marks of done partitions: the file `_SUCCESS` in the folder of a partition, as Java writes it.

Source: docs/semantics/maintenance.md#marking-partitions-done.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from lakehouse_core.errors import UnsupportedFeature, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.partition_path import partition_path
from lakehouse_core.metadata.success_file import write_success_file
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.schema import TableSchema

_SUCCESS_FILE: Final = "success-file"


def mark_done(table: TableContext, schema: TableSchema, partitions: Iterable[Sequence[Any]]) -> None:
    """Write the marks of partitions, given by their comparable values. A mark that is there keeps its creation time.

    Raises UnsupportedFeature for another action than the file, WriteOutcomeUnknown.
    """
    actions = schema.table_options.partition_times.done_actions
    if actions != (_SUCCESS_FILE,):
        raise UnsupportedFeature(
            f"Option partition.mark-done-action is {shown(','.join(actions))}: only {_SUCCESS_FILE} is carried out. "
            "Set it, or have the engine that set the option mark the partitions."
        )
    now_millis = table.clock.now_millis()
    with begun("Some of the partitions may be marked. Mark them again."):
        for key in [_key(schema, values) for values in partitions]:
            write_success_file(table.store, key, now_millis)


def _key(schema: TableSchema, values: Sequence[Any]) -> str:
    options = schema.table_options
    path = partition_path(
        schema.partition_keys,
        [field.type for field in schema.partition_fields],
        values,
        default_name=options.partition_default_name,
        legacy=options.partition_legacy_name,
    )
    return f"{path}_SUCCESS"
