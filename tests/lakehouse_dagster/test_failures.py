"""What Dagster tries again, and what it does not."""

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster.failures import MOST_RETRIES, TRANSIENT, retry_transient

PERMANENT = (lc.InvalidRequest, lc.UnsupportedFeature, lc.CorruptTable, lc.NotFound, lc.SnapshotExpired, lc.StaleCommit)


@pytest.mark.parametrize("error", [*TRANSIENT, lc.StorageFull, lc.WriteOutcomeUnknown])
def test_what_may_pass_is_asked_for_again_a_little_later_each_time(error: type[lc.LakehouseError]):
    waits = []
    for attempt in range(MOST_RETRIES):
        with pytest.raises(dg.RetryRequested) as asked, retry_transient("ops.t", "commit", retry_number=attempt):
            raise error("the store did not answer")
        waits.append(asked.value.seconds_to_wait)

    assert waits == [5, 10, 20]
    assert asked.value.max_retries == MOST_RETRIES


@pytest.mark.parametrize("error", PERMANENT)
def test_what_stays_wrong_ends_the_step_with_the_cores_own_words(error: type[lc.LakehouseError]):
    with (
        pytest.raises(dg.Failure, match="bucket is 0") as failed,
        retry_transient("ops.t", "commit", retry_number=0),
    ):
        raise error("ops.t: bucket is 0: set 1 or more.")

    assert not failed.value.allow_retries
    assert failed.value.metadata["error"].value == error.__name__


def test_every_error_of_the_core_is_either_of_the_two():
    tree = {getattr(lc, name) for name in lc.__all__ if isinstance(getattr(lc, name), type)}
    errors = {kind for kind in tree if issubclass(kind, lc.LakehouseError)} - {lc.LakehouseError, lc.PlanTooLarge}

    assert all(issubclass(error, TRANSIENT) != issubclass(error, PERMANENT) for error in errors)


def test_a_programming_error_is_left_as_it_is():
    with pytest.raises(ZeroDivisionError), retry_transient("ops.t", "commit", retry_number=0):
        _ = 1 / 0
