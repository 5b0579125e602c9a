"""Compaction of a bucket: choose the files to rewrite and those to upgrade, and give the reason.

Source: docs/semantics/compaction.md#full-compaction, docs/semantics/compaction.md#dropping-deletes,
docs/semantics/compaction.md#compaction-task.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from lakehouse_core.options import ChangelogProducer, TableOptions
from lakehouse_core.planning.compaction.append import (
    NOTHING_MARKED,
    AppendCompactionPlan,
    Marked,
    plan_append_compaction,
)
from lakehouse_core.planning.compaction.changelog_steps import with_changelog_steps
from lakehouse_core.planning.compaction.plan import CompactionPlan, Merge, Reason, Step, Upgrade
from lakehouse_core.planning.compaction.universal import PickTime, last_full_compaction_millis, pick_runs
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_stats import file_ranges
from lakehouse_core.table.levels import Levels, LevelSortedRun, levels_of
from lakehouse_core.table.record_expiry import RecordExpiry, is_expired
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import Section, sections
from lakehouse_core.table.sorted_run import KeyedFile


def plan_bucket(
    files: Sequence[DataFile],
    schema: TableSchema,
    *,
    full: bool = True,
    occasion: PickTime | None = None,
    expired: Collection[str] = frozenset(),
    marked: Marked = NOTHING_MARKED,
    emits_changelog: bool = True,
) -> CompactionPlan | AppendCompactionPlan | None:
    """Return the compaction of one bucket's live files, `full` or as the strategy picks; None: there is nothing to
    gain.

    `occasion` is input of the strategy; if it names no last full compaction, its time comes from the files.
    `expired`: names of files with expired rows. `marked`: names of files with deletion vectors.
    `emits_changelog`: write the changelog of the table's producer. Raises CorruptTable if the files contradict each
    other.
    """
    options = schema.table_options
    if schema.is_append:
        return plan_append_compaction(files, options, schema.bucketing, full=full, marked=marked)
    levels = levels_of(files, [field.type for field in schema.key_fields], level_count=options.num_levels)
    if full:
        plan = plan_full_compaction(levels, options, expired=expired, marked=marked)
    else:
        assert occasion is not None
        if occasion.last_full_millis is None:
            occasion = replace(occasion, last_full_millis=last_full_compaction_millis(levels))
        # Each commit since level 0 was last compacted by force left one run there, and was one trigger.
        waiting = sum(leveled.level == 0 for leveled in levels.runs)
        occasion = replace(occasion, skipped_triggers=max(occasion.skipped_triggers, waiting - 1))
        plan = plan_minor_compaction(levels, options, occasion, expired=expired)
    if plan is None or not (options.needs_lookup or options.changelog_producer is ChangelogProducer.FULL_COMPACTION):
        return plan
    return with_changelog_steps(plan, schema, top_level=levels.max_level, emits_changelog=emits_changelog)


def expired_files(
    files: Iterable[DataFile], expiry: RecordExpiry, file_schemas: Mapping[int, TableSchema]
) -> frozenset[str]:
    """Return the names of the files that hold expired rows by their statistics. `file_schemas`: by id, the schemas of
    the files.
    """
    name, wanted = expiry.field.name, [expiry.field]
    found = []
    for file in files:
        bounds = file_ranges(file, file_schemas[file.schema_id], wanted).get(name)
        if bounds is not None and is_expired(bounds.minimum, expiry):
            found.append(file.file_name)
    return frozenset(found)


def plan_full_compaction(
    levels: Levels, options: TableOptions, *, expired: Collection[str] = frozenset(), marked: Collection[str] = ()
) -> CompactionPlan | None:
    """Return the plan that brings a bucket to its top level, None if it is there and needs no rewrite.

    Large files that share no key with others are upgraded, not rewritten, except those with expired rows or deletion
    vectors. In a bucket that is one run in its top level, only these files are rewritten, one by one, or all files if
    an option says so.
    """
    if not levels.runs:
        return None
    top = levels.max_level
    if len(levels.runs) > 1 or levels.runs[0].level != top:
        return _plan(levels, levels.runs, top, options, rewritten={*expired, *marked}, reason="full compaction")
    takes_all = options.compaction.rewrites_all_files
    files = [
        keyed
        for keyed in levels.runs[0].run.files
        if takes_all or keyed.file.file_name in expired or keyed.file.file_name in marked
    ]
    if not files:
        return None
    if takes_all:
        reason: Reason = "rewrite requested"
    else:
        reason = "expired rows" if any(keyed.file.file_name in expired for keyed in files) else "deleted rows"
    return CompactionPlan(
        output_level=top,
        drops_deletes=_drops_deletes(top, levels, options),
        steps=tuple(Merge(sections([keyed])) for keyed in files),
        reason=reason,
    )


def plan_minor_compaction(
    levels: Levels, options: TableOptions, occasion: PickTime, *, expired: Collection[str] = frozenset()
) -> CompactionPlan | None:
    """Return the plan of the strategy's next pick, None if the runs may stay as they are."""
    pick = pick_runs(levels, options.compaction, occasion)
    if pick is None:
        return None
    return _plan(levels, pick.runs, pick.output_level, options, rewritten=expired, reason=pick.reason)


