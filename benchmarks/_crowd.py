"""Processes that do the same thing at the same time."""

import multiprocessing
import time
from collections.abc import Callable
from threading import BrokenBarrierError
from typing import Any


def crowd(count: int, function: Callable[..., Any], *args: Any) -> tuple[list[Any], float]:
    """Run `function(number, ready, *args)` in `count` new interpreters; return what they returned, by number, and the
    seconds from when all were ready until the last one was done. Each calls `ready()` before what is measured.
    """
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(count + 1), context.Queue()
    workers = [
        context.Process(target=_take_part, args=(number, start, answers, function, args)) for number in range(count)
    ]
    for worker in workers:
        worker.start()
    try:
        start.wait()
        begin = time.perf_counter()
    except BrokenBarrierError:
        begin = 0.0
    found = dict(answers.get() for _ in workers)
    seconds = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    for result in found.values():
        if isinstance(result, Exception):
            raise result
    return [found[number] for number in range(count)], seconds


def _take_part(number: int, start: Any, answers: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        answers.put((number, function(number, start.wait, *args)))
    except Exception as error:  # It ends the benchmark, in the process that started this one.
        start.abort()
        answers.put((number, error))
