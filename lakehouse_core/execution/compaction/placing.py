"""Placing: tasks that bring rows of the bucket for waiting ones into the buckets of their partition.

A compaction does that with rows that wait in the table; a statement, and a write where the table's options ask for it,
with their own rows, before they commit them.
Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.bucket_count import new_bucket_count
from lakehouse_core.planning.waiting_rows import move_parts
from lakehouse_core.planning.write_base import WriteBase
from lakehouse_core.progress import Watch
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.bucketing import is_placed, total_buckets
from lakehouse_core.table.commit_json import messages_from_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.limits import MERGES_AT_ONCE
from lakehouse_core.tasks.waiting.move import MoveTask, run_move


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Waiting files of a partition, in manifest order. `bucket_count`: that of the partition, None if it has no buckets
    yet. `next_numbers`: the next sequence number of each of its buckets that has files.
    """

    partition: bytes
    files: Sequence[DataFile]
    bucket_count: int | None
    next_numbers: Mapping[int, int]


def moved_rows(
    table: TableContext,
    schema: TableSchema,
    moves: Iterable[Move],
    *,
    emits_changelog: bool,
    named_by: str,
    watch: Watch,
) -> tuple[CommitMessage, ...]:
    """Write the rows into their buckets; return a message for each task and bucket, those of a bucket in the order of
    their rows.

    `emits_changelog`: write a changelog, as the producer `input` does. `named_by`: what moves them. On an error no new
    file is left. Raises the errors of tasks.
    """
    tasks = list(_tasks(table, schema, list(moves), emits_changelog=emits_changelog))
    messages: list[CommitMessage] = []
    done = watch.counting("moving rows into their buckets", len(tasks), "tasks")

    def take(text: str) -> None:
        messages.extend(messages_from_json(text))
        done(1)

    try:
        with named_by_nobody():
            table.engine().run_at_once(run_move, tasks, take, most=MERGES_AT_ONCE)
    except BaseException:
        discard(table.store, schema, messages, named_by=named_by)
        raise
    # Tasks end in any order, and readers get the changelog in the order of its files.
    return tuple(sorted(messages, key=_first_number))


def with_placed_rows(
    table: TableContext,
    schema: TableSchema,
    messages: Sequence[CommitMessage],
    before: WriteBase,
    *,
    emits_changelog: bool,
    named_by: str,
    watch: Watch,
) -> Sequence[CommitMessage]:
    """Return the messages of a statement or a write with its new rows in their buckets, where no earlier rows of the
    partition wait; others wait behind those. `before`: what its base has. `named_by`: the statement or the write.

    Deletes the staged files of the rows that it moved. On an error these stay, and no new file is left.
    """
    occupied = {partition for partition, bucket in before.next_numbers if not is_placed(bucket)}
    staged = [message for message in messages if not is_placed(message.bucket) and message.partition not in occupied]
    if not staged:
        return messages
    files: dict[bytes, list[DataFile]] = defaultdict(list)
    for message in staged:
        files[message.partition] += message.new_files
    numbers: dict[bytes, dict[int, int]] = defaultdict(dict)
    for (partition, bucket), number in before.next_numbers.items():
        numbers[partition][bucket] = number
    moves = [
        Move(
            partition=partition,
            files=found,
            bucket_count=before.bucket_counts.get(partition),
            next_numbers=numbers[partition],
        )
        for partition, found in files.items()
    ]
    placed = moved_rows(table, schema, moves, emits_changelog=emits_changelog, named_by=named_by, watch=watch)
    discard(table.store, schema, staged, named_by=named_by)
    gone = {id(message) for message in staged}
    return [*(message for message in messages if id(message) not in gone), *placed]


def _first_number(message: CommitMessage) -> int:
    return min((file.min_sequence_number for file in message.new_files), default=0)


def _tasks(
    table: TableContext, schema: TableSchema, moves: Sequence[Move], *, emits_changelog: bool
) -> Iterator[MoveTask]:
    ids = {file.schema_id for move in moves for file in move.files}
    file_schemas = {number: table.schemas.schema(number) for number in sorted(ids)}
    folders, bucket = DataLayout(schema), total_buckets(schema.bucketing)
    options = schema.table_options.postponed_buckets
    for move in moves:
        count = move.bucket_count or new_bucket_count(move.files, options)
        counted = replace(schema, options={**schema.options, "bucket": str(count)})
        for part in move_parts(move.files, move.next_numbers, bucket_count=count):
            yield MoveTask(
                store=table.store.spec,
                schema=counted,
                file_schemas=file_schemas,
                partition=move.partition,
                folder=folders.bucket(move.partition, bucket),
                files=part.files,
                next_numbers=part.next_numbers,
                emits_changelog=emits_changelog,
            )
