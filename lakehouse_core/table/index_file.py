"""Index files in commit messages: the fields of an index manifest entry without partition and bucket.

Source: docs/format/manifest.md#index-manifest-record.
"""

from dataclasses import dataclass

from lakehouse_core.table.manifest import DeletionVectorRange


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """An index of the data files of its bucket, or of its partition in a table without buckets.

    `index_type` is `DELETION_VECTORS` or `HASH`. `row_count`: how many vectors or hashes it holds; size in bytes.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
