"""Read scope: what a statement read before it wrote, and whether a commit since then has changed it.

Rule: a statement that reads rows and writes others is applied only if it would have the same effect after the commits
that came in between. Files that it removes are compared with the live files as those of every commit; this module
compares keys and conditions.
Source: docs/semantics/row-changes.md#conflicts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.file_stats import file_ranges, key_ranges
from lakehouse_core.table.manifest import EntryKind, ManifestEntry
from lakehouse_core.table.predicate import (
    Predicate,
    holds,
    may_match,
    only_columns,
    simplify,
    without_columns,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files

# The statements that read rows before they write, as the field `operation` of a snapshot names them.
READING: Final = frozenset({"DELETE", "UPDATE", "MERGE", "TRUNCATE", "OVERWRITE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScope:
    """What a statement read at the base of its commit.

    `operation` names the statement in its snapshot. `condition`, bound to `schema`: the rows that it read; None: all.
    `sees_appends`: rows that a write added since then, and that satisfy the condition, are a conflict too.
    `sees_removals`: so are rows that were removed, because the statement does something else without them.
    `whole_buckets`: the statement replaces whole buckets. `whole_partitions`: it replaces all rows of its partitions.
    `moves_no_keys`: each key stays in its partition, so that what others did to keys of other partitions does not
    matter.
    """

    operation: str
    schema: TableSchema
    condition: Predicate | None = None
    sees_appends: bool = False
    sees_removals: bool = False
    whole_buckets: bool = False
    whole_partitions: bool = False
    moves_no_keys: bool = False

    @property
    def sees_marks(self) -> bool:
        """Whether rows that were marked as deleted are a conflict. The changes of data files do not tell of them."""
        return self.sees_removals and self.schema.is_append and self.schema.table_options.deletion_vectors.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterChanges:
    """The file changes of one snapshot since the base, with their statistics."""

    kind: CommitKind
    operation: str | None
    entries: Sequence[ManifestEntry]


def unseen_changes(
    scope: ReadScope,
    changes: FileChanges,
    later: Iterable[LaterChanges],
    file_schemas: Mapping[int, TableSchema],
) -> list[Conflict]:
    """Return the conflicts of a statement with the snapshots since its base. `changes`: what it adds and removes;
    `file_schemas`: by id, the schemas of the files in `later`.

    COMPACT snapshots are skipped: they change no rows. Rows that wait for their buckets may have any key of their
    partition. Raises CorruptTable for keys that cannot be decoded.
    """
    types = [field.type for field in scope.schema.key_fields]
    added: dict[tuple[bytes, int], list[KeyedFile]] = {}
    for entry in changes.entries if types else ():
        if entry.kind is EntryKind.ADD:
            # The keys of a waiting file are those of its first and its last row, which are in no order.
            keyed = keyed_files([entry.file], types) if is_placed(entry.bucket) else ()
            added.setdefault((entry.partition, entry.bucket), []).extend(keyed)
    waits = {partition for partition, bucket in added if not is_placed(bucket)}
    changed = {partition for partition, _ in added}
    replaced: set[tuple[bytes, int]] = set()
    if scope.whole_buckets:
        replaced = {(entry.partition, entry.bucket) for entry in changes.entries}
        replaced |= {(entry.partition, entry.bucket) for entry in changes.indexes}
    partitions = changes.partitions if scope.whole_partitions else frozenset()
    rows = _ScopeRows(scope, file_schemas)
    found = []
    for each in later:
        if each.kind is CommitKind.COMPACT:
            continue
        has_read = each.kind is CommitKind.OVERWRITE or each.operation in READING
        for entry in each.entries:
            place = (entry.partition, entry.bucket)
            is_new = entry.kind is EntryKind.ADD
            if entry.partition in partitions and rows.covers(entry.partition):
                found.append(_conflict(entry, "the whole partition is replaced"))
            elif place in replaced:
                found.append(_conflict(entry, "the whole bucket is replaced"))
            elif types and entry.partition in (waits if is_placed(entry.bucket) else changed):
                found.append(_conflict(entry, "rows that wait may have any key of their partition"))
            elif place in added and _meets(keyed_files([entry.file], types), added[place]):
                found.append(_conflict(entry, "it has keys in the range of the changed rows"))
            elif (has_read or scope.sees_appends if is_new else scope.sees_removals) and rows.may_hold(entry):
                found.append(_conflict(entry, "it may hold rows that satisfy the condition"))
    return found


class _ScopeRows:
    """Tells which files may hold rows that a statement reads."""

    def __init__(self, scope: ReadScope, file_schemas: Mapping[int, TableSchema]) -> None:
        schema = scope.schema
        self._schema = schema
        self._file_schemas = file_schemas
        self._types = [field.type for field in schema.partition_fields]
        self._partition_part = only_columns(scope.condition, schema.partition_keys)
        self._row_part = without_columns(scope.condition, schema.partition_keys)
        # A merged row combines several versions, so its values may be in none of the files.
        self._is_merged = not schema.is_append and schema.table_options.merge_engine not in (
            MergeEngine.DEDUPLICATE,
            MergeEngine.FIRST_ROW,
        )

    def covers(self, partition: bytes) -> bool:
        """Return whether the condition may hold for rows of a serialized partition."""
        return holds(self._partition_part, self._values(partition))

    def _values(self, partition: bytes) -> dict[str, Any]:
        return dict(zip(self._schema.partition_keys, deserialize_row(partition, self._types), strict=True))

    def may_hold(self, entry: ManifestEntry) -> bool:
        known = self._values(entry.partition)
        if not holds(self._partition_part, known):
            return False
        rest = True if self._row_part is None else simplify(self._row_part, known)
        if rest is None or isinstance(rest, bool):
            return rest is True
        file_schema = self._file_schemas[entry.file.schema_id]
        if not self._is_merged:
            return may_match(rest, file_ranges(entry.file, file_schema, self._schema.fields))
        keys = only_columns(rest, self._schema.trimmed_primary_keys)
        return keys is None or may_match(keys, key_ranges(entry.file, file_schema, self._schema.key_fields))


def _meets(files: Iterable[KeyedFile], others: Iterable[KeyedFile]) -> bool:
    others = list(others)
    return any(one.min_key <= other.max_key and other.min_key <= one.max_key for one in files for other in others)


def _conflict(entry: ManifestEntry, reason: str) -> Conflict:
    verb = "added" if entry.kind is EntryKind.ADD else "removed"
    return Conflict(
        partition=entry.partition,
        bucket=entry.bucket,
        reason=f"{entry.file.file_name} was {verb} since the rows were read, and {reason}",
        file_name=entry.file.file_name,
    )
