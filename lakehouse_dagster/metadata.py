"""Metadata: from reports and table states to Dagster metadata.

Rule: the names of metadata keys are only here. Numbers are always present, also when zero, and an asset has the same
keys in each run, because Dagster plots them. Only the identifier of a commit is absent without a commit: 0 is an
identifier.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline import CommittedBatch, Staged, TableState, named_batches
from lakehouse_dagster.specs import TableSpec

Metadata: TypeAlias = dict[str, Any]
# The tag of an event with the version of the rows, which Dagster sets for materializations of a run.
# The snapshot that was read: only events of reads have it.
SNAPSHOT_READ = "paimon/snapshot_read"
# What an operation did, or why it did nothing.
OUTCOME = "paimon/outcome"

# Lists longer than this would make an event slow to read on every page; the table itself has them all.
_MOST_ROWS = 20

_SUMMED = (
    "files_added",
    "files_removed",
    "rows_added",
    "rows_removed",
    "bytes_added",
    "bytes_removed",
    "duration_seconds",
)
# Figures of reports, such as `files_removed`, in the order in which the outcome of an operation says them.
_DONE = (
    ("file", "removed"),
    ("file", "added"),
    ("file", "upgraded"),
    ("manifest", "merged"),
    ("snapshot", "expired"),
    ("file", "waiting"),
)
# How long the plan of a dry run took is no figure of the plan.
_OF_A_RUN = ("duration_seconds",)
# Of a step's batches that were all committed before; the table of commits has the reason of each.
_MOST_REASONS = 3
# A run over a long range has more: each partition shows its own.
_MOST_COMMITS = 10
# What is told of the compactions that commits bring along.
_COMPACTED = ("files_added", "files_removed", "bytes_rewritten", "changelog_rows_added")
_PAIRED = {
    "files": "files_total",
    "bytes": "bytes_total",
    "manifests": "manifests_total",
    "snapshots": "snapshots_retained",
    "changelogs": "changelogs_retained",
}


def definition_metadata(spec: TableSpec) -> Metadata:
    """The metadata of a table before its first run."""
    return {
        "dagster/column_schema": column_schema(spec),
        "dagster/table_name": spec.identifier,
        "dagster/storage_kind": "paimon",
        "paimon/specification": spec.file,
        "paimon/primary_key": ", ".join(spec.primary_key),
        "paimon/partition_by": ", ".join(spec.partition_by),
        "paimon/options": dg.MetadataValue.json(dict(spec.options)),
    }


def column_schema(spec: TableSpec) -> dg.TableSchema:
    """The columns with the types as the table has them; key and partition columns are marked."""
    columns = []
    for name, column in spec.columns.items():
        roles = [
            role
            for role, names in (("primary key", spec.primary_key), ("partition", spec.partition_by))
            if name in names
        ]
        columns.append(
            dg.TableColumn(
                name=name,
                # That it is NOT NULL, the page says beside the type.
                type=column.type.removesuffix(" NOT NULL"),
                description=column.description or None,
                constraints=dg.TableColumnConstraints(nullable="NOT NULL" not in column.type.upper(), other=roles),
            )
        )
    return dg.TableSchema(columns=columns)


def column_lineage(spec: TableSpec, upstream: dg.AssetKey, prefix: str) -> Metadata:
    """Which column upstream each column is written from: a write goes by name, and the specification lists them."""
    sources = {name: f"{prefix}{name}" for name in spec.columns}
    deps = {name: [dg.TableColumnDep(asset_key=upstream, column_name=source)] for name, source in sources.items()}
    return {
        "dagster/column_lineage": dg.TableColumnLineage(deps_by_column=deps),
        "paimon/column_lineage": records(
            ("column", "written from"), [(name, f"{upstream.to_user_string()}: {sources[name]}") for name in sources]
        ),
    }


def report_metadata(reports: Sequence[Any]) -> Metadata:
    """The outcome of one or more verbs: sums of the counts, the most attempts of a snapshot, the first snapshot before
    and the last one made.

    When no snapshot was made, `paimon/snapshot_id` is the one before, so that its plot continues.
    """
    before = next((r.snapshot_id_before for r in reports if r.snapshot_id_before is not None), None)
    made = [r.snapshot_id for r in reports if r.snapshot_id is not None]
    kinds = [str(r.commit_kind) for r in reports if r.commit_kind is not None]
    users = [user for r in reports if (user := getattr(r, "commit_user", ""))]
    identifiers = [number for r in reports if (number := getattr(r, "commit_identifier", None)) is not None]
    reasons = [r.noop_reason for r in reports]
    summed = {name: sum(getattr(r, name) or 0 for r in reports) for name in _SUMMED}
    return {
        "paimon/snapshot_id": made[-1] if made else before or 0,
        "paimon/snapshot_id_before": _id(before),
        # Batches that were committed together have one.
        "paimon/snapshots_made": len(set(made)),
        "paimon/commit_kind": kinds[-1] if kinds else "",
        "paimon/commit_user": users[-1] if users else "",
        # Text: as a number Dagster would plot it, and a compaction's is near 9E18.
        **({"paimon/commit_identifier": str(identifiers[-1])} if identifiers else {}),
        "paimon/noop_reason": reasons[0] if reasons and all(reasons) else "",
        "paimon/attempts": max(map(_attempts, reports), default=0),
        **{f"paimon/{name}": _number(value) for name, value in summed.items()},
    }


def _attempts(report: Any) -> int:
    """Return the most attempts that one snapshot of a verb may have taken: above 1 other writers were faster.

    The sum of a step would rise with its batches, and say nothing of other writers.
    """
    attempts: int = report.attempts
    followed = getattr(report, "compaction", None)
    ids = getattr(report, "snapshot_ids", ())
    own = len(ids) - (followed is not None and followed.snapshot_id in ids)
    return min(attempts, max(1, attempts - max(own, 1) + 1))


def staged_metadata(staged: Sequence[Staged]) -> Metadata:
    """The metadata of staged files."""
    return {
        "paimon/batches": _batches(part.batch for part in staged),
        "paimon/rows_staged": sum(part.rows for part in staged),
        "paimon/files_staged": sum(part.files for part in staged),
        "paimon/bytes_staged": sum(part.bytes for part in staged),
    }


def batch_metadata(part: CommittedBatch) -> Metadata:
    """The commit of one batch. For a replay: the snapshot and the rows of the original commit, and the reason."""
    replay: Metadata = {"paimon/replayed": int(part.is_replay), "paimon/noop_reason": part.noop_reason}
    if part.original is not None:
        found = part.original
        # An overwrite takes rows away too, so its change is not the number of its rows.
        rows = {"paimon/rows_added": found.change, "dagster/partition_row_count": found.change}
        return {
            "paimon/snapshot_id": found.id,
            "paimon/commit_kind": found.kind,
            "paimon/commit_user": found.commit_user,
            "paimon/commit_identifier": str(found.commit_identifier),
            **(rows if found.kind == "APPEND" else {}),
            **replay,
        }
    if part.report is None or part.report.replayed:
        # Its rows are not known any more, and 0 would be wrong.
        return replay
    return {**report_metadata([part.report]), "dagster/partition_row_count": part.report.rows_added, **replay}


def commit_metadata(committed: Sequence[CommittedBatch]) -> Metadata:
    """The commits of a step's batches: their sums, a table with one row for each, and their compactions apart."""
    reports = [part.report for part in committed if part.report is not None]
    reasons = [part.noop_reason for part in committed]
    compactions = [report.compaction for report in reports if report.compaction is not None]
    return {
        "paimon/batches": _batches(part.batch for part in committed),
        "paimon/replayed": sum(part.is_replay for part in committed),
        **report_metadata(reports),
        "paimon/noop_reason": "; ".join(dict.fromkeys(reasons[:_MOST_REASONS])) if all(reasons) else "",
        "paimon/commit_identifier": str(committed[-1].batch.identifier) if committed else "",
        "paimon/compaction_snapshot_id": _id(compactions[-1].snapshot_id if compactions else None),
        **{f"paimon/compaction_{name}": sum(getattr(each, name) for each in compactions) for name in _COMPACTED},
        "paimon/commits": records(
            ("batch", "snapshot", "rows", "compacted", "note"),
            map(_commit_row, committed[-_MOST_COMMITS:]),
        ),
    }


