"""A source that may never answer is asked once, and waited for so long only."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from lakehouse_dagster import answers


class Source:
    """A source that answers with the number of its answers, when it may."""

    def __init__(self) -> None:
        self.asked, self.may_answer = 0, Event()

    def __call__(self) -> int:
        self.asked += 1
        self.may_answer.wait()
        return self.asked


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.may_answer.set()


def test_one_thread_waits_for_a_source_that_hangs_and_it_is_asked_again_when_it_has_answered(
    source: Source, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(answers, "LONGEST_WAIT_SECONDS", 0.01)
    for _ in range(3):
        with pytest.raises(TimeoutError, match="no answer since "):
            answers.answered(source, source)
    assert source.asked == 1

    monkeypatch.setattr(answers, "LONGEST_WAIT_SECONDS", 60)
    source.may_answer.set()
    answers.answered(source, source)
    assert answers.answered(source, source) == source.asked > 1


def test_two_threads_that_ask_at_the_same_time_get_the_same_answer(source: Source, monkeypatch: pytest.MonkeyPatch):
    waiting = []

    class Answer(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            waiting.append(self)
            if len(waiting) == 2:
                source.may_answer.set()
            return super().result(timeout)

    monkeypatch.setattr(answers, "Future", Answer)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: answers.answered(source, source), range(2)))

    assert found == [1, 1]


def test_an_error_of_the_source_is_raised_even_if_it_is_a_timeout():
    def ask() -> int:
        raise TimeoutError("the line is busy")

    with pytest.raises(TimeoutError, match="the line is busy"):
        answers.answered("busy", ask)
