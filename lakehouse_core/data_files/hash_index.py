"""Hash index files: read and write the index of one bucket.

Rule: a new index file holds every hash of the one that it replaces.
Source: docs/format/buckets.md#hash-index, docs/semantics/tables.md#dynamic-buckets.
"""

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.format.hash_index import HASH_BYTES, Hashes, decode_hashes, encode_hashes
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import HASH_INDEX


def read_hashes(store: StoreReader, folder: str, file: IndexFile) -> Hashes:
    """Return the distinct hashes in an index file, rising. Raises CorruptTable."""
    key = f"{folder}/{file.file_name}"
    try:
        data = store.read(key)
    except NotFound as error:
        raise CorruptTable.missing(store.uri(key)) from error
    if len(data) != file.file_size:
        raise CorruptTable(
            f"{store.uri(key)}: it has {len(data)} bytes, its writer recorded {file.file_size}. "
            "Do not expire snapshots; run `lakehouse verify` and keep its report."
        )
    return decode_hashes(data, key)


def write_hashes(store: Sinks, folder: str, name: str, hashes: Hashes) -> IndexFile:
    """Write a new index file; `hashes` are distinct and rising."""
    data = encode_hashes(hashes)
    store.write({f"{folder}/{name}": data})
    return IndexFile(index_type=HASH_INDEX, file_name=name, file_size=HASH_BYTES * len(hashes), row_count=len(hashes))
