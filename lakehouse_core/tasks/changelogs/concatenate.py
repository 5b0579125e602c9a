"""Concatenation task: copy changelog files of a staged commit one after the other into one object, byte for byte.

Source: docs/semantics/compaction.md#pre-commit-compaction; `ChangelogCompactTask` of Java 2.0.0.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakehouse_core.data_files.reader import corrupt_file
from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.joined_changelog import first_segment_name
from lakehouse_core.tasks.runtime import TaskRuntime

# Large enough to read a disk or a network at full speed.
_COPIED_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask:
    """`files`: the keys and sizes in bytes of the files to copy, in order. The object is written to `folder`, that of
    `bucket`.

    `number` identifies the task's result among those of other tasks.
    """

    number: int
    store: StoreSpec
    folder: str
    bucket: int
    file_format: str
    files: tuple[tuple[str, int], ...]


def run_join(task: JoinTask, runtime: TaskRuntime) -> str:
    """Run the task in an engine; `join_answer` parses the returned text."""
    return json.dumps([task.number, join_files(task, runtime)])


def join_answer(text: str) -> tuple[int, str]:
    """Return the number of the task and the name of the object that it wrote."""
    number, name = json.loads(text)
    return number, name


def join_files(task: JoinTask, runtime: TaskRuntime) -> str:
    """Write the object and return its name; the files stay. A failed task leaves nothing.

    Raises CorruptTable if a file is missing or has another size, StorageFull, StorageUnavailable.
    """
    store = runtime.open_store(task.store)
    length = task.files[0][1]
    name = first_segment_name(runtime.clock.uuid(), bucket=task.bucket, length=length, file_format=task.file_format)
    object_key = f"{task.folder}/{name}"
    try:
        with store.open_write(object_key) as sink:
            for key, size in task.files:
                copied = 0
                for data in _bytes_of(store, key):
                    sink.write(data)
                    copied += len(data)
                if copied != size:
                    raise corrupt_file(key, f"it has {copied} bytes, its writer recorded {size}")
    except BaseException:
        # The close may have failed after the object appeared.
        clear_away(store, [object_key])
        raise
    return name


def _bytes_of(store: ObjectStore, key: str) -> Iterator[bytes]:
    try:
        source = store.open_read(key)
    except NotFound as error:
        raise CorruptTable.missing(store.uri(key)) from error
    with source:
        while data := source.read(_COPIED_BYTES):
            yield data
