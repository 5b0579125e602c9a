"""Key places: what a write must read to know where the keys of a table are, if keys move between partitions.

Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from lakehouse_core.execution.context import TableContext
from lakehouse_core.options import ChangelogProducer, MergeEngine
from lakehouse_core.planning.commit.overwrites import overwritten, static_scope
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.planning.read.splits import plan_splits
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.table.commit_message import Append, CommitMessage, StaticOverwrite, WriteMode
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import live_rows
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.keys.live import KeySource, PlacedFiles
from lakehouse_core.tasks.write.keys.placer import KeyPlaces


def key_places(
    table: TableContext,
    schema: TableSchema,
    base: Snapshot | None,
    mode: WriteMode,
    behind: Sequence[StagedCommit] = (),
    *,
    rewritten: Sequence[CommitMessage] = (),
) -> KeyPlaces:
    """Return what a write at `base` knows of the places of keys. `behind`: staged commits that come before it.
    `rewritten`: messages of the same commit, by which whole buckets lose their files, or have others.

    REQUIRES: keys move between the partitions of the table. Raises CorruptTable, UnsupportedFeature.
    """
    replaces = not isinstance(mode, Append)
    covers = static_scope(mode.partition, schema) if isinstance(mode, StaticOverwrite) else None
    seed = UUID(table.clock.uuid()).int
    source = key_source(table, schema, base, without=covers, behind=() if replaces else behind)
    gone = {(message.partition, message.bucket) for message in rewritten if message.deleted_files}
    if gone:
        source = replace(
            source,
            splits=tuple(split for split in source.splits if (split.partition, split.bucket) not in gone),
            behind=tuple(placed_files((message for message in rewritten if message.deleted_files), schema)),
            file_schemas={**source.file_schemas, schema.id: schema},
        )
    options = schema.table_options
    tells = not replaces and options.changelog_producer is ChangelogProducer.INPUT
    return KeyPlaces(
        source=source,
        seed=seed,
        replaces=replaces,
        tells_all=tells and options.merge_engine is MergeEngine.DEDUPLICATE,
    )


def key_source(
    table: TableContext,
    schema: TableSchema,
    snapshot: Snapshot | None,
    *,
    without: Callable[[bytes], bool] | None = None,
    behind: Sequence[StagedCommit] = (),
) -> KeySource:
    """Return the files that have the keys of `snapshot`, but for the partitions `without`, and of the commits `behind`
    it. Raises CorruptTable, UnsupportedFeature.
    """
    gone = [found for each in behind if (found := overwritten(each, schema)) is not None]
    left_out = [*gone, *([] if without is None else [without])]
    staged = tuple(_staged_files(behind, schema))
    ids = {file.schema_id for each in staged for file in each.files}
    source = KeySource(
        store=table.store.spec,
        schema=schema,
        behind=staged,
        file_schemas={number: table.schemas.schema(number) for number in sorted(ids)},
    )
    return source if snapshot is None else _with_state(table, source, snapshot, left_out)


def placed_files(messages: Iterable[CommitMessage], schema: TableSchema) -> Iterator[PlacedFiles]:
    """Yield the new files of each message."""
    folders = DataLayout(schema)
    for message in messages:
        if message.new_files:
            folder = folders.bucket(message.partition, message.bucket)
            yield PlacedFiles(
                partition=message.partition, bucket=message.bucket, folder=folder, files=message.new_files
            )


def _staged_files(behind: Sequence[StagedCommit], schema: TableSchema) -> Iterator[PlacedFiles]:
    """Yield the files of the commits that none of those after them replaces."""
    for number, staged in enumerate(behind):
        later = [found for each in behind[number + 1 :] if (found := overwritten(each, schema)) is not None]
        for placed in placed_files(staged.messages, schema):
            if not any(covers(placed.partition) for covers in later):
                yield placed


def _with_state(
    table: TableContext, source: KeySource, snapshot: Snapshot, left_out: Sequence[Callable[[bytes], bool]]
) -> KeySource:
    schema = source.schema
    entries = table.manifests.columns(table.manifests.of(snapshot))
    live = live_rows(entries)
    ids = np.unique(entries.schema_ids[live]).tolist()
    file_schemas = {**source.file_schemas, **{number: table.schemas.schema(number) for number in ids}}
    ttl_millis = schema.table_options.dynamic_buckets.key_ttl_millis
    since = None if ttl_millis is None else table.clock.local_now_millis() - ttl_millis
    splits = plan_splits(
        entries,
        live,
        # Keys in files that readers skip until they are compacted are there too.
        ScanScope(schema, None, every_level=True, created_from_millis=since),
        snapshot_id=snapshot.id,
        file_schemas=file_schemas,
        deletions=deletion_files(table.manifests.index_entries(snapshot), DataLayout(schema)),
    )
    kept = tuple(split for split in splits if not any(covers(split.partition) for covers in left_out))
    return KeySource(store=source.store, schema=schema, splits=kept, behind=source.behind, file_schemas=file_schemas)
