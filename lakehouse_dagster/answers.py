"""Answers: ask a source that may never answer, and wait for so long only.

Rule: a question without an answer is not asked again until it is answered, so at most one thread waits for it.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock, Thread
from typing import Any, TypeVar

# A tick must end within 60 s, and it asks several sources.
LONGEST_WAIT_SECONDS = 15
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    answer: Future[Any]
    since: datetime


_asked: dict[Hashable, _Question] = {}
_lock = Lock()


def answered(question: Hashable, ask: Callable[[], R]) -> R:
    """Return what `ask` returns, or raise what it raises. `question` tells it from others of this process.

    A question that another thread has just asked has the same answer. Raises TimeoutError without an answer in time.
    """
    with _lock:
        asked = _asked.get(question)
        if asked is None or asked.answer.done():
            asked = _asked[question] = _Question(answer=Future(), since=datetime.now(UTC))
            Thread(target=_answer, args=(asked.answer, ask), daemon=True).start()
    left = LONGEST_WAIT_SECONDS - (datetime.now(UTC) - asked.since).total_seconds()
    try:
        found: R = asked.answer.result(timeout=max(0.0, left))
    except TimeoutError:
        if asked.answer.done():
            raise
        raise TimeoutError(f"no answer since {asked.since:%Y-%m-%d %H:%M:%S} UTC") from None
    return found


def _answer(answer: Future[Any], ask: Callable[[], object]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:
        answer.set_exception(error)
