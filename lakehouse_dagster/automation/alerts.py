"""Alerts: a hook for failed steps, and a sensor for runs whose worker died without running a hook.

Both log one line with the table, the operation and the cause. Replace them by a pager or a channel.
"""

import dagster as dg


@dg.failure_hook(name="log_failed_step")
def log_failed_step(context: dg.HookContext) -> None:
    """Log the failed step, its run and the cause."""
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
