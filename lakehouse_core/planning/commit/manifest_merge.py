"""Manifest merge: choose the manifests to merge, so that a table of many commits is read from few manifests.

Source: docs/semantics/commit.md#manifest-merge; the thresholds are the table's options.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.manifests import manifests_of_partitions
from lakehouse_core.table.data_file import SimpleStats
from lakehouse_core.table.manifest import EntryKind, Identifier, ManifestEntry, ManifestFile, file_identifier
from lakehouse_core.table.stats import decode_stats


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMerge:
    """Rewrite the entries of `rewritten` without the deleted ones; `kept` stay as they are and come first.

    A manifest of `spared` is rewritten only if one of its entries was deleted.
    """

    kept: tuple[ManifestFile, ...]
    rewritten: tuple[ManifestFile, ...]
    spared: frozenset[str]


def minor_groups(
    manifests: Sequence[ManifestFile], *, target_bytes: int, min_count: int
) -> list[tuple[ManifestFile, ...]]:
    """Return the manifests in order, in groups to merge; a group of one stays as it is.

    A group ends when it reaches the target size. The last, smaller group is merged only if it has `min_count`
    manifests.
    """
    groups: list[tuple[ManifestFile, ...]] = []
    candidates: list[ManifestFile] = []
    for manifest in manifests:
        candidates.append(manifest)
        if sum(one.file_size for one in candidates) >= target_bytes:
            groups.append(tuple(candidates))
            candidates = []
    if candidates and len(candidates) >= min_count:
        return [*groups, tuple(candidates)]
    return [*groups, *((manifest,) for manifest in candidates)]


def manifests_to_rewrite(manifests: Iterable[ManifestFile], *, target_bytes: int) -> list[ManifestFile]:
    """Return the manifests that a full merge rewrites in any case: small ones, and those with deletes."""
    return [manifest for manifest in manifests if manifest.num_deleted_files > 0 or manifest.file_size < target_bytes]


def plan_full(
    manifests: Sequence[ManifestFile],
    deleted_partitions: Iterable[bytes],
    partition_types: Sequence[DataType],
    *,
    target_bytes: int,
    keeps_order: bool = False,
) -> FullMerge | None:
    """Return the plan of a full merge, None if it would change nothing.

    `deleted_partitions`: the partitions of all DELETE entries; only a manifest that may name their files can lose
    entries. With `keeps_order`, entries stay in the order of their commits: all manifests after the first rewritten one
    are rewritten too.
    """
    changing = {manifest.file_name for manifest in manifests_to_rewrite(manifests, target_bytes=target_bytes)}
    partitions = set(deleted_partitions)
    affected = set()
    if partitions:
        affected = {one.file_name for one in manifests_of_partitions(manifests, partitions, partition_types)}
    rewritten = [one for one in manifests if one.file_name in changing or one.file_name in affected]
    size = sum(one.file_size for one in rewritten)
    if not any(one.num_deleted_files for one in rewritten) and len(rewritten) <= max(1, -(-size // target_bytes)):
        # Nothing is gained without deletes to drop or fewer manifests. Otherwise manifests just below the target size
        # would be rewritten at every merge.
        return None
    if keeps_order:
        first = manifests.index(rewritten[0])
        return FullMerge(kept=tuple(manifests[:first]), rewritten=tuple(manifests[first:]), spared=frozenset())
    names = {one.file_name for one in rewritten}
    return FullMerge(
        kept=tuple(one for one in manifests if one.file_name not in names),
        rewritten=tuple(rewritten),
        spared=frozenset(affected - changing),
    )


class Deletions:
    """The DELETE entries of a full merge, each matched with the ADD that it undoes.

    Deletes are counted per identifier: a file that was added, deleted and added again is live.
    """

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        self._entries: dict[Identifier, ManifestEntry] = {}
        self._left: Counter[Identifier] = Counter()
        for entry in entries:
            if entry.kind is EntryKind.DELETE:
                identifier = file_identifier(entry)
                self._entries[identifier] = entry
                self._left[identifier] += 1

    @property
    def partitions(self) -> set[bytes]:
        return {entry.partition for entry in self._entries.values()}

    def undo(self, entry: ManifestEntry) -> bool:
        """Return whether the ADD `entry` was deleted later. REQUIRES: called once per entry, in commit order."""
        identifier = file_identifier(entry)
        if self._left[identifier] == 0:
            return False
        self._left[identifier] -= 1
        return True

    def unmet(self) -> list[ManifestEntry]:
        """Return the DELETE entries without a matching ADD; they must be kept."""
        return [entry for identifier, entry in self._entries.items() if self._left[identifier] > 0]


def entries_per_manifest(manifests: Iterable[ManifestFile], *, target_bytes: int) -> int:
    """Return how many entries fill a manifest of the target size, by the bytes per entry of `manifests`."""
    size = sum(manifest.file_size for manifest in manifests)
    count = sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
    return max(1, target_bytes * max(count, 1) // max(size, 1))


def replace_inputs(
    current: Sequence[ManifestFile], inputs: Sequence[ManifestFile], outputs: Sequence[ManifestFile]
) -> list[ManifestFile] | None:
    """Return `current` with `inputs` replaced by `outputs`, the result of an earlier merge.

    None if the list does not begin with `inputs` any more, because another commit merged them. Appends do not matter.
    """
    names = [manifest.file_name for manifest in inputs]
    if [manifest.file_name for manifest in current[: len(names)]] != names:
        return None
    return [*outputs, *current[len(names) :]]


def combined(manifests: Sequence[ManifestFile], partition_types: Sequence[DataType]) -> ManifestFile:
    """Return the description of one manifest with the entries of all; the caller fills in name, size and checksum."""
    return replace(
        manifests[0],
        num_added_files=sum(one.num_added_files for one in manifests),
        num_deleted_files=sum(one.num_deleted_files for one in manifests),
        partition_stats=_combined_stats(manifests, partition_types),
        schema_id=max(one.schema_id for one in manifests),
        min_bucket=_lowest([one.min_bucket for one in manifests]),
        max_bucket=_highest([one.max_bucket for one in manifests]),
        min_level=_lowest([one.min_level for one in manifests]),
        max_level=_highest([one.max_level for one in manifests]),
        min_row_id=_lowest([one.min_row_id for one in manifests]),
        max_row_id=_highest([one.max_row_id for one in manifests]),
        checksum=None,
    )


def _lowest(values: Sequence[int | None]) -> int | None:
    """Return the smallest value, None if one of them is unknown."""
    present = [value for value in values if value is not None]
    return min(present) if len(present) == len(values) else None


def _highest(values: Sequence[int | None]) -> int | None:
    """Return the largest value, None if one of them is unknown."""
    present = [value for value in values if value is not None]
    return max(present) if len(present) == len(values) else None


def _combined_stats(manifests: Sequence[ManifestFile], types: Sequence[DataType]) -> SimpleStats:
    decoded = [decode_stats(one.partition_stats, types) for one in manifests]
    entry_counts = [one.num_added_files + one.num_deleted_files for one in manifests]
    columns = []
    for index in range(len(types)):
        nulls = [null_counts[index] for _, _, null_counts in decoded]
        # A column with only nulls has no bound, which is not a missing one.
        bounded = [
            (lows[index], highs[index])
            for (lows, highs, _), null_count, count in zip(decoded, nulls, entry_counts, strict=True)
            if null_count != count
        ]
        known = all(low is not None and high is not None for low, high in bounded)
        columns.append(
            (
                min(low for low, _ in bounded) if bounded and known else None,
                max(high for _, high in bounded) if bounded and known else None,
                None if None in nulls else sum(count for count in nulls if count is not None),
            )
        )
    return SimpleStats(
        min_values=serialize_row([low for low, _, _ in columns], types),
        max_values=serialize_row([high for _, high, _ in columns], types),
        null_counts=tuple(null_count for _, _, null_count in columns),
    )
