"""Methods: how a row change is carried out in a table of a given kind, and which row changes a table refuses.

Rule: a change whose rows would have no effect in the table is refused, never written.
Source: docs/semantics/row-changes.md#methods.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.row_changes.statements import Delete, Replacement, Statement
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.predicate import Predicate, without_columns
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.waiting_files import waiting_rows


class Method(StrEnum):
    """How a row change is carried out.

    RECORDS: new records with row kinds, in a key table. MARKS: deletion vectors, and new rows, in an append table.
    FILES: the touched files of an append table are rewritten. BUCKETS: the touched buckets of a key table are merged
    and rewritten. PARTITIONS: all files of some partitions are removed, without reading one.
    """

    RECORDS = "records"
    MARKS = "marks"
    FILES = "files"
    BUCKETS = "buckets"
    PARTITIONS = "partitions"

    @property
    def commits_deletes(self) -> bool:
        """Whether the commit removes data files, so that it needs their statistics."""
        return self in (Method.FILES, Method.BUCKETS, Method.PARTITIONS)


def delete_method(schema: TableSchema, statement: Delete) -> Method:
    """Return how the rows of a DELETE are deleted. Raises UnsupportedFeature as `merge_spec` does."""
    forces_changelog = schema.table_options.delete_forces_changelog and not statement.drops_partitions
    if without_columns(statement.condition, schema.partition_keys) is not None:
        return _row_delete_method(schema)
    # Only records are told to readers of changes.
    if forces_changelog and not schema.is_append and _row_delete_method(schema) is Method.RECORDS:
        return Method.RECORDS
    return Method.PARTITIONS


def _row_delete_method(schema: TableSchema) -> Method:
    options = schema.table_options
    if schema.is_append:
        return _append_method(schema)
    match options.merge_engine:
        case MergeEngine.DEDUPLICATE:
            takes_deletes = True
        case MergeEngine.PARTIAL_UPDATE | MergeEngine.AGGREGATION:
            takes_deletes = merge_spec(schema).removes_on_delete
        case MergeEngine.FIRST_ROW:
            takes_deletes = False
        case _:
            assert_never(options.merge_engine)
    return Method.RECORDS if takes_deletes and not options.ignore_delete else Method.BUCKETS


def update_method(schema: TableSchema, assigned: Collection[str]) -> Method:
    """Return how the columns `assigned` are changed.

    Raises InvalidRequest for columns of the primary key, UnsupportedFeature for merge engines that combine the new row
    with the old one.
    """
    if schema.is_append:
        return _append_method(schema)
    if keys := [name for name in schema.primary_keys if name in assigned]:
        raise InvalidRequest(
            f"Column {shown(keys[0])} is part of the primary key, which cannot be updated. Delete the rows, and write "
            "them with the new key."
        )
    if moved := partition_columns(schema, assigned):
        raise UnsupportedFeature(
            f"Column {shown(moved[0])} is a partition column, and an update leaves a row in its partition. "
            f"{how_to_move(schema)}"
        )
    engine = schema.table_options.merge_engine
    match engine:
        case MergeEngine.DEDUPLICATE:
            return Method.RECORDS
        case MergeEngine.PARTIAL_UPDATE:
            if functions := merge_spec(schema).functions:
                raise UnsupportedFeature(
                    f"Column {shown(next(iter(functions)))} has an aggregate function, so an update would be combined "
                    "with the old row. Write the row instead."
                )
            return Method.RECORDS
        case MergeEngine.AGGREGATION | MergeEngine.FIRST_ROW:
            effect = "adds it to the old one" if engine is MergeEngine.AGGREGATION else "keeps the old one"
            raise UnsupportedFeature(
                f"The table has merge-engine = {engine}: it takes a new row for a key and {effect}, so an update has "
                "no effect of its own. Delete the rows, and write them anew."
            )
        case _:
            assert_never(engine)


def partition_columns(schema: TableSchema, assigned: Collection[str]) -> Sequence[str]:
    """Return the assigned partition columns of a key table, which its primary key lacks."""
    return () if schema.is_append else [name for name in schema.partition_keys if name in assigned]


def how_to_move(schema: TableSchema) -> str:
    """Return the advice for bringing rows of a key table to another partition."""
    if schema.table_options.merge_engine is MergeEngine.DEDUPLICATE:
        return "Write the rows with their new partition, or update them by a MERGE."
    return "Delete the rows, and write them with their new partition."


def merge_method(schema: TableSchema) -> Method:
    """Return how the rows of a MERGE are changed. Raises UnsupportedFeature."""
    return _append_method(schema) if schema.is_append else Method.RECORDS


def replacement_method(schema: TableSchema, condition: Predicate | None) -> Method:
    """Return how the rows that satisfy the bound condition (None: all) make way for others that satisfy it.

    Raises UnsupportedFeature for tables whose readers would see neither until a compaction.
    """
    if without_columns(condition, schema.partition_keys) is None:
        return Method.PARTITIONS
    if schema.is_append:
        return _append_method(schema)
    options = schema.table_options
    # Elsewhere a delete may win over the new row of its key, or hand it old values.
    if options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields and not options.ignore_delete:
        return Method.RECORDS
    if options.skips_level_0:
        raise UnsupportedFeature(
            "overwrite with a condition on rows: readers of the table see new rows after a compaction, and until then "
            "they would see neither the old rows nor the new ones. Give a condition on partition columns only, or "
            "delete the rows and write the new ones."
        )
    return Method.BUCKETS


def check_waiting(statement: Statement, method: Method, row_count: int, schema: TableSchema) -> None:
    """Raise UnsupportedFeature for a statement that would not see rows of its partitions, or could not change them:
    `row_count` of them wait for their buckets.
    """
    if not row_count:
        return
    options = schema.table_options.postponed_buckets
    if not options.merge_on_read:
        why, else_ = "where it does not see them", ", or set postpone.merge-on-read to true, with which it sees them"
    elif method is Method.BUCKETS:
        why, else_ = "and it replaces rows of buckets only", ""
    else:
        return
    raise UnsupportedFeature(
        f"{statement.operation}: {waiting_rows(row_count)} in the partitions that it reads, {why}. Compact the table "
        f"and run it again{else_}.{'' if method is Method.PARTITIONS else _without_reading(statement, schema)}"
    )


def _without_reading(statement: Statement, schema: TableSchema) -> str:
    """Return the advice for removing whole partitions, which reads no rows, if the statement can do that."""
    if not isinstance(statement, Delete | Replacement) or not schema.partition_keys:
        return ""
    is_told = schema.table_options.delete_forces_changelog and _row_delete_method(schema) is Method.RECORDS
    if isinstance(statement, Delete) and is_told:
        return " To remove whole partitions, with rows that wait and without a changelog, drop them."
    return " A condition on partition columns alone needs neither."


def _append_method(schema: TableSchema) -> Method:
    return Method.MARKS if schema.table_options.deletion_vectors.enabled else Method.FILES
