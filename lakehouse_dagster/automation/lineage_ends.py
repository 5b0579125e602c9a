"""Ends of lineage: the sensors that send the last event of steps whose process was killed.

Rule: a step that ended by itself has sent its own last event, and gets no second one.
"""

import dagster as dg

from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lineage import State, StepLineage, note_end, send_event, unended_steps
from lakehouse_dagster.resources import LakehouseResource


class _ProcessDied(Exception):
    """The error of a step that could not tell its own."""


def lineage_sensors(lake: Lake) -> list[dg.SensorDefinition]:
    """Return the sensors that end what killed steps of a lake began: with FAIL in a failed run, with ABORT in a
    canceled one. They are on.
    """
    return [
        _sensor(lake, "lineage", dg.DagsterRunStatus.FAILURE, "FAIL"),
        _sensor(lake, "lineage_canceled", dg.DagsterRunStatus.CANCELED, "ABORT"),
    ]


def _sensor(lake: Lake, name: str, status: dg.DagsterRunStatus, state: State) -> dg.SensorDefinition:
    def end(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        steps = unended_steps(context.instance, context.dagster_run.run_id, lake.name)
        for step in steps:
            send_event(
                step,
                state,
                StepLineage(),
                _ProcessDied(f"the process of the run died: {context.dagster_event.message or ''}"),
                receiver=lakehouse.lineage,
                api_key=lakehouse.lineage_api_key,
                warn=context.log.warning,
            )
            note_end(context.instance, step)
        return None if steps else dg.SkipReason("no step of this lake died with the run")

    return dg.RunStatusSensorDefinition(
        lake.scoped(name),
        run_status=status,
        run_status_sensor_fn=end,
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Sends {state}, the last lineage event, for steps whose process was killed.",
        required_resource_keys={lake.resource},
    )
