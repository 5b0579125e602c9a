"""How often, how long and with which waits work is repeated."""

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.retry import Attempt, Retry


class SlowestClock(VirtualClock):
    """Waits take as long as they may."""

    def uniform(self, low: float, high: float) -> float:
        return high


def waits(retry: Retry, clock: VirtualClock, *, works: float = 0, growth: int | None = None, count: int = 4) -> str:
    """Return the waits in milliseconds after each of some attempts, each of which works so many seconds."""
    found = []
    for attempt in retry.attempts(clock):
        clock.advance(works)
        before = clock.monotonic_seconds()
        attempt.wait(growth)
        found.append(f"{(clock.monotonic_seconds() - before) * 1000:.0f}")
        if attempt.number == count:
            break
    return " ".join(found)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_there_are_as_many_attempts_as_the_policy_says(count):
    assert [attempt.number for attempt in Retry(count).attempts()] == list(range(1, count + 1))


def test_only_the_last_attempt_says_that_it_is_the_last():
    assert [attempt.is_last for attempt in Retry(3).attempts()] == [False, False, True]


def test_the_first_attempt_after_the_deadline_is_the_last():
    clock = VirtualClock()
    numbers = []
    for attempt in Retry(None, timeout_millis=1000).attempts(clock):
        clock.advance(0.4)
        numbers.append(attempt.number)

    assert numbers == [1, 2, 3]


def test_the_timeout_counts_from_the_call_and_not_from_the_first_attempt():
    clock = VirtualClock()
    attempts = Retry(None, timeout_millis=1000).attempts(clock)
    clock.advance(1)

    assert len(list(attempts)) == 1


def test_work_inside_another_attempt_has_the_deadline_of_that_one():
    clock = VirtualClock()
    for outer in Retry(1, timeout_millis=1000).attempts(clock):
        clock.advance(0.5)
        inner = []
        for attempt in Retry(None, timeout_millis=60_000).attempts(clock, until=outer.deadline):
            clock.advance(0.2)
            inner.append(attempt.number)

    assert inner == [1, 2, 3]


def test_an_attempt_follows_a_wait_that_passed_the_deadline():
    clock = SlowestClock()
    numbers = []
    for attempt in Retry(None, timeout_millis=1000, min_wait_millis=900, max_wait_millis=900).attempts(clock):
        numbers.append(attempt.number)
        attempt.wait()

    assert numbers == [1, 2, 3], "the second wait ends at 1.8 seconds"


def test_nothing_is_waited_for_after_the_last_attempt():
    assert waits(Retry(2, min_wait_millis=10, max_wait_millis=100), SlowestClock()) == "40 0"


def test_waits_grow_up_to_the_longest():
    assert waits(Retry(min_wait_millis=10, max_wait_millis=200), SlowestClock()) == "40 160 200 200"


def test_work_that_takes_long_waits_long():
    assert waits(Retry(min_wait_millis=10, max_wait_millis=9_000), SlowestClock(), works=0.5) == "2000 8000 9000 9000"


def test_the_growth_of_a_wait_may_be_given():
    assert waits(Retry(min_wait_millis=10, max_wait_millis=200), SlowestClock(), growth=0) == "0 0 0 0"
    assert waits(Retry(min_wait_millis=10, max_wait_millis=200), SlowestClock(), growth=2) == "20 20 20 20"


def test_the_time_before_a_restart_does_not_count_as_work():
    clock = SlowestClock()
    for attempt in Retry(2, min_wait_millis=10, max_wait_millis=9_000).attempts(clock):
        clock.advance(5)
        attempt.restart()
        before = clock.monotonic_seconds()
        attempt.wait(1)
        break

    assert clock.monotonic_seconds() - before == pytest.approx(0.01)


def test_waits_are_random_between_nothing_and_the_longest():
    clock = VirtualClock(seed=7)
    found = [int(text) for text in waits(Retry(200, None, 100, 100), clock, count=199).split()]

    assert min(found) < 5
    assert max(found) > 95
    assert 40 < sum(found) / len(found) < 60


def test_a_policy_without_waits_needs_no_clock():
    for attempt in Retry(2).attempts():
        attempt.wait()


@pytest.mark.parametrize(
    ("retry", "clock"),
    [
        pytest.param(Retry(None), VirtualClock(), id="no bound"),
        pytest.param(Retry(timeout_millis=1), None, id="a deadline without a clock"),
        pytest.param(Retry(max_wait_millis=1), None, id="a wait without a clock"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_a_mistake_of_ours(retry, clock):
    with pytest.raises(AssertionError):
        retry.attempts(clock)


class Flaky:
    """Fails with each of `errors` in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.calls = 0
        self._errors = errors

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= len(self._errors):
            raise self._errors[self.calls - 1]
        return f"answer {self.calls}"


def gave_up(count: int) -> StorageUnavailable:
    return StorageUnavailable(f"gave up after {count}")


def test_a_call_is_repeated_until_it_answers():
    assert Retry(3).call(Flaky(NotFound("1"), NotFound("2")), on=(NotFound,), exhausted=gave_up) == "answer 3"


def test_a_call_waits_before_it_is_repeated():
    clock = SlowestClock()
    before = clock.monotonic_seconds()

    assert Retry(3, None, 10, 50).call(Flaky(NotFound("1"), NotFound("2")), on=(NotFound,), clock=clock) == "answer 3"
    assert clock.monotonic_seconds() - before == pytest.approx(0.04 + 0.05)


def test_a_call_that_never_answers_ends_with_the_callers_error_and_its_cause():
    read = Flaky(NotFound("1"), NotFound("2"), NotFound("3"))

    with pytest.raises(StorageUnavailable, match="gave up after 3") as caught:
        Retry(3).call(read, on=(NotFound,), exhausted=gave_up)
    assert str(caught.value.__cause__) == "3"
    assert read.calls == 3


def test_without_an_error_of_the_caller_the_last_one_passes():
    with pytest.raises(NotFound, match="2"):
        Retry(2).call(Flaky(NotFound("1"), NotFound("2")), on=(NotFound,))


def test_an_error_of_another_kind_passes_at_once():
    read = Flaky(CorruptTable("broken"))

    with pytest.raises(CorruptTable, match="broken"):
        Retry(3).call(read, on=(NotFound,), exhausted=gave_up)
    assert read.calls == 1


def test_an_attempt_that_asked_whether_it_is_the_last_keeps_the_answer():
    clock = VirtualClock()
    attempts = Retry(None, timeout_millis=1000).attempts(clock)
    first = next(attempts)

    assert not first.is_last
    clock.advance(2)
    assert not first.is_last
    second = next(attempts)
    assert isinstance(second, Attempt)
    assert second.is_last
