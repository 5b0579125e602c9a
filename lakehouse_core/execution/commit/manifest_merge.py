"""Manifest merge: rewrite a group of small manifests as one manifest, or all manifests without their deleted entries.

Rule: the live entries of a snapshot stay the same. `planning/commit/manifest_merge` chooses the manifests.
Source: docs/semantics/commit.md#manifest-merge.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.avro_container import BLOCK_BYTES, AvroBlock, build_container, open_container
from lakehouse_core.metadata.manifest_writer import ManifestWriter
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.planning.commit.manifest_merge import (
    Deletions,
    FullMerge,
    combined,
    entries_per_manifest,
    manifests_to_rewrite,
    minor_groups,
    plan_full,
)
from lakehouse_core.table.manifest import (
    EntryKind,
    ManifestEntry,
    ManifestFile,
    merge_entries,
)
from lakehouse_core.table.manifest.avro_schemas import MANIFEST_SCHEMA


def merge_groups(
    table: TableContext, writer: ManifestWriter, groups: Iterable[Sequence[ManifestFile]]
) -> list[ManifestFile]:
    """Return the manifests that replace those of the groups: each group becomes one."""
    merged: list[ManifestFile] = []
    for group in groups:
        merged.extend(group if len(group) == 1 else _merge_group(table, writer, group))
    return merged


def merge_full(
    table: TableContext, writer: ManifestWriter, manifests: Sequence[ManifestFile]
) -> list[ManifestFile] | None:
    """Return the manifests after a full merge, None when the merge would change nothing.

    Two passes, one manifest at a time: memory holds the deletes and the entries of one new manifest.
    """
    changing = manifests_to_rewrite(manifests, target_bytes=writer.target_bytes)
    deleting = [manifest for manifest in changing if manifest.num_deleted_files > 0]
    deletions = Deletions(entry for entries in table.manifests.entries_of_each(deleting) for entry in entries)
    plan = plan_full(
        manifests,
        deletions.partitions,
        writer.partition_types,
        target_bytes=writer.target_bytes,
        keeps_order=writer.keeps_order,
    )
    if plan is None:
        return None
    return _rewrite(table, writer, plan, deletions)


def _rewrite(table: TableContext, writer: ManifestWriter, plan: FullMerge, deletions: Deletions) -> list[ManifestFile]:
    if not deletions.partitions:
        groups = minor_groups(plan.rewritten, target_bytes=writer.target_bytes, min_count=1)
        return [*plan.kept, *merge_groups(table, writer, groups)]
    per_manifest = entries_per_manifest(plan.rewritten, target_bytes=writer.target_bytes)
    written: list[ManifestFile] = []
    part: list[ManifestEntry] = []
    kept = list(plan.kept)
    for manifest, entries in zip(
        plan.rewritten, table.manifests.entries_of_each(plan.rewritten, with_stats=True), strict=True
    ):
        left = [entry for entry in entries if entry.kind is EntryKind.ADD and not deletions.undo(entry)]
        if len(left) == len(entries) and manifest.file_name in plan.spared:
            kept.append(manifest)
            continue
        part.extend(left)
        while len(part) >= per_manifest:
            written.extend(writer.write_entries(part[:per_manifest]))
            part = part[per_manifest:]
    written.extend(writer.write_entries([*part, *deletions.unmet()]))
    return [*kept, *written]


def _merge_group(table: TableContext, writer: ManifestWriter, group: Sequence[ManifestFile]) -> list[ManifestFile]:
    copied = _copy_blocks(table, writer, group)
    if copied is not None:
        return [copied]
    read = table.manifests.entries_of_each(group, with_stats=True)
    return writer.write_entries(merge_entries(entry for entries in read for entry in entries))


def _copy_blocks(table: TableContext, writer: ManifestWriter, group: Sequence[ManifestFile]) -> ManifestFile | None:
    """Return one manifest with the blocks of all in `group`, copied without decoding the entries.

    None when a manifest has delete entries, or was written with other fields. Ten times faster than entry by entry.
    """
    if any(manifest.num_deleted_files for manifest in group):
        return None
    blocks: list[AvroBlock] = []
    # A disk is fastest one by one.
    read = in_order(table.manifests.bytes_of, group, ahead=1, at_once=table.store.requests_at_once)
    for manifest, data in zip(group, read, strict=True):
        container = open_container(data, manifest.file_name)
        if container.schema != MANIFEST_SCHEMA:
            return None
        blocks.extend(container.blocks)
    schema = json.dumps(MANIFEST_SCHEMA, separators=(",", ":"), ensure_ascii=False)
    copied = build_container(schema, _joined(blocks), codec=writer.codec, metadata={})
    name = writer.write_bytes(copied)
    return replace(
        combined(group, writer.partition_types),
        file_name=name,
        file_size=len(copied),
        checksum=writer.checksum_of(name),
    )


def _joined(blocks: Iterable[AvroBlock]) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks, adjacent ones joined up to the usual size: each commit wrote a small block of its own."""
    count, parts, size = 0, [], 0
    for block in blocks:
        count, size = count + block.count, size + len(block.data)
        parts.append(block.data)
        if size >= BLOCK_BYTES:
            yield count, b"".join(parts)
            count, parts, size = 0, [], 0
    if count:
        yield count, b"".join(parts)
