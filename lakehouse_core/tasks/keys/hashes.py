"""Key hashes of data files: read the keys of files of one bucket, and hash them as the bucket's index does.

Source: docs/format/buckets.md#hash-index.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from lakehouse_core.format.binary_row import hash_rows
from lakehouse_core.format.hash_index import Hashes, distinct
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.merge_scan import CHUNK_ROWS, BucketFiles


def key_hashes(source: BucketFiles, files: Iterable[DataFile], schema: TableSchema) -> Hashes:
    """Return the distinct hashes of the keys in the files, rising. Raises CorruptTable, UnsupportedFeature."""
    parts = [part for file in files for part in _of_file(source, file, schema)]
    return distinct(np.concatenate([np.empty(0, np.int32), *parts]))


def _of_file(source: BucketFiles, file: DataFile, schema: TableSchema) -> Iterator[Hashes]:
    fields = schema.bucket_fields
    reader = source.open(file)
    try:
        for batch in reader.batches(fields, batch_rows=CHUNK_ROWS):
            yield distinct(hash_rows(batch.columns, [field.type for field in fields]))
    finally:
        reader.close()
