"""The user's session: how many tasks it runs at once, and its settings, changed for one job and always put back."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_LOCAL_MASTER: Final = re.compile(r"local(?:\[(\d+|\*)(?:,.*)?\])?")


@contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Run a block with other runtime settings than the session's."""
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
    # Connect sessions say so. Classic ones do not, and fail in a different way in every method.
    return bool(session.is_stopped if hasattr(session, "is_stopped") else session.sparkContext._jsc is None)


def core_count(session: SparkSession) -> int:
    """Return about how many tasks run at once; of a cluster, as many as its user cuts a shuffle into.

    Asking the cluster itself would need more than the DataFrame API, which is all that Spark Connect has.
    """
    local = _LOCAL_MASTER.fullmatch(session.conf.get("spark.master", ""))
    if local is None:
        return int(session.conf.get("spark.sql.shuffle.partitions"))
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
