"""Page: the present state of a table as the latest event of its asset, after changes of any process.

Rule: an event is made only for what the page does not show, and each event has all that the page shows of a state:
Dagster shows the latest event alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.event_tags import CODE_VERSION, DATA_VERSION, INPUT
from lakehouse_dagster.instance.dagster_internals import check_target
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import OUTCOME, Metadata, findings, state_metadata
from lakehouse_dagster.pipeline import OPERATIONS, Figure, TableState, figures, position, read_state
from lakehouse_dagster.row_count import ROW_COUNT, RowsFound, counted_again
from lakehouse_dagster.sources import row_source
from lakehouse_dagster.specs import MaintenanceSpec, TableSpec

# Without them Dagster would call the next ingest out of date, although nothing differs.
_LINEAGE_TAGS = (CODE_VERSION, INPUT)
_LAST = "paimon/last_maintenance"
# What a change of files leaves as it was.
_KEPT = (
    "dagster/uri",
    "paimon/commits",
    "paimon/input_snapshots",
    "dagster/column_lineage",
    "paimon/column_lineage",
)
# The check of metadata and files is valid for one state of the table, the check of the rows until the rows change.
# Dagster takes a check for not evaluated once there is a newer event of the asset.
VERIFY = "verify"
# The checks of what the source has and the table lacks, and of the age of the rows, which no maintenance changes.
INPUTS_CURRENT, CONTENT_AGE = "inputs_current", "content_age"
# Databases take so many values in a query.
_ASKED_AT_ONCE = 100
# The check of rows that wait for a compaction, of tables whose specification postpones their buckets.
WAITING_ROWS = "waiting_rows"
# The checks that need no more than the state of a table: what each finds, and its limit.
STATE_CHECKS: Mapping[str, Callable[[TableState, MaintenanceSpec], tuple[int, int]]] = {
    "sorted_runs": lambda state, limits: (state.sorted_runs, limits.max_sorted_runs),
    "snapshot_count": lambda state, limits: (state.snapshots_retained, limits.max_snapshots),
    WAITING_ROWS: lambda state, limits: (state.waiting_rows, limits.max_waiting_rows),
}


def state_check_names(spec: TableSpec) -> Sequence[str]:
    """Return the names of those of `STATE_CHECKS` that a table has."""
    return [name for name in STATE_CHECKS if name != WAITING_ROWS or spec.postpones_buckets]


def report_state(
    instance: dg.DagsterInstance,
    lake: Lake,
    spec: TableSpec,
    table: lc.Table,
    *,
    done: str,
    outcomes: Mapping[str, str] | None = None,
) -> TableState:
    """Show the present state of a table on the page of its asset, and evaluate its cheap checks again.

    `done` says what changed the table, and by whom. `outcomes` has the outcome of an operation that has just run. The
    event belongs to no run. Nothing is written when the page shows all this and the checks were evaluated after it.
    Returns the state.
    """
    state, since = show_state(instance, lake, spec, table, done=done, outcomes=outcomes)
    key = lake.table_key(spec)
    if since is not None and _are_evaluated(instance, key, state_check_names(spec), since=since):
        return state
    for result in state_checks(key, state, spec):
        report_check(instance, result)
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestCheck:
    """The latest evaluation of a check, and when it was made, in seconds."""

    evaluation: dg.AssetCheckEvaluation
    time: float


def latest_checks(instance: dg.DagsterInstance, key: dg.AssetKey, names: Iterable[str]) -> Mapping[str, LatestCheck]:
    """Return the latest evaluations of the checks of an asset, by their names.

    A check without an evaluation is left out, and one that a run is going to evaluate.
    """
    found = _latest_checks(instance, [dg.AssetCheckKey(key, name) for name in names])
    return {check.name: latest for check, latest in found.items()}


def _latest_checks(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Mapping[dg.AssetCheckKey, LatestCheck]:
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {
        check: LatestCheck(evaluation=record.evaluation, time=record.event.timestamp)
        for check, record in records.items()
        if isinstance(record.evaluation, dg.AssetCheckEvaluation) and record.event is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What the pages of many tables showed at one time: the latest event of each, in which its state is, and the latest
    evaluations of its checks.

    It is read in a few queries, and tells which pages are true. Read a page again before it is written to.
    """

    events: Mapping[dg.AssetKey, dg.EventLogEntry | None]
    checks: Mapping[dg.AssetCheckKey, LatestCheck]

    def shows(self, key: dg.AssetKey, state: TableState, spec: TableSpec) -> bool:
        """Return whether the page of a table shows this state, which was read later, and its cheap checks too."""
        event = self.events.get(key)
        if event is None or position(state) != _shown_position(event.asset_materialization, state):
            return False
        found = [self.checks.get(dg.AssetCheckKey(key, name)) for name in state_check_names(spec)]
        return all(check is not None and check.time >= event.timestamp for check in found)

    def check(self, key: dg.AssetKey, name: str) -> LatestCheck | None:
        """Return the latest evaluation of a check of a table; None without one, and for one before the event."""
        found, event = self.checks.get(dg.AssetCheckKey(key, name)), self.events.get(key)
        # Dagster takes a check for not evaluated once there is a newer event of the asset.
        return None if found is None or (event is not None and event.timestamp > found.time) else found


