"""Failures: map errors of the core to Dagster's retries.

A transient error is retried, any other error fails at once.
"""

from collections.abc import Iterator, Sequence
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

MOST_RETRIES = 3
FIRST_WAIT_SECONDS = 5


def first_lasting(errors: Sequence[lc.LakehouseError]) -> lc.LakehouseError:
    """Return the first error that a repetition does not mend, else the first one."""
    return next((error for error in errors if not isinstance(error, TRANSIENT)), errors[0])


@contextmanager
def retry_transient(table: str, operation: str, *, retry_number: int) -> Iterator[None]:
    """Request a retry of the step, later each time, for a transient error of the core; fail at once for any other
    error.

    A retry policy of the asset would also retry a wrong option or a programming error.
    """
    try:
        yield
    except TRANSIENT as error:
        raise dg.RetryRequested(
            max_retries=MOST_RETRIES, seconds_to_wait=FIRST_WAIT_SECONDS * 2**retry_number
        ) from error
    except lc.LakehouseError as error:
        raise dg.Failure(
            description=str(error),
            metadata={"lakehouse/table": table, "lakehouse/operation": operation, "error": type(error).__name__},
            allow_retries=False,
        ) from error