def _commit_row(part: CommittedBatch) -> tuple[str, int, int, int, str]:
    """Return a batch, its snapshot, its rows, the snapshot of the compaction that followed, and why there is none."""
    batch = _batch(part.batch)
    if part.original is not None:
        return batch, part.original.id, part.original.change, 0, part.noop_reason
    if part.report is None:
        return batch, 0, 0, 0, part.noop_reason
    compacted = 0 if part.report.compaction is None else part.report.compaction.snapshot_id or 0
    return batch, part.report.snapshot_id or 0, part.report.rows_added, compacted, part.noop_reason


def _batch(batch: Batch) -> str:
    return batch.key or "whole load"


def _batches(batches: Iterable[Batch]) -> str:
    """Return which batches they are, in words: how many there are says nothing as a plot, rows and time do."""
    return named_batches([_batch(each) for each in batches])


def outcome(*reports: lc.Report) -> str:
    """What an operation did, maybe in several partitions, or why it did nothing."""
    if all(report.noop_reason is not None for report in reports):
        return f"nothing to do: {reports[0].noop_reason}"
    counts = (
        (sum(getattr(report, f"{things}s_{done}", 0) for report in reports), things, done) for things, done in _DONE
    )
    return ", ".join(f"{n:,} {thing}{'s' if n > 1 else ''} {done}" for n, thing, done in counts if n) or "done"


