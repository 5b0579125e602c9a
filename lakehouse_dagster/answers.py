"""Answers: ask a source that may never answer, and wait for so long only.

Rule: a question without an answer is not asked again until it is answered, so at most one thread waits for it.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import Any, TypeVar

# A tick must end within 60 s, and it asks several sources.
LONGEST_WAIT_SECONDS = 15
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    answer: Future[Any]
    since: datetime


_waiting: dict[Hashable, _Question] = {}


def answered(question: Hashable, ask: Callable[[], R]) -> R:
    """Return what `ask` returns, or raise what it raises. `question` tells it from others of this process.

    Raises TimeoutError without an answer in time, and at once while an earlier one of this question is waited for.
    """
    earlier = _waiting.get(question)
    if earlier is None or earlier.answer.done():
        earlier = _waiting[question] = _Question(answer=Future(), since=datetime.now(UTC))
        Thread(target=_answer, args=(earlier.answer, ask), daemon=True).start()
        wait = LONGEST_WAIT_SECONDS
    else:
        wait = 0
    try:
        found: R = earlier.answer.result(timeout=wait)
    except TimeoutError:
        if earlier.answer.done():
            raise
        raise TimeoutError(f"no answer since {earlier.since:%Y-%m-%d %H:%M:%S} UTC") from None
    del _waiting[question]
    return found


def _answer(answer: Future[Any], ask: Callable[[], object]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:
        answer.set_exception(error)
