"""What the verbs answer: one family of frozen reports whose fields are JSON.

Nothing done is an answer too: `noop_reason` then says why, and the counts are zero.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from lakehouse_core.clock import Clock
from lakehouse_core.display import line, page
from lakehouse_core.errors import LakehouseError, shown
from lakehouse_core.progress import LOGGER

# Of longer lists a report shows only how long they are.
_FEW: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """What every verb tells. Rows and files are those of data files, before any merge; sizes are bytes.

    `snapshot_id`: the snapshot that the verb made, None when it made none. `dry_run`: the figures are those of
    the plan, and nothing was done.
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
        """What differs from a report of nothing; of long lists how long they are."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "table"}
        return {
            name: f"{len(value)} entries" if isinstance(value, list | tuple) and len(value) > _FEW else value
            for name, value in found.items()
            if value not in (None, 0, False, "", (), {})
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, fields in their order, and the verb's name first."""
        return {"report": type(self).__name__, **{each.name: plain(getattr(self, each.name)) for each in fields(self)}}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitReport(Report):
    """Of write, overwrite and commit. `replayed`: this user had committed this identifier before; nothing is new.

    All figures are those of the rows that were written, and `snapshot_id` is the snapshot that they came with.
    `compaction`: what the compaction after it did, with a snapshot of its own; None: there was none, or it failed, and
    then `compaction_failure` says why, as it does of one that was staged with the rows. `snapshot_ids`: every snapshot
    made, the compaction's too, in their order; the last of them is the table after it.
    `clock_note`: how far this machine's clock is ahead of the storage's, where its time was not taken for that.
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
class CompactionReport(Report):
    """Of compact. `buckets_conflicted` lost to another commit and stay as they are; compact again for them.

    `files_after` is 0 in a dry run, which does not know how many files come out. `clock_note` as in CommitReport.
    `error`: of many tables, why this one was not compacted.
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
    # What each bucket needs, largest first; of long lists the first hundred.
    buckets: tuple[Mapping[str, Any], ...] = ()
    error: LakehouseError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ManifestReport(Report):
    """Of compact_manifests. Entries are the files that manifests say come or go. `clock_note` as in CommitReport."""

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
    """Of expire_snapshots. `reason` says with figures what keeps the rest; `files_deleted` counts by kind.

    `changelogs_kept`: expired snapshots that live on as changelogs. `files_waiting` go when nobody can be reading them
    any more: a later run deletes them; `paths_waiting` names them in the run that let further ones go. `paths`: what
    was deleted. A dry run tells of each file what the run would tell.
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
class TagReport(Report):
    """Of create_tag and delete_tag. `files_waiting` as in ExpiryReport: a later expire_snapshots deletes them."""

    tag: str = ""
    tagged_snapshot_id: int | None = None
    files_deleted: int = 0
    files_waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SchemaReport(Report):
    """Of alter."""

    schema_id: int = 0
    schema_id_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VerifyReport(Report):
    """Of verify: no findings means that everything looked at agrees."""

    findings: tuple[Any, ...] = ()


class _Clocked(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def clock(self) -> Clock: ...


C = TypeVar("C", bound=_Clocked)
P = ParamSpec("P")
R = TypeVar("R", bound=Report)


def timed(verb: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Let a verb's report say how long it took, by the clock of the table, and log what came of it in one line."""
    log = logging.getLogger(f"{LOGGER}.{verb.__name__}")

    @wraps(verb)
    def call(table: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        started = table.clock.monotonic_seconds()
        try:
            report = verb(table, *args, **kwargs)
        except BaseException as error:
            # Its message may quote a row, and whoever called gets it whole.
            seconds = table.clock.monotonic_seconds() - started
            log.info("%s: failed after %.3f s: %s", table.name, seconds, type(error).__name__)
            raise
        report = replace(report, duration_seconds=table.clock.monotonic_seconds() - started)
        # What says why nothing was done is a sentence, which a time at its end would seem to belong to.
        shape = "%s: %s in %.3f s" if report.noop_reason is None else "%s: %s (%.3f s)"
        log.info(shape, table.name, outcome(report), report.duration_seconds)
        return report

    return call


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
    """Return in a few words what came of a verb."""
    if report.noop_reason is not None:
        # It may quote the user of a commit, who is anything.
        reason = report.noop_reason
        return f"nothing was done: {reason if reason.isprintable() else shown(reason)}"
    told = ["dry run"] if report.dry_run else []
    if report.snapshot_id is not None:
        told.append(f"snapshot {report.snapshot_id} ({report.commit_kind})")
    for name in _TOLD:
        if count := getattr(report, name, 0):
            told.append(f"{count:,} {name.replace('_', ' ')}")
    if isinstance(report, VerifyReport):
        told.append(f"{len(report.findings)} findings")
    return ", ".join(told) or "done"


def plain(value: Any) -> Any:
    """Return `value` as JSON knows it."""
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
