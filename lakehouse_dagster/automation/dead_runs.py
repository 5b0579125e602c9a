"""Carry on: the sensor that executes dead runs again when Dagster's own retries forget them.

Rule: a run is carried on once. First Dagster is told to leave it alone, and only a later tick requests the new run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from lakehouse_dagster.instance.dagster_internals import is_canceled_backfill, location_name, most_retries
from lakehouse_dagster.run_tags import CARRY_ON, ROOT_RUN, root_run_id

# Dagster retries a run within seconds of its failure, or never: its daemon reads each failure event once, and passes
# over an event that it reads before the run has the status.
GRACE = timedelta(seconds=10)
# A run that died earlier is not executed again: its data may have been loaded in another way since.
MEMORY = timedelta(days=1)
INTERVAL_SECONDS = 15
# In one tick: after an outage more would fill the queue before other runs. The next tick requests the others.
MOST_REQUESTS = 20

PARENT, ROOT = "dagster/parent_run_id", "dagster/root_run_id"
# How often the group may be executed again, while Dagster's own number is 0.
ALLOWED = "lakehouse/max_retries"
WILL_RETRY, MAX_RETRIES, REASON = "dagster/will_retry", "dagster/max_retries", "dagster/failure_reason"
_DONE = "done"
STEP_FAILURE = "STEP_FAILURE"
# A tick reads the newest failures of a day, at most so many.
_MOST_FAILURES = 500
# Tags of a dead run that its new run does not have: they say how that run was requested, and how it ended.
_OF_THE_DEAD = frozenset(
    {
        CARRY_ON,
        WILL_RETRY,
        REASON,
        "dagster/auto_retry_run_id",
        "dagster/retry_number",
        "dagster/is_resume_retry",
        "dagster/is_asset_resume_retry",
        "dagster/run_key",
        "dagster/sensor_name",
        "dagster/schedule_name",
        "dagster/tick",
        "lakehouse/worker_host",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A failed run. `retries`: how many re-executions its group has; `child`: it has one of its own."""

    run_id: str
    ended: datetime
    tags: Mapping[str, str]
    retries: int
    child: bool


def is_forgotten(death: Death, *, max_retries: int, now: datetime) -> bool:
    """Return whether a failed run ought to have been executed again and was not.

    A step that failed by itself is not: it had its own retries.
    """
    allowed = death.tags.get(ALLOWED) or death.tags.get(MAX_RETRIES) or ""
    return (
        not death.child
        and death.tags.get(REASON) != STEP_FAILURE
        and death.retries < (int(allowed) if allowed.isdecimal() else max_retries)
        and GRACE <= now - death.ended <= MEMORY
    )


def is_claimed(death: Death) -> bool:
    """Return whether an earlier tick has told Dagster to leave the run alone."""
    return death.tags.get(CARRY_ON) == death.run_id


def carried_tags(death: Death, *, max_retries: int) -> dict[str, str]:
    """Return the tags of the run that carries on a dead one: of its group, and never retried by Dagster itself.

    Dagster takes a requested run for the first of its group. So this sensor counts, and carries on what dies again.
    """
    tags = {name: value for name, value in death.tags.items() if name not in _OF_THE_DEAD and name[0] != "."}
    root = root_run_id(death.run_id, death.tags)
    allowed = tags.get(ALLOWED) or tags.get(MAX_RETRIES) or str(max_retries)
    return {**tags, PARENT: death.run_id, ROOT: root, ROOT_RUN: root, MAX_RETRIES: "0", ALLOWED: allowed}


@dg.sensor(
    name="carry_on",
    asset_selection=dg.AssetSelection.all(),
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Executes dead runs again, once, when Dagster's own retry of them was lost.",
)
def carry_on(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Execute dead runs again, once each, when Dagster's own retry of them was lost. A sensor, which is on; it is among
    the `location_definitions`.
    """
    instance, known = context.instance, context.repository_def
    assert known is not None
    max_retries = most_retries(instance)
    requests = []
    claimed = []
    for run, death in _deaths(context):
        if not is_forgotten(death, max_retries=max_retries, now=datetime.now(UTC)):
            if death.child and is_claimed(death):
                instance.add_run_tags(run.run_id, {CARRY_ON: f"{run.run_id} {_DONE}"})
        elif not is_claimed(death):
            # Should Dagster be about to retry the run at this very moment, the next tick finds what it made.
            instance.add_run_tags(run.run_id, {CARRY_ON: run.run_id, WILL_RETRY: "false"})
            claimed.append(run.run_id)
        elif keys := [key for key in _assets(instance, run) if key in known.assets_defs_by_key]:
            requests.append(
                dg.RunRequest(
                    run_key=f"carry_on:{run.run_id}",
                    run_config=run.run_config,
                    asset_selection=keys,
                    asset_check_keys=None if run.asset_check_selection is None else [*run.asset_check_selection],
                    tags=carried_tags(death, max_retries=max_retries),
                )
            )
    if requests:
        context.log.info(f"carries on {', '.join(request.tags[PARENT] for request in requests[:MOST_REQUESTS])}")
        return dg.SensorResult(run_requests=requests[:MOST_REQUESTS])
    return dg.SensorResult(skip_reason=f"to be carried on: {', '.join(claimed)}" if claimed else "no run is forgotten")


def _deaths(context: dg.SensorEvaluationContext) -> Iterator[tuple[dg.DagsterRun, Death]]:
    """Yield the failed runs of this code location that may have been forgotten, the newest first."""
    instance, here = context.instance, context.code_location_origin
    recent = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=datetime.now(UTC) - MEMORY)
    for record in instance.get_run_records(recent, limit=_MOST_FAILURES):
        run, where = record.dagster_run, location_name(record.dagster_run)
        # A process that executes a run of its own, such as `make run`, continues when it is started again.
        is_ours = where is not None and (here is None or where == here.location_name)
        settled = "dagster/auto_retry_run_id" in run.tags or run.tags.get(CARRY_ON) == f"{run.run_id} {_DONE}"
        failed_step = run.tags.get(REASON) == STEP_FAILURE
        if not is_ours or settled or failed_step or record.end_time is None or is_canceled_backfill(instance, run):
            continue
        group = {ROOT: root_run_id(run.run_id, run.tags)}
        yield (
            run,
            Death(
                run_id=run.run_id,
                ended=datetime.fromtimestamp(record.end_time, UTC),
                tags=run.tags,
                retries=len(instance.get_run_ids(dg.RunsFilter(tags=group))),
                child=bool(instance.get_run_ids(dg.RunsFilter(tags={PARENT: run.run_id}))),
            ),
        )


def _assets(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Sequence[dg.AssetKey]:
    """Return what a run had selected, or what it planned when it was a run of a whole job."""
    if run.asset_selection:
        return sorted(run.asset_selection)
    planned = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    events = (entry.dagster_event for entry in planned)
    return sorted({event.asset_key for event in events if event is not None and event.asset_key is not None})
