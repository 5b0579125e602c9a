"""Requests: which of the runs that a sensor asks for are still to be requested.

Rule: Dagster runs a key once, so a request whose run there is takes no place of one that is to be done.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import dagster as dg

# More at once would fill the queue after an outage. The next tick requests the others.
MOST_REQUESTS = 10
_RUN_KEY, _SENSOR = "dagster/run_key", "dagster/sensor_name"


def first_requests(
    instance: dg.DagsterInstance, sensor: str, requests: Iterable[dg.RunRequest], *, most: int = MOST_REQUESTS
) -> list[dg.RunRequest]:
    """Return the first `most` of the requests of a sensor for whose keys it has no run yet."""
    return list(islice(_without_run(instance, sensor, requests), most))


def _without_run(
    instance: dg.DagsterInstance, sensor: str, requests: Iterable[dg.RunRequest]
) -> Iterator[dg.RunRequest]:
    for request in requests:
        # By the key alone, one after the other: so Dagster finds them, too, and databases are fast at it.
        runs = instance.get_runs(dg.RunsFilter(tags={_RUN_KEY: str(request.run_key)}))
        # A run that was made and not launched is launched by the next request with its key.
        if not any(run.tags.get(_SENSOR) == sensor and run.status != dg.DagsterRunStatus.NOT_STARTED for run in runs):
            yield request