def read_pages(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey]) -> Pages:
    """Read what the pages of some tables show."""
    events: dict[dg.AssetKey, dg.EventLogEntry | None] = {}
    checks: dict[dg.AssetCheckKey, LatestCheck] = {}
    rest = list(keys)
    while rest:
        part, rest = rest[:_ASKED_AT_ONCE], rest[_ASKED_AT_ONCE:]
        events |= instance.event_log_storage.get_latest_materialization_events(part)
        checks |= _latest_checks(
            instance,
            [dg.AssetCheckKey(key, name) for key in part for name in (*STATE_CHECKS, INPUTS_CURRENT, CONTENT_AGE)],
        )
    return Pages(events=events, checks=checks)


def report_check(instance: dg.DagsterInstance, result: dg.AssetCheckResult, *, blocking: bool = False) -> None:
    """Store the evaluation of a check of an asset, which belongs to no run."""
    assert result.asset_key is not None
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=result.asset_key,
            check_name=str(result.check_name),
            passed=result.passed,
            severity=result.severity,
            description=result.description,
            metadata=result.metadata,
            blocking=blocking,
            target_materialization_data=check_target(instance, result.asset_key),
        )
    )


def show_state(
    instance: dg.DagsterInstance,
    lake: Lake,
    spec: TableSpec,
    table: lc.Table,
    *,
    done: str,
    outcomes: Mapping[str, str] | None = None,
) -> tuple[TableState, float | None]:
    """Show the present state of a table on the page of its asset, as `report_state` does, without its checks.

    Returns the state, and the time in seconds since which the page shows it; None if it was written just now.
    """
    key = lake.table_key(spec)
    event = instance.get_latest_materialization_event(key)
    shown = event.asset_materialization if event is not None else None
    # Read after the event: a state with an older snapshot than the page shows is that of a table that was rolled back.
    state = read_state(table)
    is_same_state = position(state) == _shown_position(shown, state)
    is_shown = is_same_state
    if not is_shown or outcomes:
        last = last_maintenance(instance, lake, spec, outcomes or {})
        is_shown = is_shown and shown is not None and shown.metadata.get(_LAST) == dg.MetadataValue.text(last)
    if not is_shown:
        content = _content_metadata(shown, state, table)
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                key,
                description=done,
                metadata={**page_metadata(state, spec.maintenance, last), **content},
                tags={**_lineage(shown), DATA_VERSION: state.content_version},
            )
        )
        if event is not None:
            own = (INPUTS_CURRENT, *(check.name for check in row_source(lake, spec).checks))
            if _is_same_content(shown, state):
                checks = (*((VERIFY,) if is_same_state else ()), ROW_COUNT, CONTENT_AGE, *own)
                _evaluate_again(instance, key, checks, since=event.timestamp)
            elif _has_moved_rows(shown, state):
                _evaluate_again(instance, key, own, since=event.timestamp)
                _count_again(instance, key, RowsFound.of(table, state, content["dagster/row_count"]), event.timestamp)
        return state, None
    return state, None if event is None else event.timestamp


