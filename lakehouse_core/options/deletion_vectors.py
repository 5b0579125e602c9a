"""Deletion vector options: whether deleted rows are marked in files beside the data files.

Source: docs/semantics/deletion-vectors.md.
"""

from dataclasses import dataclass

from lakehouse_core.options.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorOptions:
    """Whether deleted rows are marked beside their data files. `bits64`: in the form for large files.

    `merge_on_read`: a read of a key table also merges the files that no compaction has processed.
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
