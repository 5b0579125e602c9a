"""Compaction plan: the steps of a compaction of one bucket of a key table, as a value.

Source: docs/semantics/compaction.md#compaction-task, docs/semantics/changelog.md#upgrades.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from lakehouse_core.planning.compaction.universal import PickReason
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sections import Section
from lakehouse_core.table.sorted_run import SortedRun

Reason: TypeAlias = PickReason | Literal["full compaction", "expired rows", "deleted rows", "rewrite requested"]


class ChangelogMode(Enum):
    """The changelog that a step emits, and where it finds the before image."""

    NOTHING = "nothing"
    # The before image is in the top level, which is the output level.
    TOP_LEVEL = "top level"
    # The before image is in the lowest level above 0, inside the compaction or in a looked-up run,
    # where a deletion vector may mark it.
    LOOKUP = "lookup"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Move the file to the output level in the metadata; its bytes stay."""

    file: DataFile
    changelog_mode: ChangelogMode = ChangelogMode.NOTHING


@dataclass(frozen=True, slots=True)
class Merge:
    """Read the sections in key order, merge each, and write the rows as new files of the output level."""

    sections: tuple[Section, ...]
    changelog_mode: ChangelogMode = ChangelogMode.NOTHING

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for run in section for file in run.data_files)


Step: TypeAlias = Upgrade | Merge


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The compaction of some files of one bucket of a key table; steps are in key order.

    `drops_deletes`: no older version is below the output level, so delete records are dropped. `older`: the looked-up
    runs, from the levels above the output level upwards, which stay; a lookup searches them in this order.
    `emits_changelog`: whether steps with lookups emit a changelog.
    """

    output_level: int
    drops_deletes: bool
    steps: tuple[Step, ...]
    reason: Reason
    older: tuple[SortedRun, ...] = ()
    emits_changelog: bool = False

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files that the steps rewrite or upgrade."""
        return tuple(
            file for step in self.steps for file in ((step.file,) if isinstance(step, Upgrade) else step.files)
        )

    @property
    def rewritten_bytes(self) -> int:
        return sum(file.file_size for step in self.steps if isinstance(step, Merge) for file in step.files)