def changed_rows(instance: dg.DagsterInstance, key: dg.AssetKey, table: lc.Table) -> dg.AssetMaterialization | None:
    """Return the event of a table whose rows are not those of its latest event, None if they are.

    For tables without a specification: there are no limits to compare with.
    """
    event = instance.get_latest_materialization_event(key)
    shown = event.asset_materialization if event is not None else None
    state = read_state(table)
    if _is_same_content(shown, state):
        return None
    return dg.AssetMaterialization(
        key,
        metadata={**state_metadata(state), "dagster/row_count": table.scan().count(), "dagster/uri": table.uri},
        tags={DATA_VERSION: state.content_version},
    )


def page_metadata(state: TableState, limits: MaintenanceSpec, last: str) -> Metadata:
    """Return what the page of a table shows of its state: its snapshot, health, age and maintenance first.

    `last` is the `last_maintenance`.
    """
    found = figures(state, limits)
    due = [figure for figure in found if figure.is_due]
    content_time = state.content_time
    newest = state.recent[0] if state.recent else None
    return {
        "paimon/snapshot_id": state.snapshot_id or 0,
        "paimon/made_by": "" if newest is None else str(newest),
        "paimon/health": "; ".join(map(str, due)) or "within all limits",
        "paimon/content_time": "" if content_time is None else dg.MetadataValue.timestamp(content_time),
        "paimon/next_maintenance": "; ".join(_next(operation, found) for operation in OPERATIONS),
        _LAST: last,
        **state_metadata(state),
        "paimon/commit_kind": "" if newest is None else newest.kind,
        "paimon/commit_user": "" if newest is None else newest.commit_user,
        "paimon/commit_identifier": "" if newest is None else str(newest.commit_identifier),
    }


def _next(operation: str, found: Sequence[Figure]) -> str:
    """Return whether an operation is due, and its figures with their limits."""
    own = [figure for figure in found if figure.operation == operation]
    return f"{operation}: {'due' if any(each.is_due for each in own) else 'not due'}, {', '.join(map(str, own))}"


def last_maintenance(
    instance: dg.DagsterInstance, lake: Lake, spec: TableSpec, outcomes: Mapping[str, str] | None = None
) -> str:
    """Return what each operation of a table did last, or why it did nothing. `outcomes`: of those that just ran."""
    found = {}
    for operation in OPERATIONS:
        event = instance.get_latest_materialization_event(lake.operation_key(spec, operation))
        shown = event.asset_materialization if event is not None else None
        known = None if shown is None else shown.metadata.get(OUTCOME)
        found[operation] = "not run yet" if known is None else str(known.value)
    return "; ".join(f"{operation}: {text}" for operation, text in {**found, **(outcomes or {})}.items())


def state_checks(key: dg.AssetKey, state: TableState, spec: TableSpec) -> Iterator[dg.AssetCheckResult]:
    """Evaluate the checks that need no more than the state of a table."""
    limits, names = spec.maintenance, state_check_names(spec)
    waiting = _waiting(state, limits)
    # The options of the lake's resource may postpone the buckets of a table whose specification does not say so.
    tells_waiting = WAITING_ROWS if WAITING_ROWS in names else "sorted_runs"
    for name in names:
        found, limit = STATE_CHECKS[name](state, limits)
        told = waiting if name == tells_waiting else ""
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=found <= limit and not told,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{found}, at most {limit}{told}",
            # The limit is text: as a number Dagster would plot it, and it is the same each time.
            metadata={f"paimon/{name}": dg.MetadataValue.int(found), "paimon/limit": dg.MetadataValue.text(str(limit))},
        )


def _waiting(state: TableState, limits: MaintenanceSpec) -> str:
    """Return what a check says of rows that wait for a compaction; "" if few do."""
    if state.waiting_rows <= limits.max_waiting_rows:
        return ""
    gain = "saves reads from merging them" if state.reads_waiting else "makes them readable"
    return f"; {state.waiting_rows:,} rows wait in bucket-postpone, and compact {gain}"


