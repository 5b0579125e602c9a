"""Compaction: what to rewrite in a bucket, what to lift without rewriting, and why.

Source: Paimon semantics, "Full compaction pick" (C.5), "dropDelete" (C.6), "Compaction task" (C.7) and "Compaction of
append tables" (C.9). The strategy that picks runs by itself joins `plan_full_compaction` here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Literal, TypeAlias

from lakehouse_core.planning.sections import Section, sections
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import Levels, levels_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sorted_run import KeyedFile, SortedRun

Reason: TypeAlias = Literal["full compaction", "small files"]


class Telling(Enum):
    """What a step tells the changelog, and how it finds out what was before."""

    NOTHING = "nothing"
    # Before is what the top level, which is the output, held.
    TOP_LEVEL = "top level"
    # Before is what the lowest level above 0 holds, within the compaction or beyond it; it may be marked deleted there.
    LOOKUP = "lookup"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Move the file to the output level in the metadata; its bytes stay."""

    file: DataFile
    telling: Telling = Telling.NOTHING


@dataclass(frozen=True, slots=True)
class Merge:
    """Read the sections in key order, merge each, and write the rows as new files of the output level."""

    sections: tuple[Section, ...]
    telling: Telling = Telling.NOTHING

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for run in section for file in run.data_files)


Step: TypeAlias = Upgrade | Merge


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """What to do with some files of one bucket of a key table, in key order.

    `drops_deletes`: nothing older lies below the output level, so deleted rows need not be remembered.
    """

    output_level: int
    drops_deletes: bool
    steps: tuple[Step, ...]
    reason: Reason
    older: tuple[SortedRun, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files that leave their present place."""
        return tuple(
            file for step in self.steps for file in ((step.file,) if isinstance(step, Upgrade) else step.files)
        )

    @property
    def rewritten_bytes(self) -> int:
        return sum(file.file_size for step in self.steps if isinstance(step, Merge) for file in step.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCompactionPlan:
    """Rewrite files of one bucket of an append table as few: each group one behind the other, in the order given."""

    groups: tuple[tuple[DataFile, ...], ...]
    reason: Reason

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for group in self.groups for file in group)

    @property
    def rewritten_bytes(self) -> int:
        return sum(file.file_size for file in self.files)


def plan_full_compaction(levels: Levels, *, min_file_size_bytes: int) -> CompactionPlan | None:
    """Return how to bring a bucket to its top level, or None when it is there.

    Files of at least `min_file_size_bytes` that share no key with others are lifted, not rewritten.
    """
    if not levels.runs or (len(levels.runs) == 1 and levels.runs[0].level == levels.max_level):
        return None
    files = [keyed for leveled in levels.runs for keyed in leveled.run.files]
    return CompactionPlan(
        output_level=levels.max_level,
        drops_deletes=drops_deletes(levels.max_level, levels),
        steps=compaction_steps(files, levels.max_level, levels, min_file_size_bytes=min_file_size_bytes),
        reason="full compaction",
    )


def drops_deletes(output_level: int, levels: Levels) -> bool:
    """Say whether a compaction into `output_level` may forget deleted rows: nothing older lies below it."""
    return output_level != 0 and output_level >= levels.highest_filled_level


def compaction_steps(
    files: Iterable[KeyedFile], output_level: int, levels: Levels, *, min_file_size_bytes: int
) -> tuple[Step, ...]:
    """Return what to do with `files`, which are to end in `output_level`, in key order.

    Small neighbours are merged into one file on the way; a lone small file between large ones is not worth a rewrite.
    """
    steps: list[Step] = []
    pending: list[Section] = []

    def lift(keyed: KeyedFile) -> None:
        # The top level holds no deletes, so that what reads it alone need not look for them.
        if output_level == levels.max_level and keyed.file.delete_row_count != 0:
            steps.append(Merge(sections([keyed])))
        elif keyed.file.level != output_level:
            steps.append(Upgrade(keyed.file))

    def flush() -> None:
        if len(pending) == 1 and len(pending[0]) == 1:
            for keyed in pending[0][0].files:
                lift(keyed)
        elif pending:
            steps.append(Merge(tuple(pending)))
        pending.clear()

    for section in sections(files):
        if len(section) > 1:
            pending.append(section)
            continue
        for keyed in section[0].files:
            if keyed.file.file_size < min_file_size_bytes:
                pending.extend(sections([keyed]))
            else:
                flush()
                lift(keyed)
    flush()
    return tuple(steps)


def plan_append_compaction(
    files: Sequence[DataFile], *, target_file_size_bytes: int, small_file_ratio: float, is_ordered: bool
) -> AppendCompactionPlan | None:
    """Return which small files of one bucket (or of a partition without buckets) to pack, or None.

    Small is below `target_file_size_bytes * small_file_ratio`. `is_ordered`: rows keep the order of their sequence
    numbers, so only neighbours are packed; otherwise all small files are, oldest first, two target files to a group.
    """
    small_bytes = target_file_size_bytes * small_file_ratio
    if is_ordered:
        ordered = sorted(files, key=lambda file: (file.min_sequence_number, file.max_sequence_number, file.file_name))
        neighbours = groupby(ordered, key=lambda file: file.file_size < small_bytes)
        groups = [tuple(group) for is_small, group in neighbours if is_small]
    else:
        oldest = sorted(files, key=lambda file: file.creation_time_millis or 0)
        groups = _bins([file for file in oldest if file.file_size < small_bytes], 2 * target_file_size_bytes)
    groups = [group for group in groups if len(group) > 1]
    return AppendCompactionPlan(groups=tuple(groups), reason="small files") if groups else None


def _bins(files: Iterable[DataFile], full_bytes: int) -> list[tuple[DataFile, ...]]:
    """Fill one bin after another, in order, each until it holds `full_bytes`."""
    bins: list[tuple[DataFile, ...]] = []
    current: list[DataFile] = []
    for file in files:
        current.append(file)
        if len(current) > 1 and sum(one.file_size for one in current) >= full_bytes:
            bins.append(tuple(current))
            current = []
    if current:
        bins.append(tuple(current))
    return bins


def plan_bucket(files: Sequence[DataFile], schema: TableSchema) -> CompactionPlan | AppendCompactionPlan | None:
    """Return the full compaction of one bucket's live files, or None when it has nothing to gain.

    Raises CorruptTable when the files contradict each other.
    """
    options = schema.table_options
    target_bytes = options.target_file_size_bytes(has_key=not schema.is_append)
    if schema.is_append:
        return plan_append_compaction(
            files,
            target_file_size_bytes=target_bytes,
            small_file_ratio=options.small_file_ratio,
            is_ordered=options.bucket > 0,
        )
    levels = levels_of(files, [field.type for field in schema.key_fields], level_count=options.num_levels)
    return plan_full_compaction(levels, min_file_size_bytes=int(target_bytes * options.small_file_ratio))
