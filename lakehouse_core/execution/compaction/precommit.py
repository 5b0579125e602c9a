"""Pre-commit compaction: combine small files of a staged commit; `planning/compaction/precommit` chooses them.

The small files are deleted once all files that replace them are written; until then the caller owns them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.compaction.append import AppendCompactionPlan
from lakehouse_core.planning.compaction.precommit import (
    Group,
    changelog_groups,
    data_file_groups,
    with_packed,
    with_segments,
)
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.bucketing import has_buckets
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile, FileSource
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.changelogs.concatenate import JoinTask, join_answer, run_join
from lakehouse_core.tasks.compact import RewriteTask, planned_files, rewrite_answer, run_rewrite


def with_joined_changelog(
    table: TableContext, schema: TableSchema, messages: Sequence[CommitMessage]
) -> tuple[CommitMessage, ...]:
    """Return the messages with the small changelog files of each partition joined in one object.

    REQUIRES: an option asks for it. Raises as the tasks do; then the files of `messages` still exist, and no new ones.
    """
    if schema.is_append:
        return tuple(messages)
    groups = changelog_groups(messages, schema.table_options)
    if not groups:
        return tuple(messages)
    folders = DataLayout(schema)
    tasks = [_join_task(table, folders, messages, group, number) for number, group in enumerate(groups)]
    made: dict[int, str] = {}
    try:
        for text in table.engine().run(run_join, tasks):
            number, name = join_answer(text)
            made[number] = name
    except BaseException:
        clear_away(table.store, [f"{tasks[number].folder}/{name}" for number, name in made.items()])
        raise
    clear_away(table.store, [key for task in tasks for key, _ in task.files])
    return with_segments(messages, {made[number]: group for number, group in enumerate(groups)})


def with_packed_files(
    table: TableContext,
    schema: TableSchema,
    messages: Sequence[CommitMessage],
) -> tuple[CommitMessage, ...]:
    """Return the messages with the small new files of each partition combined in one file.

    Only for append tables without buckets, as in Java. REQUIRES: an option asks for it. Raises as the tasks do; then
    the files of `messages` still exist, and no new ones.
    """
    if has_buckets(schema.bucketing):
        return tuple(messages)
    groups = data_file_groups(messages, schema.table_options)
    if not groups:
        return tuple(messages)
    folders = DataLayout(schema)
    tasks = [_pack_task(table, schema, folders, messages, group) for group in groups]
    planned = planned_files(tasks)
    packed: dict[frozenset[str], tuple[DataFile, ...]] = {}
    try:
        for text in table.engine().run(run_rewrite, [(task,) for task in tasks]):
            for message in rewrite_answer(text, planned):
                packed[_names(message.compact_before)] = message.compact_after
    except BaseException:
        for task in tasks:
            clear_away(table.store, _keys(task.folder, packed.get(_names(task.plan.files), ())))
        raise
    for task in tasks:
        clear_away(table.store, _keys(task.folder, task.plan.files))
    # The rows are new, so the files count as appended. Java counts them as compacted, and a long-lived changelog keeps
    # no compacted files.
    made = [
        [replace(file, file_source=FileSource.APPEND) for file in packed[_names(task.plan.files)]] for task in tasks
    ]
    return with_packed(messages, zip(groups, made, strict=True))


def _join_task(
    table: TableContext, folders: DataLayout, messages: Sequence[CommitMessage], group: Group, number: int
) -> JoinTask:
    first = messages[group[0].index]
    places = [messages[new.index] for new in group]
    return JoinTask(
        number=number,
        store=table.store.spec,
        folder=folders.bucket(first.partition, first.bucket),
        bucket=first.bucket,
        file_format=group[0].file.format,
        files=tuple(
            (f"{folders.bucket(place.partition, place.bucket)}/{new.file.file_name}", new.file.file_size)
            for place, new in zip(places, group, strict=True)
        ),
    )


def _pack_task(
    table: TableContext, schema: TableSchema, folders: DataLayout, messages: Sequence[CommitMessage], group: Group
) -> RewriteTask:
    first = messages[group[0].index]
    return RewriteTask(
        store=table.store.spec,
        schema=schema,
        file_schemas={schema.id: schema},
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        folder=folders.bucket(first.partition, first.bucket),
        plan=AppendCompactionPlan(groups=(tuple(new.file for new in group),), reason="small files"),
    )


def _names(files: Iterable[DataFile]) -> frozenset[str]:
    return frozenset(file.file_name for file in files)


def _keys(folder: str, files: Iterable[DataFile]) -> list[str]:
    return [f"{folder}/{name}" for file in files for name in file.all_names]
