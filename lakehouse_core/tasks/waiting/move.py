"""Move task: bring rows that wait for their buckets into them, as files of level 0.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_json import messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.compact import storable
from lakehouse_core.tasks.merge_scan import BucketFiles, objects_of
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.waiting.placing import place, waiting_rows
from lakehouse_core.tasks.write.key_writer import KeyWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTask:
    """Waiting files of one partition, in the order of their rows. `store` is rooted at the table.

    `schema` is the table's, with the bucket count of the partition; `file_schemas` holds, by id, every schema that the
    files name. `folder` is that of the files. `next_numbers`: the first sequence number of the rows in each bucket.
    `emits_changelog`: write a changelog, as the producer `input` does.
    """

    store: StoreSpec
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    partition: bytes
    folder: str
    files: tuple[DataFile, ...]
    next_numbers: Mapping[int, int]
    emits_changelog: bool = True


def run_move(task: MoveTask, runtime: TaskRuntime) -> str:
    """Carry out the task where an engine runs it; return the new files as the text of commit messages."""
    return messages_to_json(move_rows(task, runtime))


def move_rows(task: MoveTask, runtime: TaskRuntime) -> list[CommitMessage]:
    """Write the rows into their buckets, and return a message with the new files of each bucket.

    A failed task leaves no new file. Raises InvalidRequest for nulls that the schema forbids now, CorruptTable (also
    for a missing file), StorageFull, StorageUnavailable.
    """
    store, schema = runtime.open_store(task.store), task.schema
    with reading_ahead(store, objects_of(task.folder, task.files)) as opener, closing_behind(store) as sinks:
        writer = KeyWriter(
            schema,
            runtime.output(sinks, schema),
            next_numbers={(task.partition, bucket): number for bucket, number in task.next_numbers.items()},
            emits_changelog=task.emits_changelog,
            spill_folder=runtime.spill_folder,
        )
        files = BucketFiles(
            store=opener,
            folder=task.folder,
            schemas={schema.id: schema, **task.file_schemas},
            verify=schema.table_options.read_verify,
        )
        rows = (replace(each, values=storable(each.values, schema)) for each in waiting_rows(files, task.files, schema))
        return place(rows, writer, sinks)
