"""Index files as commit messages carry them: what an index manifest says of one, without its place.

Source: docs/format/manifest.md#index-manifest-record.
"""

from dataclasses import dataclass

from lakehouse_core.table.manifest import DeletionVectorRange


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A file that says something about the data files of its bucket, or of its partition where there are no buckets.

    `index_type` is `DELETION_VECTORS` or `HASH`. `row_count`: how many vectors or hashes it holds; size in bytes.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
