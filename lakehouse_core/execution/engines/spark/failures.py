"""Errors of tasks on executors: the caller gets the same classes as from this process, never a Java stack trace.

An error that another attempt would repeat is returned as a result and raised on the driver. An error that may pass
(storage, memory, a lost process) fails the attempt, so that Spark repeats it; the last failure's text holds class and
message as marked JSON.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse_core import errors
from lakehouse_core.errors import CredentialsMissing, InvalidRequest, LakehouseError, StorageUnavailable, TaskFailed
from lakehouse_core.execution.engines.spark.session import is_stopped

# Finds our text in the Python traceback inside Spark's message; ASCII JSON has no line breaks.
_MARK: Final = "lakehouse-task-error "
_CLASSES: Final[dict[str, type[LakehouseError]]] = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, LakehouseError)
}
# Tasks run with the first python3 of PATH unless the session's settings name another Python.
_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '((?:pyarrow|lakehouse_core)\b[\w.]*)'")
# Spark's messages for a stopped session: in Python, in Java.
_STOPPED: Final = (
    "SESSION_OR_CONTEXT_NOT_EXISTS",
    "stopped SparkContext",
    "SparkContext was shut down",
    "NO_ACTIVE_SESSION",
    "SESSION_CLOSED",
)


class AttemptFailed(Exception):
    """One attempt of a task failed with an error that another attempt may not meet."""


def may_pass(error: LakehouseError) -> bool:
    """Whether another attempt of the same task may succeed."""
    return isinstance(error, StorageUnavailable) and not isinstance(error, CredentialsMissing)


def to_text(error: LakehouseError) -> str:
    """Return the error as text for `from_text`."""
    return json.dumps({"class": type(error).__name__, "message": str(error)})


def from_text(text: str) -> LakehouseError:
    """Return the error that `to_text` turned into the start of `text`."""
    record, _ = json.JSONDecoder().raw_decode(text)
    return _CLASSES[record["class"]](record["message"])


def task_error(error: LakehouseError) -> str:
    """Return the text with which an expression of Spark fails so that the driver raises the error."""
    return _MARK + to_text(error)


def failed_attempt(error: LakehouseError) -> AttemptFailed:
    """Return the error that a task raises so that Spark repeats the attempt and the driver gets the last cause."""
    return AttemptFailed(task_error(error))


@contextmanager
def translated(session: SparkSession, job: str) -> Iterator[None]:
    """Run a block of Spark calls and raise their failures as the core's errors. `job` names the work in messages.

    Raises InvalidRequest for a session that is stopped.
    """
    if is_stopped(session):
        raise _stopped(job)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if any(sign in text for sign in _STOPPED):
            raise _stopped(job) from error
        _, mark, record = text.partition(_MARK)
        if mark:
            raise from_text(record) from error
        raise TaskFailed(f"{job}: a task failed in each of its attempts: {_summary(text)}") from error


def _stopped(job: str) -> InvalidRequest:
    return InvalidRequest(
        f"{job}: the Spark session is stopped. Connect again with a running session, or with a function that makes one."
    )


def _summary(text: str) -> str:
    """Return the line of Spark's report that names the cause."""
    if "Python worker exited unexpectedly" in text:
        return (
            "its Python process died, most often for lack of memory. Raise spark.executor.memoryOverhead, lower the "
            "table's write-buffer-size, or run fewer tasks at once."
        )
    if found := _MISSING_MODULE.search(text):
        if found[1].startswith("lakehouse_core"):
            return (
                "the Python of the workers has no lakehouse_core. On one machine set PYSPARK_PYTHON to "
                f"{sys.executable} before the session is made; on a cluster install paimon-lakehouse on each worker, "
                "or ship it with spark.submit.pyFiles (docs/spark.md)."
            )
        return (
            f"its Python is not the Python of this process: it has no {found[1]}. Set PYSPARK_PYTHON to "
            f"{sys.executable} before the session is made; on a cluster, to a Python of the workers with the same "
            "packages."
        )
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    # A Python traceback ends with the exception; Java's report begins with it.
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else next(iter(lines), "no reason given")
