"""Alerts: a hook for steps that fail, a sensor for runs whose worker died and ran no hook.

Both write one line to the log that names table, operation and cause; put a pager or a channel in their place.
"""

import dagster as dg


@dg.failure_hook(name="log_failed_step")
def log_failed_step(context: dg.HookContext) -> None:
    """Log what failed in which run, and why."""
    tags = context.op.tags
    what = " ".join(filter(None, (tags.get("lakehouse/operation"), tags.get("lakehouse/table")))) or context.op.name
    cause = context.op_exception
    context.log.error(f"{what} failed in run {context.run_id}: {type(cause).__name__}: {cause}")


@dg.run_failure_sensor(
    name="log_failed_run",
    description="Reports every failed run, also those whose process was killed.",
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def log_failed_run(context: dg.RunFailureSensorContext) -> None:
    run = context.dagster_run
    context.log.error(f"run {run.run_id} of {run.job_name} failed: {context.failure_event.message}")
