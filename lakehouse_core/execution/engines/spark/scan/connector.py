"""Whether Spark itself reaches the files of an object store: driver and executors have the connector, address and keys.

Rule: a session is asked once for each bucket, by a task for a file of ours: names are unique, so a file of that name
and size is that file. Where nothing is known, Python tasks read. No key is handed over: the connector finds its own.
Source: docs/spark.md#reads.
"""

import logging
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse_core.storage.object_store import StoreSpec

# A connector without keys asks for them for minutes.
_PROBE_SECONDS: Final = 20
# Of the job, so that it can be canceled.
_TAG: Final = "lakehouse-connector"
# Where Hadoop has a value from that no user set: its own defaults, and an environment that we read, too.
_NOT_SET: Final = re.compile(r"core-default\.xml|Set by Spark on .* from AWS_\w+")
_LOG: Final = logging.getLogger(__name__)
_ANSWERS: "WeakKeyDictionary[SparkSession, dict[tuple[str, str], bool]]" = WeakKeyDictionary()


def spark_path(store: StoreSpec, key: str) -> str:
    """Return the address of an object of an S3 store for Spark."""
    return f"s3a://{store.root}/{key}"


def spark_settings(session: SparkSession, store: StoreSpec) -> Mapping[str, str]:
    """Return the address of an S3 store as options of a read: what the connector would not know of it.

    What the session's own settings say of all buckets, or of this one, stays as it is.
    """
    if store.scheme != "s3" or not hasattr(session, "_jsparkSession"):
        return {}
    given = dict(store.settings)
    endpoint, region = given.get("endpoint"), given.get("region")
    found: dict[str, str] = {}
    if endpoint is not None:
        path_style = given.get("path-style", "true")
        found = {"endpoint": endpoint, "endpoint.region": region or "us-east-1", "path.style.access": path_style}
        if endpoint.startswith("http:"):
            found["connection.ssl.enabled"] = "false"
    elif region is not None:
        found = {"endpoint.region": region}
    known = session._jsparkSession.sessionState().newHadoopConf()
    bucket = f"fs.s3a.bucket.{store.root.partition('/')[0]}."

    def is_set(name: str) -> bool:
        sources = [known.getPropertySources(prefix + name) for prefix in ("fs.s3a.", bucket)]
        return any(not _NOT_SET.fullmatch(each) for several in sources for each in several or ())

    return {} if is_set("endpoint") else {bucket + name: value for name, value in found.items() if not is_set(name)}


def reaches(session: SparkSession, store: StoreSpec, key: str, size: int) -> bool:
    """Return whether Spark finds this object of the bucket in this size; asked once for the bucket."""
    answers = _ANSWERS.setdefault(session, {})
    bucket = store.root.partition("/")[0], dict(store.settings).get("endpoint", "")
    if bucket not in answers:
        answers[bucket] = _finds(session, spark_path(store, key), size, spark_settings(session, store))
    return answers[bucket]


def _finds(session: SparkSession, path: str, size: int, address: Mapping[str, str]) -> bool:
    # With Spark Connect the connector is in the server, which this process cannot ask.
    if not hasattr(session, "_jsparkSession"):
        return False
    sizes: list[int] = []
    # A call of the driver's connector cannot be canceled: a process that ends does not wait for it.
    asking = threading.Thread(target=_ask, args=(session, path, address, sizes), name="connector", daemon=True)
    asking.start()
    asking.join(_PROBE_SECONDS)
    if asking.is_alive():
        session.interruptTag(_TAG)
    if sizes == [size]:
        return True
    _LOG.info(
        "Spark does not find %s in its size within %s s, on the driver or on an executor: Python tasks read there. "
        "See docs/spark.md.",
        path,
        _PROBE_SECONDS,
    )
    return False


def _ask(session: SparkSession, path: str, address: Mapping[str, str], sizes: list[int]) -> None:
    """Add the size of the object as a task of Spark sees it, nothing where it does not find it."""
    with suppress(Py4JError, PySparkException):
        session.addTag(_TAG)
        # The driver looks for the file, then the task does; the content is not read.
        found = session.read.format("binaryFile").options(**address).load(path).select("length").collect()
        sizes.extend(row.length for row in found)
