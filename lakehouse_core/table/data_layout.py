"""Data layout: the folders of a table's buckets, relative to the table, by its schema.

It is apart from `layout` because schemas, which it needs, are checked against the keys in `layout`.
"""

from collections.abc import Sequence
from typing import Any

from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.partition_path import partition_path
from lakehouse_core.table.layout import bucket_folder
from lakehouse_core.table.schema import TableSchema


def moved_places(old: TableSchema, new: TableSchema) -> list[str]:
    """Return the options by which files are searched and that differ between two schemas."""
    before, after = old.table_options, new.table_options
    found = []
    if before.data_file_directory != after.data_file_directory:
        found.append("data-file.path-directory")
    if new.partition_keys and before.partition_default_name != after.partition_default_name:
        found.append("partition.default-name")
    if new.partition_keys and before.partition_legacy_name != after.partition_legacy_name:
        found.append("partition.legacy-name")
    if before.index_beside_data != after.index_beside_data:
        found.append("index-file-in-data-file-dir")
    return found


class DataLayout:
    """The bucket folders of a table. Partitions are serialized BinaryRows; each is decoded once."""

    def __init__(self, schema: TableSchema) -> None:
        options = schema.table_options
        self._names = schema.partition_keys
        self._types = tuple(field.type for field in schema.partition_fields)
        self._default_name = options.partition_default_name
        self._legacy = options.partition_legacy_name
        self._data_folder = options.data_file_directory or ""
        self._index_beside_data = options.index_beside_data
        self._known: dict[tuple[bytes, int], str] = {}

    def bucket(self, partition: bytes, bucket: int) -> str:
        """Return the folder of a bucket's data files. Raises CorruptTable when the partition cannot be decoded."""
        if (partition, bucket) not in self._known:
            values = deserialize_row(partition, self._types)
            path = partition_path(
                self._names, self._types, values, default_name=self._default_name, legacy=self._legacy
            )
            self._known[partition, bucket] = bucket_folder(path, bucket, data_folder=self._data_folder)
        return self._known[partition, bucket]

    def index_folder(self, partition: bytes, bucket: int) -> str | None:
        """Return the folder of a bucket's index files if the table keeps them beside its data files, else None."""
        return self.bucket(partition, bucket) if self._index_beside_data else None


def partition_folder(schema: TableSchema, values: Sequence[Any], bucket: int) -> str:
    """Return the folder of a bucket, relative to the table; `values` are the partition's comparable values."""
    options = schema.table_options
    path = partition_path(
        schema.partition_keys,
        [each.type for each in schema.partition_fields],
        values,
        default_name=options.partition_default_name,
        legacy=options.partition_legacy_name,
    )
    return bucket_folder(path, bucket, data_folder=options.data_file_directory or "")
