"""Bucket health: figures of a bucket that show whether compaction keeps up with the writers.

Source: docs/maintenance.md#looking.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_core.options import POSTPONE_BUCKET
from lakehouse_core.planning.compaction.append import AppendCompactionPlan
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.planning.compaction.plan import CompactionPlan, Merge
from lakehouse_core.table.bucketing import is_placed, may_wait
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import levels_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.waiting_files import waiting_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketHealth:
    """The figures of one bucket. `small_file_count`: small files that a full compaction would rewrite. Append tables
    have no sorted runs. `waiting_row_count`: rows that wait for their buckets, so that no read has them, or each read
    merges them.

    All are 0 in a partition that compactions skip: nothing is to be done there.
    """

    small_file_count: int = 0
    sorted_run_count: int = 0
    waiting_row_count: int = 0


def bucket_figures(files: Sequence[DataFile], schema: TableSchema, *, bucket: int = 0) -> BucketHealth:
    """Return the figures of one bucket's live files. Raises CorruptTable if the files contradict each other."""
    if not is_placed(bucket):
        return BucketHealth(waiting_row_count=sum(file.row_count for file in files))
    return BucketHealth(
        small_file_count=len(small_files(plan_bucket(files, schema), schema)),
        sorted_run_count=0 if schema.is_append else _sorted_run_count(files, schema),
    )


def small_files(plan: CompactionPlan | AppendCompactionPlan | None, schema: TableSchema) -> list[DataFile]:
    """Return the small files that the full compaction `plan` of a bucket would rewrite.

    Counted in the plan, so that no compaction is started for files that it would not rewrite.
    """
    options = schema.table_options
    small_bytes = options.target_file_size_bytes(has_key=not schema.is_append) * options.compaction.small_file_ratio
    return [file for file in _rewritten(plan) if file.file_size < small_bytes]


def due_compactions(buckets: Sequence[BucketHealth], schema: TableSchema) -> tuple[str, ...]:
    """Return a sentence for each kind of compaction that the figures ask for; none for a table in order."""
    trigger = schema.table_options.compaction.trigger_run_count
    behind = [each.sorted_run_count for each in buckets if each.sorted_run_count > trigger]
    small = sum(each.small_file_count for each in buckets)
    waiting = sum(each.waiting_row_count for each in buckets)
    due = []
    if waiting:
        due.append(
            f"compact: {waiting_text(waiting, schema)}" if may_wait(schema.bucketing) else _stuck(waiting, schema)
        )
    if behind:
        due.append(
            f"compact: {len(behind)} bucket{'s have' if len(behind) > 1 else ' has'} more than {trigger} sorted runs, "
            f"at most {max(behind)}"
        )
    if small > 1:
        due.append(f"compact --full: it would merge {small:,} small files")
    return tuple(due)


def waiting_text(row_count: int, schema: TableSchema) -> str:
    """Return what is to be done about rows that wait for their buckets."""
    them = "it" if row_count == 1 else "them"
    if schema.table_options.postponed_buckets.merge_on_read:
        return f"{waiting_rows(row_count)}, and until a compaction moves {them} every read of a state merges {them}"
    return f"{waiting_rows(row_count)}, and a compaction makes {them} readable"


def _stuck(row_count: int, schema: TableSchema) -> str:
    """Return what is to be done about rows that wait where no compaction moves them."""
    return (
        f"alter: {waiting_rows(row_count)}, and bucket is {schema.bucket_setting}: set it to {POSTPONE_BUCKET}, "
        "compact the table, and set it again"
    )


def _rewritten(plan: CompactionPlan | AppendCompactionPlan | None) -> Sequence[DataFile]:
    if plan is None or isinstance(plan, AppendCompactionPlan):
        return () if plan is None else plan.files
    return [file for step in plan.steps if isinstance(step, Merge) for file in step.files]


def _sorted_run_count(files: Sequence[DataFile], schema: TableSchema) -> int:
    key_types = [field.type for field in schema.key_fields]
    return len(levels_of(files, key_types, level_count=schema.table_options.num_levels).runs)
