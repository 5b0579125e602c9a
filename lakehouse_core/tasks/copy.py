"""Copy task: files of a table from one store into another, byte for byte.

A repeated attempt writes the same bytes under the same names.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import CorruptTable
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.table.file_refs import FileRef
from lakehouse_core.tasks.runtime import TaskRuntime

# A larger file is copied in pieces, and few of them at once.
_LARGE_BYTES: Final = 8 << 20
_LARGE_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """The files of `source` that one task copies into `target`."""

    source: StoreSpec
    target: StoreSpec
    files: tuple[FileRef, ...]


def run_copy(task: CopyTask, runtime: TaskRuntime) -> str:
    """Run the task in an engine; the text is the number of bytes. Raises as `copied` does."""
    return str(sum(copied(runtime.open_store(task.source), runtime.open_store(task.target), task.files)))


def copied(source: ObjectStore, target: ObjectStore, files: Sequence[FileRef]) -> Iterator[int]:
    """Copy the files, several at once, and yield the bytes of each.

    Raises NotFound, CorruptTable if the source has one in another size, StorageUnavailable, StorageFull.
    """
    small = [file for file in files if (file.size or 0) <= _LARGE_BYTES]
    large = [file for file in files if (file.size or 0) > _LARGE_BYTES]
    at_once = max(source.requests_at_once, target.requests_at_once)

    def copy(file: FileRef) -> int:
        return _copy_file(source, target, file)

    for some, ahead, together in ((small, 8, at_once), (large, _LARGE_AT_ONCE, min(at_once, _LARGE_AT_ONCE))):
        yield from in_order(copy, some, ahead=ahead, at_once=together)


def _copy_file(source: ObjectStore, target: ObjectStore, file: FileRef) -> int:
    with source.open_read(file.key, file.size) as origin:
        size = int(origin.size())
        if fault := file.size_fault(size):
            raise CorruptTable(
                f"{source.uri(file.key)}: found {size} bytes, expected {fault}. Nothing was published; run `lakehouse "
                "verify` and keep its report."
            )
        with target.open_write(file.key) as sink:
            shutil.copyfileobj(origin, sink, _LARGE_BYTES)
    return size
