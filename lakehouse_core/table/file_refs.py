"""File references: the files of a table by their keys, as snapshots, manifests and commit messages name them.

Rule: names from manifests are hostile input. A name that could leave its folder is CorruptTable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.joined_changelog import segment_of
from lakehouse_core.table.layout import index_key, manifest_key


class FileKind(StrEnum):
    """The kind of a file, in deletion order: a file is deleted before the files that name it."""

    DATA = "data"
    CHANGELOG = "changelog"
    EXTRA = "extra"
    INDEX = "index"
    STATISTICS = "statistics"
    MANIFEST = "manifest"
    INDEX_MANIFEST = "index manifest"
    MANIFEST_LIST = "manifest list"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file of the table by its key. `size`: the recorded size in bytes, None if no size is recorded.

    For an object that several changelog files share, `size` is only a lower bound.
    """

    key: str
    kind: FileKind
    size: int | None
    least_size: int = 0

    def size_fault(self, found: int) -> str | None:
        """Return the expected size as text if `found` bytes are wrong, else None."""
        if self.size is not None and found != self.size:
            return str(self.size)
        return f"{self.least_size} at least" if found < self.least_size else None


def manifest_file(name: str, size: int, *, named_by: str) -> FileRef:
    return FileRef(key=manifest_key(plain_name(name, named_by)), kind=FileKind.MANIFEST, size=size)


def index_file(name: str, size: int, *, folder: str | None, named_by: str) -> FileRef:
    """Return an index file. `folder`: the bucket's index folder, None for the table's `index` folder."""
    plain = plain_name(name, named_by)
    key = index_key(plain) if folder is None else f"{folder}/{plain}"
    return FileRef(key=key, kind=FileKind.INDEX, size=size)


def data_files(
    name: str, size: int, extra_files: Sequence[str], *, kind: FileKind, folder: str, named_by: str
) -> tuple[FileRef, ...]:
    """Return a data or changelog file, or the object that it shares with others, and its extra files."""
    found = [stored_file(f"{folder}/{plain_name(name, named_by)}", kind, size)]
    for extra in extra_files:
        found.append(FileRef(key=f"{folder}/{plain_name(extra, named_by)}", kind=FileKind.EXTRA, size=None))
    return tuple(found)


def stored_file(key: str, kind: FileKind, size: int | None) -> FileRef:
    """Return the object that holds the file at `key`: the file itself, except for changelog files that share an
    object.
    """
    segment = segment_of(key)
    if segment is None:
        return FileRef(key=key, kind=kind, size=size)
    return FileRef(key=segment.key, kind=kind, size=None, least_size=segment.end)


def message_files(message: CommitMessage, folders: "DataLayout", *, named_by: str) -> Iterator[FileRef]:
    """Yield the files that a commit of the message would add, including upgraded ones, except files outside the
    table.
    """
    data = (*message.new_files, *message.compact_after)
    changelog = (*message.changelog_files, *message.compact_changelog_files)
    folder = folders.bucket(message.partition, message.bucket)
    for files, kind in ((data, FileKind.DATA), (changelog, FileKind.CHANGELOG)):
        for file in files:
            if file.external_path is None:
                yield from data_files(
                    file.file_name, file.file_size, file.extra_files, kind=kind, folder=folder, named_by=named_by
                )
    beside = folders.index_folder(message.partition, message.bucket)
    for index in (*message.new_index_files, *message.compact_new_index_files):
        yield index_file(index.file_name, index.file_size, folder=beside, named_by=named_by)


def plain_name(name: str, named_by: str) -> str:
    """Return `name`. Raises CorruptTable unless it is a plain file name."""
    if not is_file_name(name):
        raise CorruptTable(
            f"{named_by} names the file {name!r}, expected a plain name without a path. Nothing was deleted; run "
            "`lakehouse verify` and keep its report."
        )
    return name
