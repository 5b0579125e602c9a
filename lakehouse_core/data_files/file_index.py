"""File index: find the rows that a read needs, by the index of a data file, in its manifest entry or beside the file.

Rule: of an index file, only the directory and the indexes of the condition's columns are read. Source:
docs/semantics/reading.md#raw-reads.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyroaring import BitMap

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.format.data_types import DataField
from lakehouse_core.format.file_index import Place, body_of, checked, corrupt, head_length, parse_directory
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_index import FileIndex, embedded_index, index_file_name, matching_rows, open_every_index
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema

T = TypeVar("T")

# The first read in bytes: it holds the directory of dozens of indexes, and often all indexes, which saves a second
# read.
_FIRST_BYTES: Final = 8 << 10


def indexed_rows(
    store: FileOpener,
    folder: str,
    file: DataFile,
    file_schema: TableSchema,
    *,
    predicate: Predicate,
    fields: Sequence[DataField],
) -> BitMap | None:
    """Return the positions of the rows that may satisfy the predicate, None when the index excludes no row.

    `predicate` is bound to `fields`. Raises CorruptTable, UnsupportedFeature, StorageUnavailable.
    """
    return _asked(store, folder, file, lambda index: matching_rows(predicate, index, file, file_schema, fields))


def check_indexes(store: FileOpener, folder: str, file: DataFile, file_schema: TableSchema) -> None:
    """Read all indexes of a data file. Raises as `indexed_rows` does."""
    _asked(store, folder, file, lambda index: open_every_index(index, file, file_schema))


def stored_bodies(store: FileOpener, folder: str, file: DataFile) -> dict[str, dict[str, bytes | None]] | None:
    """Return all indexes of a data file by column and kind, None if it has no index. Raises as `indexed_rows` does."""

    def every(index: FileIndex) -> dict[str, dict[str, bytes | None]]:
        return {
            column: {kind: None if place is None else index.fetch(place) for kind, place in places.items()}
            for column, places in index.directory.items()
        }

    return _asked(store, folder, file, every)


def _asked(store: FileOpener, folder: str, file: DataFile, ask: Callable[[FileIndex], T]) -> T | None:
    """Return the result of `ask` for the index of a data file, None if the file has no index."""
    if file.embedded_index is not None:
        return ask(embedded_index(file.embedded_index, file))
    name = index_file_name(file)
    if name is None:
        return None
    key = f"{folder}/{name}"
    try:
        with store.open_read(key) as source:
            return ask(_opened(source, key, file.file_name))
    except NotFound as error:
        raise CorruptTable.missing(store.uri(key)) from error
    except OSError as error:
        raise StorageUnavailable(f"{key}: the file could not be read ({error}). Try again later.") from error


def _opened(source: pa.NativeFile, key: str, data_file_name: str) -> FileIndex:
    size = source.size()
    head = source.read_at(min(size, _FIRST_BYTES), 0)
    head_bytes = head_length(head, key)
    if head_bytes > size:
        raise corrupt(key, f"found {size} bytes, but its head has {head_bytes}")
    if head_bytes > len(head):
        head += source.read_at(head_bytes - len(head), len(head))

    def fetch(place: Place) -> bytes:
        after = place.start + place.length
        if after <= len(head):
            return body_of(head, place, key)
        if after > size:
            raise corrupt(key, f"found {size} bytes, but an index ends at byte {after}")
        return checked(bytes(source.read_at(place.length, place.start)), place, key)

    return FileIndex(directory=parse_directory(head, key, data_file_name), fetch=fetch, what=key)
