"""Checks of rows that wait for their buckets: none may come to wait where no compaction would move them, or would move
them above newer ones.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Iterable, Sequence

from lakehouse_core.errors import CommitConflict, InvalidRequest
from lakehouse_core.options import POSTPONE_BUCKET
from lakehouse_core.table.bucketing import is_placed, may_wait
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, file_identifier
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.waiting_files import waiting_rows


def check_may_wait(name: str, schema: TableSchema) -> None:
    """Raise CommitConflict in a table whose compactions move no rows any more. `name`: that of the step that adds rows
    which wait for their buckets.
    """
    about = f"{name}: the rows were staged to wait for their buckets, and"
    if not may_wait(schema.bucketing):
        raise CommitConflict(
            f"{about} the table's option bucket is {schema.bucket_setting} now, so no compaction would move them. "
            "Nothing was applied: stage the data again."
        )
    if (count := schema.table_options.postponed_buckets.next_bucket) is not None:
        raise CommitConflict(
            f"{about} another call sets the table's option bucket to {count}, or was interrupted. Nothing was applied: "
            f"stage the data again when that call has ended. If it was interrupted, set bucket to {count} again, or to "
            f"{POSTPONE_BUCKET}, with which rows wait further."
        )


def check_restored(snapshot_id: int, wanted: Iterable[ManifestEntry], schema: TableSchema) -> None:
    """Raise InvalidRequest for a state in which rows wait for their buckets, if no compaction would move them any
    more. `wanted`: the files of the snapshot.
    """
    waiting = sum(entry.file.row_count for entry in wanted if not is_placed(entry.bucket))
    count = schema.table_options.postponed_buckets.next_bucket
    if waiting and (count is not None or not may_wait(schema.bucketing)):
        bucket = f"{schema.bucket_setting} now" if count is None else f"about to become {count}"
        raise InvalidRequest(
            f"rollback_to: {waiting_rows(waiting)} in snapshot {snapshot_id}. The table's option bucket is {bucket}, "
            f"so no compaction would move them. Set bucket to {POSTPONE_BUCKET}, roll back, compact the "
            "table, and set bucket again."
        )


def check_keep_order(verb: str, live: Iterable[ManifestEntry], wanted: Iterable[ManifestEntry]) -> None:
    """Raise InvalidRequest if rows would come to wait behind others that were committed later: those that wait stay
    where the manifests list them, and a compaction would move these first. `wanted`: the files that `verb` brings back.
    """
    there = {file_identifier(entry) for entry in live if not is_placed(entry.bucket)}
    back: dict[bytes, int] = {}
    for entry in wanted:
        if is_placed(entry.bucket):
            continue
        if file_identifier(entry) not in there:
            back[entry.partition] = back.get(entry.partition, 0) + entry.file.row_count
        elif (count := back.get(entry.partition)) is not None:
            raise InvalidRequest(
                f"{verb}: {waiting_rows(count)} in that state and not any more, and others that were committed later "
                "still wait. A compaction would move the older rows above these. Nothing was changed: compact the "
                "table, then call it again."
            )


def check_none_waits(
    name: str, entries: Sequence[ManifestEntry], live: Iterable[ManifestEntry], schema: TableSchema
) -> None:
    """Raise CommitConflict for rows in buckets beside others that wait: a compaction would move these above them, or,
    if `bucket` is a number now, none would move them at all.

    `name`: that of the step whose entries these are. `live`: the files before it.
    """
    left = [entry for entry in live if not is_placed(entry.bucket)]
    removed = {file_identifier(entry) for entry in entries if left and entry.kind is EntryKind.DELETE}
    waiting = [entry for entry in left if file_identifier(entry) not in removed]
    if not waiting:
        return
    count = waiting_rows(sum(entry.file.row_count for entry in waiting))
    where = f"{name}: {count} in the partitions of the new rows"
    if not may_wait(schema.bucketing):
        raise CommitConflict(
            f"{where}, and the table's option bucket is {schema.bucket_setting}, so no compaction would move "
            f"them first. Nothing was applied: set bucket to {POSTPONE_BUCKET}, compact the table, set bucket again, "
            "and stage the data again."
        )
    placed = {entry.partition for entry in entries if entry.kind is EntryKind.ADD and is_placed(entry.bucket)}
    if any(entry.partition in placed for entry in waiting):
        raise CommitConflict(
            f"{where}, which were staged for buckets when none waited. The rows that wait came earlier and would "
            "replace them. Nothing was applied: stage the data again."
        )
