"""The Spark jobs of a step: named after it, and cancelled when the step ends early.

No session is started here; `pyspark` is imported where one is running already.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_job(group: str, description: str) -> Iterator[None]:
    """Name the Spark jobs started in the block, and cancel running jobs when an error or a stop ends the block.

    Starts no session: the first session that the block uses gets the name.
    """
    _CURRENT.job = (group, description)
    try:
        yield
        _clear_job()
    except BaseException:
        # An interrupt cuts a call to the JVM in half, after which answers belong to other questions: what cannot be
        # cancelled any more must not hide why the block was left.
        with suppress(Exception):
            _clear_job(cancel=group)
        raise
    finally:
        _CURRENT.job = None


def spark_app_id() -> str:
    """Return the id of the running Spark application, empty where this process has used none, or a remote one."""
    session = active_session() if "pyspark" in sys.modules else None
    return str(session.sparkContext.applicationId) if session is not None and is_classic(session) else ""


def _clear_job(*, cancel: str | None = None) -> None:
    session = active_session() if "pyspark" in sys.modules else None
    if session is None or not is_classic(session):
        return
    context = session.sparkContext
    if cancel is not None:
        context.cancelJobGroup(cancel)
    for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
        context.setLocalProperty(key, None)


class _Current(threading.local):
    job: tuple[str, str] | None = None


_CURRENT = _Current()


def describe_jobs(session: "SparkSession") -> None:
    """Give the name of the step, if there is one, to the jobs that this session starts in this thread."""
    if _CURRENT.job is not None and is_classic(session):
        group, description = _CURRENT.job
        session.sparkContext.setJobGroup(group, description, interruptOnCancel=True)


def active_session() -> "SparkSession | None":
    """Return the running session of this process, whichever code made it; None when there is none."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # see the module's text

    session = SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", None)
    if session is None or not is_classic(session):
        return session
    return None if session.sparkContext._jsc is None or session.sparkContext._jsc.sc().isStopped() else session


def is_classic(session: "SparkSession") -> bool:
    """Return whether the session has a driver in this process, and is not one of Spark Connect."""
    return type(session).__module__ == "pyspark.sql.session"
