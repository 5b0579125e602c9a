"""Deletion vectors: whether rows are marked as deleted beside the files that hold them.

Source: docs/semantics/deletion-vectors.md.
"""

from dataclasses import dataclass

from lakehouse_core.options.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorOptions:
    """Whether rows are marked as deleted beside the files that hold them; `bits64`: in the form for large files.

    `merge_on_read`: of a key table what no compaction has seen yet is read too, which needs a merge.
    """

    enabled: bool = False
    merge_on_read: bool = False
    bits64: bool = False
    index_file_target_bytes: int = 2 << 20


def deletion_vector_options(source: Source) -> DeletionVectorOptions:
    return DeletionVectorOptions(
        enabled=source.flag("deletion-vectors.enabled"),
        merge_on_read=source.flag("deletion-vectors.merge-on-read"),
        bits64=source.flag("deletion-vectors.bitmap64"),
        index_file_target_bytes=source.size("deletion-vector.index-file.target-size"),
    )
