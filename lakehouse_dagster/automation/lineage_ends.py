"""Ends of lineage: the sensor that sends the last event of steps whose process was killed.

Rule: a step that ended by itself has sent its own last event, and gets no second one.
"""

from collections.abc import Iterator

import dagster as dg

from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lineage import Step, StepLineage, send_event
from lakehouse_dagster.pipeline import OPERATIONS
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.run_tags import root_run_id

_BEGINS = frozenset({dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_RESTARTED})
_ENDS = frozenset(
    {dg.DagsterEventType.STEP_SUCCESS, dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.STEP_UP_FOR_RETRY}
)


def lineage_sensor(lake: Lake) -> dg.SensorDefinition:
    """Return the sensor that sends FAIL for each step of the tables of a lake that died with its run. It is on."""
    jobs = {
        "__".join(key.path): f"{spec.identifier}.{operation}"
        for spec in lake.tables
        for operation, key in (
            ("commit", lake.table_key(spec)),
            *((each, lake.operation_key(spec, each)) for each in ("ingest", *OPERATIONS)),
        )
    }

    def end(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        run = context.dagster_run
        died = [(jobs[name], attempt) for name, attempt in dead_steps(context.instance, run.run_id) if name in jobs]
        for job, attempt in died:
            step = Step(
                namespace=lake.name,
                job=job,
                run_id=run.run_id,
                root_run_id=root_run_id(run.root_run_id or run.run_id, run.tags),
                run_job=run.job_name,
                attempt=attempt,
            )
            send_event(
                step,
                "FAIL",
                StepLineage(),
                RuntimeError(f"the process of the run died: {context.dagster_event.message or ''}"),
                receiver=lakehouse.lineage,
                api_key=lakehouse.lineage_api_key,
                warn=context.log.warning,
            )
        return None if died else dg.SkipReason("no step of this lake died with the run")

    return dg.RunStatusSensorDefinition(
        lake.scoped("lineage"),
        run_status=dg.DagsterRunStatus.FAILURE,
        run_status_sensor_fn=end,
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends the last lineage event of steps whose process was killed.",
        required_resource_keys={lake.resource},
    )


def dead_steps(instance: dg.DagsterInstance, run_id: str) -> Iterator[tuple[str, int]]:
    """Yield the steps of a run that began and did not end, each with the number of its attempt, from 0."""
    attempts: dict[str, int] = {}
    open_steps: set[str] = set()
    for entry in instance.all_logs(run_id, of_type={*_BEGINS, *_ENDS}):
        event = entry.dagster_event
        if event is None or event.step_key is None:
            continue
        name = event.step_key
        if event.event_type in _BEGINS:
            open_steps.add(name)
        else:
            open_steps.discard(name)
            attempts[name] = attempts.get(name, 0) + 1
    for name in sorted(open_steps):
        yield name, attempts.get(name, 0)
