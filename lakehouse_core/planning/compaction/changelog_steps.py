"""Changelog steps: choose the compaction steps that emit changelog records and the files they merge.

Rule: the producer full-compaction emits the changes that reach the top level. A table whose compactions
look up emits the changes that leave level 0.
Source: docs/semantics/changelog.md#full-compaction, docs/semantics/changelog.md#lookup.
"""

from dataclasses import replace

from lakehouse_core.options import ChangelogProducer, MergeEngine, TableOptions
from lakehouse_core.planning.commit_order import crossing_files
from lakehouse_core.planning.compaction.plan import ChangelogMode, CompactionPlan, Merge, Step, Upgrade
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files


def with_changelog_steps(
    plan: CompactionPlan, schema: TableSchema, *, top_level: int, emits_changelog: bool = True
) -> CompactionPlan:
    """Return the plan with the changelog mode of each step that emits changelog records or looks versions up.

    `emits_changelog`: write the changelog of the table's producer. Lookups do not depend on it.
    """
    options = schema.table_options
    if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        if plan.output_level < top_level or not emits_changelog:
            return plan
        return replace(plan, steps=tuple(replace(step, changelog_mode=ChangelogMode.TOP_LEVEL) for step in plan.steps))
    if not options.needs_lookup:
        return plan
    emits_changelog = emits_changelog and options.changelog_producer is ChangelogProducer.LOOKUP
    key_types = [field.type for field in schema.key_fields]
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, Merge):
            from_level_0 = any(file.level == 0 for file in step.files)
            steps.append(replace(step, changelog_mode=ChangelogMode.LOOKUP) if from_level_0 else step)
        elif step.file.level == 0:
            (keyed,) = keyed_files([step.file], key_types)
            above = [file for run in plan.older for file in run.data_files]
            is_newest = not any(crossing_files(above, [step.file], key_types))
            is_top = plan.output_level == top_level
            steps.append(
                _from_level_0(keyed, options, is_newest=is_newest, is_top=is_top, emits_changelog=emits_changelog)
            )
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps), emits_changelog=emits_changelog)


def _from_level_0(
    keyed: KeyedFile, options: TableOptions, *, is_newest: bool, is_top: bool, emits_changelog: bool
) -> Step:
    """Return the step of a level-0 file that shares no key with others of its compaction.

    `is_newest`: by sequence numbers, the file's records win over those of higher levels. Java assumes that always; its
    concurrent writers may have numbered in another order.
    """
    picks_newest = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
    keeps_bytes = is_top or (picks_newest and is_newest)
    if options.deletion_vectors.enabled and keyed.file.delete_row_count != 0:
        # Deletion vectors mark the deleted rows; the delete records themselves are not needed any more.
        keeps_bytes = False
    if not keeps_bytes:
        return Merge(sections([keyed]), changelog_mode=ChangelogMode.LOOKUP)
    is_of_use = emits_changelog or (options.deletion_vectors.enabled and not is_top)
    return Upgrade(keyed.file, changelog_mode=ChangelogMode.LOOKUP if is_of_use else ChangelogMode.NOTHING)