def plan_metadata(report: lc.Report) -> Metadata:
    """The plan of a dry run: its figures, what it would rewrite by bucket, and what it would delete."""
    plain = report.to_dict()
    return {
        "paimon/noop_reason": report.noop_reason or "",
        "paimon/snapshot_id_before": _id(report.snapshot_id_before),
        **{f"paimon/{name}": _number(plain[name]) for name in _SUMMED if name not in _OF_A_RUN},
        **details(report),
        **({"paimon/reason": reason} if (reason := plain.get("reason")) else {}),
        "paimon/buckets": records(
            ("partition", "bucket", "files", "bytes", "reason"),
            (
                (
                    ", ".join(f"{name}={value}" for name, value in each["partition"].items()),
                    each["bucket"],
                    each["files"],
                    each["bytes_rewritten"],
                    each["reason"],
                )
                for each in plain.get("buckets", ())
            ),
        ),
        "paimon/paths": records(("deleted",), ((path,) for path in plain.get("paths", ()))),
    }


def state_metadata(state: TableState) -> Metadata:
    """The state of a table after the step."""
    return {
        # Also where the step made no snapshot: the page says what is true now.
        "paimon/snapshot_id": state.snapshot_id or 0,
        "paimon/files_total": state.files_total,
        "paimon/bytes_total": state.bytes_total,
        "paimon/records_total": state.records_total,
        "paimon/small_files": state.small_files,
        "paimon/sorted_runs": state.sorted_runs,
        **({"paimon/waiting_rows": state.waiting_rows} if state.waiting_rows else {}),
        "paimon/manifests_total": state.manifests_total,
        "paimon/snapshots_retained": state.snapshots_retained,
        "paimon/changelogs_retained": state.changelogs_retained,
        "paimon/earliest_snapshot_id": state.earliest_snapshot_id or 0,
        "paimon/tags": state.tags,
        **({"paimon/consumers": "; ".join(state.consumers)} if state.consumers else {}),
        "paimon/last_run": _last_run(state),
        "paimon/recent_snapshots": records(
            # More columns, or longer ids of runs, would not fit the page, and would widen all values beyond it.
            ("snapshot", "kind", "time", "change", "run"),
            (
                (fact.id, fact.kind, f"{fact.time:%m-%d %H:%M:%S}", f"{fact.change:+}", fact.run_id[:8])
                for fact in state.recent
            ),
        ),
        "paimon/content_version": state.content_version,
        "paimon/incarnation": state.incarnation,
        "paimon/schema_id": _id(state.schema_id),
    }


