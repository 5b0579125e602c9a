"""Keys of dynamic buckets: read the keys of the latest state, and compare their hashes with the indexes of the buckets.

Rule: a key is in one bucket of its partition, which its hash index names.
Source: docs/semantics/tables.md#dynamic-buckets.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

import numpy as np

from lakehouse_core.data_files.hash_index import read_hashes
from lakehouse_core.execution.verify.inspection import Inspection, Rooted
from lakehouse_core.format.hash_index import Hashes
from lakehouse_core.planning.commit.hash_indexes import live_indexes
from lakehouse_core.planning.findings import Invariant, doubled_keys, keys_without_index
from lakehouse_core.planning.readable import readable_files
from lakehouse_core.planning.replayed_files import Bucket
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.bucketing import has_hash_index
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.keys.hashes import key_hashes
from lakehouse_core.tasks.merge_scan import BucketFiles


def check_key_buckets(
    inspection: Inspection,
    rooted: Rooted,
    live: Mapping[Bucket, Sequence[DataFile]],
    schemas: Mapping[int, TableSchema],
    schema: TableSchema,
) -> None:
    """Report keys of the state `live` that are in two buckets, and those that the index of their bucket lacks."""
    if not inspection.reads_data or not has_hash_index(schema.bucketing):
        return
    folders, key = DataLayout(schema), rooted.root.key
    indexes = live_indexes(inspection.state_indexes(rooted))
    for partition, buckets in groupby(live.items(), key=lambda item: item[0][0]):
        seen: dict[int, Hashes] = {}
        for (_, bucket), of_bucket in buckets:
            folder = folders.bucket(partition, bucket)
            read = partial(_key_hashes, inspection.store, folder, of_bucket, schemas, schema)
            hashes = inspection.read(Invariant.NAMED_FILES, folder, read, key)
            if hashes is None:
                continue
            index_folder = folders.index_folder(partition, bucket) or INDEX_FOLDER
            indexed = _indexed(inspection, index_folder, indexes.get((partition, bucket)), key)
            if indexed is not None and (count := len(np.setdiff1d(hashes, indexed, assume_unique=True))):
                inspection.report([keys_without_index(key, folder, count)], key)
            for other, earlier in seen.items():
                if count := len(np.intersect1d(hashes, earlier, assume_unique=True)):
                    inspection.report([doubled_keys(key, folder, folders.bucket(partition, other), count)], key)
            seen[bucket] = hashes


def _indexed(inspection: Inspection, folder: str, file: IndexFile | None, root_key: str) -> Hashes | None:
    """Return the hashes in the index of a bucket, none without an index; None if it cannot be read."""
    if file is None:
        return np.empty(0, np.int32)
    read = partial(read_hashes, inspection.store, folder, file)
    return inspection.read(Invariant.NAMED_FILES, f"{folder}/{file.file_name}", read, root_key)


def _key_hashes(
    store: StoreReader,
    folder: str,
    files: Sequence[DataFile],
    schemas: Mapping[int, TableSchema],
    schema: TableSchema,
) -> Hashes:
    return key_hashes(BucketFiles(store=store, folder=folder, schemas=schemas), readable_files(files, schemas), schema)
