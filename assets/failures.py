"""Errors of the core as Dagster should take them: what may pass is tried again, what cannot is not."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

import lakehouse_core as lc

# For these the same call may succeed later; conflicts are resolved inside the core before they get here.
TRANSIENT = (
    lc.StorageUnavailable,
    lc.CommitConflict,
    lc.CommitTimeout,
    lc.CommitOutcomeUnknown,
    lc.BackPressure,
    lc.TaskFailed,
)

RETRIES = dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


@contextmanager
def no_retry_in_vain(table: str, operation: str) -> Iterator[None]:
    """Turn an error of the core that no retry can heal into a failure that ends the step at once."""
    try:
        yield
    except TRANSIENT:
        raise
    except lc.LakehouseError as error:
        raise dg.Failure(
            description=str(error),
            metadata={"lakehouse/table": table, "lakehouse/operation": operation, "error": type(error).__name__},
            allow_retries=False,
        ) from error
