"""Write task: write rows to files of their buckets, which readers see after the commit.

Source: docs/semantics/writing.md#write-path.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

import pyarrow as pa

from lakehouse_core.data_files.memory import keep_freed_memory
from lakehouse_core.data_files.writer import FileOutput
from lakehouse_core.storage.nowhere import Nowhere
from lakehouse_core.storage.object_store import StoreReader, StoreSpec
from lakehouse_core.storage.overlap import closing_behind
from lakehouse_core.table.bucketing import Dynamic, Fixed, Postpone, Unaware
from lakehouse_core.table.commit_message import CommitMessage, Missing
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.waiting_files import WriterId
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.append_writer import AppendWriter
from lakehouse_core.tasks.write.key_writer import KeyWriter
from lakehouse_core.tasks.write.keys.bucket_index import BucketIndex, KeyIndex, OneBucket
from lakehouse_core.tasks.write.keys.placer import placed_rows
from lakehouse_core.tasks.write.router import KeyBuckets
from lakehouse_core.tasks.write.rows import InputRows, checked_rows, satisfying
from lakehouse_core.tasks.write.waiting_writer import WaitingWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """The settings of all tasks of one write. `store` is rooted at the table.

    `next_sequence_numbers`: the next number of each (serialized partition, bucket) that has files; others begin at 0.
    `rowkind_column`: the column of the input that holds +I, -U, +U or -D; None: the option `rowkind.field` names it.
    `missing`: how to treat a column that the input lacks.
    `emits_changelog`: write a changelog, as the producer `input` does; False for an overwrite.
    `key_index`: the buckets of known keys, where buckets are dynamic. `commit_user` and `number`: the writer, whose
    rows keep their order where they wait for their buckets. `condition`, bound to `schema`: what each row must satisfy,
    None: nothing. `only_counts`: store nothing; the messages tell what files would be there.
    """

    store: StoreSpec
    schema: TableSchema
    next_sequence_numbers: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    rowkind_column: str | None = None
    missing: Missing = "null"
    emits_changelog: bool = True
    key_index: KeyIndex = field(default_factory=KeyIndex)
    commit_user: str = ""
    number: int = 0
    condition: Predicate | None = None
    only_counts: bool = False


def write_batches(task: WriteTask, batches: Iterable[pa.RecordBatch], runtime: TaskRuntime) -> list[CommitMessage]:
    """Write the rows and return one message for each bucket that got files.

    `batches` hold the table's columns in the table's types, and the row kind column where there is one. Rows that do
    not fit into memory are spilled to the runtime's folder. A failed task leaves no file. Raises InvalidRequest naming
    row and column, StorageFull, StorageUnavailable.
    """
    keep_freed_memory()
    opened = runtime.open_store(task.store)
    with nullcontext(Nowhere()) if task.only_counts else closing_behind(opened) as store:
        output = runtime.output(store, task.schema)
        writer = _writer(task, output, opened, runtime.spill_folder)
        try:
            for rows in _placed(task, batches, opened, runtime.spill_folder):
                if rows.values.num_rows:
                    writer.write(rows)
            writer.finish()
            store.settle()
        except BaseException as error:
            writer.abort(error)
            raise
    return writer.messages()


def _placed(
    task: WriteTask, batches: Iterable[pa.RecordBatch], store: StoreReader, spill_folder: str | None
) -> Iterator[InputRows]:
    rows = checked_rows(batches, task.schema, task.rowkind_column)
    if task.condition is not None:
        rows = satisfying(rows, task.condition, task.schema)
    places = task.key_index.places
    return rows if places is None else placed_rows(places, rows, store, spill_folder)


def _writer(
    task: WriteTask, output: FileOutput, store: StoreReader, spill_folder: str | None
) -> AppendWriter | KeyWriter | WaitingWriter:
    if task.schema.is_append:
        return AppendWriter(task.schema, output, next_numbers=task.next_sequence_numbers)
    if isinstance(task.schema.bucketing, Postpone):
        return WaitingWriter(task.schema, output, writer=WriterId(task.commit_user, task.number))
    return KeyWriter(
        task.schema,
        output,
        index=_index(task, output, store),
        next_numbers=task.next_sequence_numbers,
        emits_changelog=task.emits_changelog,
        spill_folder=spill_folder,
    )


def _index(task: WriteTask, output: FileOutput, store: StoreReader) -> KeyBuckets | None:
    match task.schema.bucketing:
        case Dynamic():
            if task.key_index.bucket is not None:
                return OneBucket(task.key_index.bucket)
            if task.key_index.places is not None:
                return None
            uuid, numbers = output.clock.uuid(), count()
            return BucketIndex(
                task.schema, task.key_index, store, output.store, lambda: f"index-{uuid}-{next(numbers)}"
            )
        case Fixed() | Unaware() | Postpone():
            return None
        case _:
            assert_never(task.schema.bucketing)
