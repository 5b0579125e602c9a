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
    """Return roughly how many tasks run at once; for a cluster, the number of shuffle partitions that its user has set.

    The cluster's own figure is not in the DataFrame API, and Spark Connect has nothing else.
    """
    local = _LOCAL_MASTER.fullmatch(session.conf.get("spark.master", ""))
    if local is None:
        return int(session.conf.get("spark.sql.shuffle.partitions"))
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