def _plan(
    levels: Levels,
    runs: Sequence[LevelSortedRun],
    output_level: int,
    options: TableOptions,
    *,
    rewritten: Collection[str],
    reason: Reason,
) -> CompactionPlan:
    files = [keyed for leveled in runs for keyed in leveled.run.files]
    takes_all = options.compaction.rewrites_all_files
    target_bytes = options.target_file_size_bytes(has_key=True)
    # A level has its own file format: a file of another format from another level is rewritten.
    level_format = options.style_at(output_level).format
    foreign = [
        keyed.file.file_name
        for keyed in files
        if keyed.file.level != output_level and keyed.file.format != level_format
    ]
    return CompactionPlan(
        output_level=output_level,
        drops_deletes=_drops_deletes(output_level, levels, options),
        steps=compaction_steps(
            files,
            output_level,
            levels,
            min_file_size_bytes=int(target_bytes * options.compaction.small_file_ratio),
            rewritten=[keyed.file.file_name for keyed in files] if takes_all else [*rewritten, *foreign],
        ),
        reason=reason,
        older=tuple(leveled.run for leveled in levels.runs if leveled.level > output_level),
    )


def _drops_deletes(output_level: int, levels: Levels, options: TableOptions) -> bool:
    return drops_deletes(output_level, levels, marks_deleted=options.compaction.marks_deleted)


def drops_deletes(output_level: int, levels: Levels, *, marks_deleted: bool) -> bool:
    """Return whether a compaction into `output_level` may drop deletes, because no older version is below that level.

    `marks_deleted`: the table has deletion vectors, which mark older versions.
    """
    return output_level != 0 and (output_level >= levels.highest_filled_level or marks_deleted)


def compaction_steps(
    files: Iterable[KeyedFile],
    output_level: int,
    levels: Levels,
    *,
    min_file_size_bytes: int,
    rewritten: Collection[str] = frozenset(),
) -> tuple[Step, ...]:
    """Return the steps that bring `files` into `output_level`, in key order.

    Adjacent small files are merged into one; a single small file between large ones is not worth a rewrite. Files named
    in `rewritten` are never upgraded without a rewrite.
    """
    must_rewrite = frozenset(rewritten)
    steps: list[Step] = []
    pending: list[Section] = []

    def lift(keyed: KeyedFile) -> None:
        # The top level holds no deletes, so that a read of this level alone need not filter them.
        holds_deletes = output_level == levels.max_level and keyed.file.delete_row_count != 0
        if holds_deletes or keyed.file.file_name in must_rewrite:
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