def verify_check(key: dg.AssetKey, table: lc.Table, progress: Callable[[lc.Progress], None]) -> dg.AssetCheckResult:
    """Verify the metadata and files of a table."""
    report = table.verify(progress=progress)
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=VERIFY,
        passed=not report.findings,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=findings(report),
    )


def report_unreadable(instance: dg.DagsterInstance, key: dg.AssetKey, error: lc.CorruptTable) -> None:
    """Let the check `verify` of a table that cannot be read fail, unless the page shows this fault already."""
    told = f"The table cannot be read. {error} Then evaluate this check again."
    latest = latest_checks(instance, key, [VERIFY]).get(VERIFY)
    if latest is None or latest.evaluation.description != told:
        fault = dg.AssetCheckResult(
            asset_key=key, check_name=VERIFY, passed=False, severity=dg.AssetCheckSeverity.ERROR, description=told
        )
        report_check(instance, fault, blocking=True)


def _evaluate_again(instance: dg.DagsterInstance, key: dg.AssetKey, names: Sequence[str], *, since: float) -> None:
    """Repeat the evaluations of checks whose subject is the same as at the time `since`, in seconds, or later."""
    for latest in latest_checks(instance, key, names).values():
        if latest.time >= since:
            found = latest.evaluation
            result = dg.AssetCheckResult(
                asset_key=key,
                check_name=found.check_name,
                passed=found.passed,
                severity=found.severity,
                description=found.description,
                metadata=found.metadata,
            )
            report_check(instance, result, blocking=bool(found.blocking))


def _count_again(instance: dg.DagsterInstance, key: dg.AssetKey, found: RowsFound, since: float) -> None:
    """Evaluate the check of the rows again, if it was evaluated at the time `since`, in seconds, or later."""
    latest = latest_checks(instance, key, [ROW_COUNT]).get(ROW_COUNT)
    if latest is not None and latest.time >= since:
        report_check(instance, counted_again(latest.evaluation, found))


def _has_moved_rows(shown: dg.AssetMaterialization | None, state: TableState) -> bool:
    """Return whether nothing happened since the state that is shown but compactions, which moved rows that waited."""
    at = _shown_position(shown, state)
    if at.get("incarnation") != state.incarnation:
        return False
    ids = [each.id for each in state.recent]
    since = state.recent[: ids.index(at["snapshot_id"])] if at.get("snapshot_id") in ids else ()
    return bool(since) and all(each.kind == "COMPACT" for each in since)


def _is_same_content(shown: dg.AssetMaterialization | None, state: TableState) -> bool:
    return shown is not None and (shown.tags or {}).get(DATA_VERSION) == state.content_version


def _are_evaluated(instance: dg.DagsterInstance, key: dg.AssetKey, names: Sequence[str], *, since: float) -> bool:
    """Return whether each of these checks was evaluated at the time `since`, in seconds, or later."""
    found = latest_checks(instance, key, names)
    return len(found) == len(names) and all(check.time >= since for check in found.values())


def _shown_position(shown: dg.AssetMaterialization | None, state: TableState) -> Mapping[str, Any]:
    """Return what the latest event says of the table's place in its history; less than a place, or none, without it."""
    metadata = {} if shown is None else shown.metadata
    return {name: value.value for name in position(state) if (value := metadata.get(f"paimon/{name}")) is not None}


def _content_metadata(shown: dg.AssetMaterialization | None, state: TableState, table: lc.Table) -> Metadata:
    """Return what depends on the rows only: as it was shown, or counted where the rows are others now."""
    if shown is None:
        return {"dagster/row_count": table.scan().count()}
    same = _is_same_content(shown, state) and "dagster/row_count" in shown.metadata
    count = shown.metadata["dagster/row_count"] if same else table.scan().count()
    return {"dagster/row_count": count, **{name: shown.metadata[name] for name in _KEPT if name in shown.metadata}}


def _lineage(shown: dg.AssetMaterialization | None) -> Mapping[str, str]:
    return {k: v for k, v in ((shown and shown.tags) or {}).items() if k.startswith(_LINEAGE_TAGS)}
