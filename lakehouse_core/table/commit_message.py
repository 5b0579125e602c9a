"""Commit messages: the files that writers and compactions pass to the committer.

Rule: all values have a versioned JSON form; nothing is pickled between two steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.index_file import IndexFile

# The identifier of batch commits, which have no number of their own. Stored in snapshots. Never change.
BATCH_IDENTIFIER = 2**63 - 1


class CommitKind(StrEnum):
    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The file changes of one task in one bucket. `partition` is a serialized BinaryRow.

    To change an index file, a task writes a new one and deletes the old one. `new_index_files` and
    `deleted_index_files` belong to the new files, those of the compaction to it. `read_index_files`: the hash indexes
    that gave the rows of the new files their bucket, and do not change.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    compact_changelog_files: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    compact_new_index_files: tuple[IndexFile, ...] = ()
    compact_deleted_index_files: tuple[IndexFile, ...] = ()
    read_index_files: tuple[IndexFile, ...] = ()

    @property
    def index_files(self) -> tuple[IndexFile, ...]:
        """All added and deleted index files."""
        return (
            *self.new_index_files,
            *self.deleted_index_files,
            *self.compact_new_index_files,
            *self.compact_deleted_index_files,
        )


@dataclass(frozen=True, slots=True)
class Append:
    """Add files to the live ones."""


@dataclass(frozen=True, slots=True)
class StaticOverwrite:
    """Replace the partitions that match `partition` (column → its text; empty: the whole table)."""

    partition: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.partition, Mapping):
            raise InvalidRequest(f"StaticOverwrite({shown(self.partition)}): expected a dict from columns to texts.")
        for name, text in self.partition.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InvalidRequest(
                    f"StaticOverwrite: {shown(name)} = {shown(text)}: columns and the values of partitions are text."
                )


@dataclass(frozen=True, slots=True)
class DynamicOverwrite:
    """Replace exactly the partitions that have new files."""


# The treatment of a table column that the data of a write lacks.
Missing: TypeAlias = Literal["null", "error"]
WriteMode: TypeAlias = Append | StaticOverwrite | DynamicOverwrite
