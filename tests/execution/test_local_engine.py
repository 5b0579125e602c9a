"""The local engine runs tasks one after the other, or a few at the same time. The law: the answers are the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Barrier, Event, Lock, current_thread

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import MemoryStore
from lakehouse_core.tasks.runtime import TaskRuntime, local_runtime
from tests.limits import HANGS_AFTER_SECONDS

MANY = 1_000


def engine_of(tasks_at_once: int) -> LocalEngine:
    clock = VirtualClock()
    return LocalEngine(replace(local_runtime(MemoryStore(clock=clock), clock), tasks_at_once=tasks_at_once))


def told_by(
    engine: LocalEngine, task: Callable[[int, TaskRuntime], str], inputs: Sequence[int], most: int | None = None
) -> list[str]:
    """Return what the caller is told."""
    told = list[str]()
    engine.run_at_once(task, inputs, told.append, most=most)
    return told


def slow(number: int, begun: list[int]) -> str:
    begun.append(number)
    Event().wait(0.01)
    return str(number)


def doubled(number: int, runtime: TaskRuntime) -> str:
    return str(2 * number)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_the_answers_come_in_the_order_of_the_inputs(at_once: int, count: int) -> None:
    assert told_by(engine_of(at_once), doubled, range(count)) == [str(2 * each) for each in range(count)]


def test_so_many_tasks_run_at_the_same_time() -> None:
    meeting = Barrier(3)

    def meet(number: int, runtime: TaskRuntime) -> str:
        meeting.wait(HANGS_AFTER_SECONDS)
        return str(number)

    assert told_by(engine_of(3), meet, range(6)) == list("012345")


def test_after_a_failure_no_task_begins_and_what_succeeded_is_told_first() -> None:
    begun, told = list[int](), list[str]()

    def task(number: int, runtime: TaskRuntime) -> str:
        if number == 0:
            while not begun:
                Event().wait(0.001)
            raise ValueError("task 0")
        return slow(number, begun)

    with pytest.raises(ValueError, match="task 0"):
        engine_of(2).run_at_once(task, range(MANY), told.append)

    assert 0 < len(begun) < MANY - 1
    assert told == [str(number) for number in begun]


def test_an_interruption_ends_after_the_tasks_that_run_and_tells_what_they_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, goes_on, told = Event(), Event(), list[str]()

    def task(number: int, runtime: TaskRuntime) -> str:
        begun.set()
        Event().wait(0.01)
        assert goes_on.wait(HANGS_AFTER_SECONDS)
        return str(number)

    def interrupted(futures: object) -> None:
        assert begun.wait(HANGS_AFTER_SECONDS)
        goes_on.set()
        raise KeyboardInterrupt

    monkeypatch.setattr("lakehouse_core.execution.engines.local.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine_of(2).run_at_once(task, range(MANY), told.append)

    assert "0" in told
    assert len(told) < MANY


@pytest.mark.parametrize("is_first", [True, False])
def test_a_task_that_runs_stops_when_it_asks_after_another_one_failed(is_first: bool) -> None:
    has_begun, asked = Event(), list[int]()

    def task(number: int, runtime: TaskRuntime) -> str:
        if is_first == (number == 0):
            assert has_begun.wait(HANGS_AFTER_SECONDS)
            raise ValueError(f"task {number}")
        while True:
            has_begun.set()
            asked.append(number)
            runtime.check_stopped()
            Event().wait(0.001)

    with pytest.raises(ValueError, match="task"):
        told_by(engine_of(2), task, range(2))
    assert asked


def test_at_most_so_many_run_as_the_caller_says() -> None:
    running, most_seen, lock = 0, 0, Lock()

    def task(number: int, runtime: TaskRuntime) -> str:
        nonlocal running, most_seen
        with lock:
            running += 1
            most_seen = max(most_seen, running)
        Event().wait(0.002)
        with lock:
            running -= 1
        return str(number)

    assert told_by(engine_of(4), task, range(20), most=2) == [str(number) for number in range(20)]
    assert most_seen <= 2


def test_a_caller_that_fails_is_told_what_the_other_tasks_made_and_no_further_task_begins() -> None:
    begun, told = list[int](), list[str]()

    def take(text: str) -> None:
        told.append(text)
        if len(told) == 1:
            while len(begun) < 4:
                Event().wait(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine_of(2).run_at_once(lambda number, runtime: slow(number, begun), range(MANY), take)

    assert 4 <= len(begun) < MANY
    assert told == [str(number) for number in sorted(begun)]


def test_where_no_thread_can_be_started_any_more_the_tasks_run_in_the_calling_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As it is when the main thread of the program has ended.
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)

    assert told_by(engine_of(2), lambda number, runtime: current_thread().name, range(2)) == 2 * [current_thread().name]
