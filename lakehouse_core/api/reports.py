"""Reports: the frozen answers of all verbs. Every field is a JSON value.

Rule: a verb that does nothing also returns a report; `noop_reason` gives the reason, and the counts are zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Final

from lakehouse_core.display import line, page
from lakehouse_core.errors import LakehouseError, shown

# For longer lists a report shows only the length.
_FEW: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """The fields that all reports have. Rows and files are counted in data files, before any merge; sizes are bytes.

    `snapshot_id` is the snapshot that the verb made, None when it made none. With `dry_run`, the figures are those of
    the plan, and the verb changed nothing.
    """

    table: str
    snapshot_id: int | None = None
    snapshot_id_before: int | None = None
    commit_kind: str | None = None
    noop_reason: str | None = None
    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    attempts: int = 0
    duration_seconds: float = 0.0
    dry_run: bool = False

    def __repr__(self) -> str:
        return line(type(self).__name__, self.table, self._facts())

    def _repr_html_(self) -> str:
        return page(type(self).__name__, self.table, self._facts())

    def _facts(self) -> dict[str, Any]:
        """Return the fields that differ from an empty report; for long lists the length."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "table"}
        return {
            name: f"{len(value)} entries" if isinstance(value, list | tuple) and len(value) > _FEW else value
            for name, value in found.items()
            if value not in (None, 0, False, "", (), {})
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values: the verb's name first, then the fields in their order."""
        return {"report": type(self).__name__, **{each.name: plain(getattr(self, each.name)) for each in fields(self)}}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaggingReport(Report):
    """The report of a verb after whose commit automatic tags are made: their names, and those of the deleted ones.

    `tag_failure`: why a tag that is due was not made, or an outdated one not deleted; what was committed stays.
    """

    tags_created: tuple[str, ...] = ()
    tags_deleted: tuple[str, ...] = ()
    tag_failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitReport(TaggingReport):
    """The report of write, overwrite and commit. `replayed`: the user has already committed this identifier; nothing is
    new.

    All figures count the written rows, and `snapshot_id` is the snapshot that has them. `compaction` is the report of
    the compaction that followed, which has its own snapshot. It is None when no compaction ran or when the compaction
    failed; `compaction_failure` then has the reason, also for a compaction that was staged with the rows.
    `snapshot_ids` lists every snapshot made, in order, including that of the compaction. `clock_note` says how far this
    machine's clock is ahead of the storage's clock, if the commit took the storage's time instead.
    """

    commit_user: str = ""
    commit_identifier: int = 0
    schema_id: int = 0
    replayed: bool = False
    snapshot_ids: tuple[int, ...] = ()
    changelog_files_added: int = 0
    changelog_rows_added: int = 0
    compaction: "CompactionReport | None" = None
    compaction_failure: str | None = None
    clock_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowChangeReport(CommitReport):
    """The report of delete, update, merge, truncate and drop_partitions.

    `operation` is the name of the statement in its snapshot, `method` how it was carried out: records, marks, files,
    buckets or partitions (docs/row-changes.md). `rows_matched` counts the rows that satisfied the condition, as readers
    see them, and `rows_read` the rows in the files that were read, before a merge. They are None if the files of a key
    table were removed unread. `files_touched` are the files with changed rows, most of which are replaced or marked.
    `runs`: how often the statement ran, because other commits changed what it had read.
    """

    operation: str = ""
    method: str = ""
    rows_matched: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0
    rows_inserted: int = 0
    rows_read: int = 0
    files_touched: int = 0
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionExpiryReport(RowChangeReport):
    """The report of expire_partitions. `partitions_expired` are the dropped ones, their values as readable text."""

    partitions_expired: tuple[Mapping[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionsDoneReport(Report):
    """The report of mark_partitions_done: the marked partitions, their values as readable text."""

    partitions_done: tuple[Mapping[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactionReport(TaggingReport):
    """The report of compact. `buckets_conflicted` lost to another commit and are unchanged; compact again to rewrite
    them.

    `files_after` is 0 in a dry run with buckets to rewrite: how many files that makes is not known before. `clock_note`
    as in CommitReport. `error` is set when many tables are compacted and this one failed.
    """

    commit_user: str = ""
    commit_identifier: int | None = None
    buckets_rewritten: int = 0
    buckets_conflicted: int = 0
    files_before: int = 0
    files_after: int = 0
    files_upgraded: int = 0
    bytes_rewritten: int = 0
    changelog_files_added: int = 0
    changelog_rows_added: int = 0
    clock_note: str | None = None
    # The compaction of each bucket, largest first, at most a hundred.
    buckets: tuple[Mapping[str, Any], ...] = ()
    error: LakehouseError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RescaleReport(TaggingReport):
    """The report of rescale. `partitions_rescaled`: the rewritten ones, their values as readable text.

    `buckets` is the count that they have now, `buckets_before` the former value of the option `bucket`; both are -1 if
    buckets are dynamic. `snapshot_id` is the last of `snapshot_ids`. `runs`: how often a commit was begun, because
    others changed what it had read.
    """

    commit_user: str = ""
    schema_id: int = 0
    buckets: int = 0
    buckets_before: int = 0
    partitions_rescaled: tuple[Mapping[str, str | None], ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    bytes_rewritten: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FileIndexReport(TaggingReport):
    """The report of rewrite_file_index. No data file is rewritten, and no row changes.

    `files_examined`: the live data files in scope. `files_indexed` got another index, of `index_bytes` in all, and
    `indexes_dropped` lost theirs, in `partitions_changed` partitions. `files_conflicted` were changed by other commits
    in each attempt; their index is as before. `runs`: how often a commit was begun. `snapshot_id` is the last of
    `snapshot_ids`.
    """

    commit_user: str = ""
    files_examined: int = 0
    files_indexed: int = 0
    indexes_dropped: int = 0
    index_bytes: int = 0
    partitions_changed: int = 0
    files_conflicted: int = 0
    snapshot_ids: tuple[int, ...] = ()
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ManifestReport(Report):
    """The report of compact_manifests.

    Entries are the added and deleted files in manifests. `clock_note` as in CommitReport.
    """

    commit_user: str = ""
    commit_identifier: int | None = None
    manifests_before: int = 0
    manifests_after: int = 0
    manifests_merged: int = 0
    entries_before: int = 0
    entries_after: int = 0
    clock_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpiryReport(Report):
    """The report of expire_snapshots and expire_tags. `reason` gives the figures that keep the other snapshots;
    `files_deleted` counts by kind.

    `changelogs_kept` are expired snapshots that remain as changelogs. `files_waiting` are files whose readers may still
    be open; a later run deletes them. `paths_waiting` names these files in the run that unlinked their snapshots.
    `paths` names the deleted files. A dry run fills the fields as the run would.
    """

    snapshots_expired: int = 0
    snapshots_retained: int = 0
    earliest_snapshot_id: int | None = None
    changelogs_kept: int = 0
    changelogs_expired: int = 0
    tags_expired: tuple[str, ...] = ()
    files_deleted: Mapping[str, int] = field(default_factory=dict)
    files_waiting: int = 0
    bytes_waiting: int = 0
    reason: str = ""
    paths: tuple[str, ...] = ()
    paths_waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OrphanReport(Report):
    """The report of remove_orphans: the deleted files by their place, and their `paths`.

    `files_younger` are orphans too, unless a writer is at work on them; they stay because they are younger than
    `older_than`. A dry run fills the fields as the run would. `error` is set when the orphans of many tables are
    deleted and this one failed.
    """

    files_deleted: Mapping[str, int] = field(default_factory=dict)
    files_younger: int = 0
    bytes_younger: int = 0
    paths: tuple[str, ...] = ()
    error: LakehouseError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TagReport(Report):
    """The report of create_tag, replace_tag, rename_tag and delete_tag. `tag`: its name after the verb.

    `files_waiting` as in ExpiryReport: a later expire_snapshots deletes them.
    """

    tag: str = ""
    tagged_snapshot_id: int | None = None
    files_deleted: int = 0
    files_waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BranchReport(Report):
    """The report of create_branch, rename_branch, delete_branch and fast_forward. `branch`: its name after the verb.

    `branch_snapshot_id` is the snapshot that a new branch begins with, or whose state fast_forward brought.
    `files_waiting` as in ExpiryReport: a later expire_snapshots deletes them.
    """

    branch: str = ""
    branch_snapshot_id: int | None = None
    files_deleted: int = 0
    files_waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RollbackReport(Report):
    """The report of rollback_to. `rolled_back_to` is the snapshot whose state the table has again.

    The figures count the files that were brought back and those that were removed from the table's state; no file is
    deleted. `clock_note` as in CommitReport.
    """

    commit_user: str = ""
    rolled_back_to: int | None = None
    clock_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SchemaReport(Report):
    """The report of alter. `cast_note` tells of columns of text that have got another type while there are rows."""

    schema_id: int = 0
    schema_id_before: int = 0
    cast_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VerifyReport(Report):
    """The report of verify. No findings means that all checked metadata and files agree."""

    findings: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CopyReport(Report):
    """The report of copy_table. `files_added` and `bytes_added` count what this call copied, `files` all files that the
    copy has beside schemas, snapshots and tags.

    `source` and `uri` are the addresses of the table and of its copy. `findings`: of verify on the copy. `error` is set
    when many tables are copied and this one failed.
    """

    source: str = ""
    uri: str = ""
    snapshot_ids: tuple[int, ...] = ()
    tags: int = 0
    branches: int = 0
    files: int = 0
    findings: tuple[Any, ...] = ()
    error: LakehouseError | None = None


_TOLD: Final = (
    "files_added",
    "files_removed",
    "files_upgraded",
    "rows_added",
    "rows_removed",
    "manifests_merged",
    "snapshots_expired",
)


def outcome(report: Report) -> str:
    """Return the outcome of a verb in a few words."""
    if report.noop_reason is not None:
        # The reason may quote a commit user, which may be any text.
        reason = report.noop_reason
        return f"nothing was done: {reason if reason.isprintable() else shown(reason)}"
    told = ["dry run"] if report.dry_run else []
    if report.snapshot_id is not None:
        told.append(f"snapshot {report.snapshot_id} ({report.commit_kind})")
    for name in _TOLD:
        if count := getattr(report, name, 0):
            told.append(f"{count:,} {name.replace('_', ' ')}")
    if isinstance(report, VerifyReport | CopyReport):
        told.append(f"{len(report.findings)} findings")
    return ", ".join(told) or "done"


def plain(value: Any) -> Any:
    """Return `value` as a JSON value."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Report):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return str(value)
