"""Bucket count: how many buckets a partition gets when its first rows leave the bucket for waiting ones.

Rule: a partition that has buckets keeps their number.
Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Sequence
from typing import Final

from lakehouse_core.options import PostponedBucketOptions
from lakehouse_core.table.data_file import DataFile

# The numbers of buckets that manifests and other engines can hold.
_MOST_BUCKETS: Final = 32_767


def new_bucket_count(files: Sequence[DataFile], options: PostponedBucketOptions) -> int:
    """Return the number of buckets of a partition that has none and gets the rows of these files."""
    if options.default_count is not None:
        return options.default_count
    if options.target_row_count is not None:
        wanted = -(-sum(file.row_count for file in files) // options.target_row_count)
    else:
        wanted = -(-sum(file.file_size for file in files) // options.target_size_bytes)
    return max(1, min(wanted, _MOST_BUCKETS))
