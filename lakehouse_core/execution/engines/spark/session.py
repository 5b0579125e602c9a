"""The user's session: the number of tasks that it runs at once, and settings that are changed for one job and
restored.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_LOCAL_MASTER: Final = re.compile(r"local(?:\[(\d+|\*)(?:,.*)?\])?")


@contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Run a block with these runtime settings, then restore the session's."""
    before = {name: session.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def is_stopped(session: SparkSession) -> bool:
    """Return whether the session can run nothing any more."""
    # Connect sessions have a property for this. Classic ones do not, and each of their methods fails in a different
    # way.
    return bool(session.is_stopped if hasattr(session, "is_stopped") else session.sparkContext._jsc is None)


def core_count(session: SparkSession) -> int:
    """Return roughly how many tasks run at once.

    On a cluster of fixed size, its cores. Where executors come and go, and over Spark Connect, which does not tell, the
    number of shuffle partitions that the user has set.
    """
    local = _LOCAL_MASTER.fullmatch(session.conf.get("spark.master", ""))
    if local is not None:
        return os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
    if hasattr(session, "sparkContext") and session.conf.get("spark.dynamicAllocation.enabled", "false") == "false":
        return int(session.sparkContext.defaultParallelism)
    return int(session.conf.get("spark.sql.shuffle.partitions"))