def fleet_metadata(plan: lc.MaintenancePlan, outcomes: Sequence[lc.MaintenanceOutcome]) -> Metadata:
    """A plan for many tables, and what became of it: figures, then the first choices and refusals."""
    told = {id(each.choice): str(each).removeprefix(f"{each.choice.table}: {each.choice.name}: ") for each in outcomes}
    return {
        OUTCOME: str(plan),
        "paimon/tables": plan.tables,
        "paimon/files_total": plan.files,
        "paimon/bytes_total": plan.bytes,
        "paimon/operations_chosen": len(plan.choices),
        "paimon/operations_urgent": sum(each.urgent is not None for each in plan.choices),
        "paimon/operations_done": sum(each.is_done for each in outcomes),
        "paimon/operations_failed": sum(each.error is not None for each in outcomes),
        "paimon/operations_skipped": sum(each.skipped is not None for each in outcomes),
        "paimon/operations_refused": len(plan.refusals),
        "paimon/tables_unreadable": len(plan.unreadable),
        "paimon/bytes_planned": plan.cost.bytes,
        "paimon/requests_planned": plan.cost.requests,
        "paimon/seconds_planned": _number(plan.cost.seconds),
        "paimon/seconds_saved": _number(plan.saved_seconds),
        "paimon/choices": records(
            ("table", "operation", "bytes", "why", "outcome"),
            (
                (each.table, each.name, each.bytes, each.reason, told.get(id(each), ""))
                for each in (*plan.choices, *(choice for choice in plan.reserve if id(choice) in told))
            ),
        ),
        "paimon/refusals": records(
            ("table", "operation", "why not"), ((each.table, each.name, each.reason) for each in plan.refusals)
        ),
    }


def before_and_after(before: TableState, after: TableState) -> Metadata:
    """Pairs that show what a maintenance step changed."""
    pairs: Metadata = {}
    for name, field in _PAIRED.items():
        pairs[f"paimon/{name}_before"] = getattr(before, field)
        pairs[f"paimon/{name}_after"] = getattr(after, field)
    return pairs


def details(*reports: Any) -> Metadata:
    """The scalars that a verb reports beyond what all reports have; the sums of several reports."""
    found: Metadata = {}
    for report in reports:
        for name, value in report.to_dict().items():
            # A dry run has no page, so on a page this is always false.
            if (
                name not in (*_SUMMED, "attempts", "commit_identifier", "dry_run")
                and isinstance(value, int | float | bool)
                and not name.startswith("snapshot_id")
            ):
                key = f"paimon/{name}"
                found[key] = _number(found[key] + value) if key in found else _number(value)
    return found


def input_snapshots(inputs: Iterable[tuple[str, str, int]]) -> Metadata:
    """The inputs of a step: for each upstream its key, the version of its content and its snapshot (0: it has none)."""
    return {"paimon/input_snapshots": records(("upstream", "content version", "snapshot"), inputs)}


def read_metadata(
    *, lake: str, table: str, snapshot_id: int, columns: Sequence[str] | None, where: str, partitions: int, files: int
) -> Metadata:
    """The read of an input: its snapshot (0: the table has none), and what of it is read."""
    return {
        "paimon/lake": lake,
        "paimon/table": table,
        "paimon/snapshot_id": snapshot_id,
        "paimon/columns": "all" if columns is None else ", ".join(columns),
        "paimon/where": where,
        "paimon/partitions_read": partitions,
        "paimon/files_read": files,
        SNAPSHOT_READ: str(snapshot_id),
    }


def records(columns: Sequence[str], rows: Iterable[Sequence[str | int | float | bool]]) -> dg.TableMetadataValue:
    """A table of metadata: the first rows of it, maybe none."""
    shown = [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in islice(rows, _MOST_ROWS)]
    return dg.MetadataValue.table(
        records=shown, schema=dg.TableSchema(columns=[dg.TableColumn(name) for name in columns])
    )


def findings(report: lc.VerifyReport | lc.CopyReport) -> Metadata:
    """The findings of `verify`, at most the first ones."""
    return {
        "paimon/findings_count": len(report.findings),
        "paimon/findings": dg.MetadataValue.md(
            "\n".join(f"- {finding}" for finding in report.findings[:_MOST_ROWS]) or "none"
        ),
    }


def _last_run(state: TableState) -> dg.MetadataValue[Any] | str:
    """A link to the run that made the newest snapshot; empty when no run of ours did."""
    run_id = state.recent[0].run_id if state.recent else ""
    return dg.MetadataValue.dagster_run(run_id) if run_id else ""


def _id(value: int | None) -> str:
    """An identifier as text, empty without one: as a number Dagster would plot it."""
    return "" if value is None else str(value)


def _number(value: float) -> float:
    return round(value, 3) if isinstance(value, float) else value
