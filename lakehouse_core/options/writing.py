"""Write options: the handling of a full write buffer, and of small files before a commit.

Source: docs/semantics/writing.md#write-buffer, docs/semantics/compaction.md#pre-commit-compaction.
"""

from dataclasses import dataclass
from typing import Final

from lakehouse_core.options.source import Source

# A merge of spilled runs reads two, at least, and writes one.
LEAST_SPILL_FILES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecommitOptions:
    """Whether small new files are combined before a commit.

    Changelog files of at least `buffer_bytes` are not small.
    """

    is_enabled: bool = False
    buffer_bytes: int = 128 << 20


def precommit_options(source: Source) -> PrecommitOptions:
    return PrecommitOptions(
        is_enabled=source.flag("precommit-compact"),
        buffer_bytes=source.size("changelog.precommit-compact.buffer-size"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillOptions:
    """Where a full write buffer goes: into sorted runs on local disk, up to a number of bytes and of open files.

    When spilling is off, or the disk has no room, the buffer becomes files of level 0. `compression`: zstd, lz4 or
    none.
    """

    is_enabled: bool = True
    most_disk_bytes: int = 2**63 - 1
    most_files: int = 128
    compression: str = "zstd"
    zstd_level: int = 1


def spill_options(source: Source) -> SpillOptions:
    return SpillOptions(
        is_enabled=source.flag("write-buffer-spillable"),
        most_disk_bytes=source.size("write-buffer-spill.max-disk-size"),
        most_files=source.whole("local-sort.max-num-file-handles"),
        compression=source.required("spill-compression").lower(),
        zstd_level=source.whole("spill-compression.zstd-level"),
    )
