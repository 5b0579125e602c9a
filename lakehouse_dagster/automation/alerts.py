"""Alerts: a hook for failed steps, and sensors for failed runs, which also see runs whose worker died.

The log is always there; a webhook is the example of a channel that reaches people.
"""

import json
import time
import urllib.error
import urllib.request
from typing import Any

import dagster as dg

from lakehouse_dagster.run_tags import CARRY_ON, OPERATION, TABLE, root_run_id

_ATTEMPTS, _WAIT_SECONDS, _TIMEOUT_SECONDS = 3, 2, 5


@dg.failure_hook(name="log_failed_step")
def log_failed_step(context: dg.HookContext) -> None:
    """Log the failed step, its run and the cause: a hook, which the jobs of a lake have."""
    tags = context.op.tags
    what = " ".join(filter(None, (tags.get(OPERATION), tags.get(TABLE)))) or context.op.name
    cause = context.op_exception
    context.log.error(f"{what} failed in run {context.run_id}: {type(cause).__name__}: {cause}")


@dg.run_failure_sensor(
    name="log_failed_run",
    description="Reports every failed run, also those whose process was killed.",
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def log_failed_run(context: dg.RunFailureSensorContext) -> None:
    """Log every failed run, also those whose process was killed. A sensor, which is on; it is among the
    `location_definitions`.
    """
    alert = failed_run_alert(context.dagster_run, context.failure_event)
    what = " ".join(filter(None, (alert["operation"], alert["table"]))) or f"job {alert['job']}"
    context.log.error(f"{what} failed in run {alert['run_id']}: {alert['message']}")


def webhook_sensor(url: str | dg.EnvVar, *, name: str = "failed_run_webhook") -> dg.SensorDefinition:
    """Return the sensor that posts every failed run of the code location as JSON to `url`, and is on by default.

    The members are `run_id`, `root_run_id`, `job`, `table`, `operation`, `message` and `will_retry`. Runs from asset
    pages and runs whose process was killed are posted too. Give an `EnvVar` for an address that is a secret; while its
    variable is not set, the sensor only says so. An address that does not take the alert in three attempts fails the
    tick.
    """

    @dg.run_failure_sensor(
        name=name,
        description="Posts every failed run to a web address, also runs whose process was killed.",
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def failed_run_webhook(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        address = url.get_value() if isinstance(url, dg.EnvVar) else url
        if not address:
            return dg.SkipReason("no address: set the environment variable of this sensor to the one that takes alerts")
        post(address, failed_run_alert(context.dagster_run, context.failure_event))
        return None

    return failed_run_webhook


def failed_run_alert(run: dg.DagsterRun, failure: dg.DagsterEvent) -> dict[str, Any]:
    """Return what an alert says of a failed run; `table` and `operation` are empty for runs of several tables."""
    return {
        "run_id": run.run_id,
        "root_run_id": root_run_id(run.root_run_id or run.run_id, run.tags),
        "job": run.job_name,
        "table": run.tags.get(TABLE, ""),
        "operation": run.tags.get(OPERATION, ""),
        "message": failure.message or "",
        "will_retry": run.tags.get("dagster/will_retry") == "true" or run.run_id in run.tags.get(CARRY_ON, ""),
    }


def post(address: str, document: dict[str, Any]) -> None:
    """Post a document as JSON. Raises RuntimeError when the address does not take it in three attempts."""
    request = urllib.request.Request(
        address, data=json.dumps(document).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    for attempt in range(1, _ATTEMPTS + 1):
        error = _sent(request)
        if error is None:
            return
        if attempt < _ATTEMPTS:
            time.sleep(_WAIT_SECONDS)
    # The address itself is a secret of some services: the message names its host alone.
    raise RuntimeError(
        f"alert of run {document['run_id']}: {request.host} did not take it: {error}. Check the address."
    ) from error


def _sent(request: urllib.request.Request) -> Exception | None:
    """Send a request; return the error when the address does not take it."""
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        # The error is the answer too, and has the connection.
        error.close()
        return error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        return error
