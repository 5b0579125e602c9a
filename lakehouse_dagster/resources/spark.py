"""Spark resource: one session for each process, made at first use.

Rule: a session with other settings is refused. `pyspark` is imported when a session is first needed: code locations,
sensors and checks load without it and without Java.
"""

import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.resources.java_home import ensure_java
from lakehouse_dagster.resources.spark_jobs import active_session, describe_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = Path(__file__).parent / "log4j2.properties"
# What a newcomer on one machine would trip over. A value in `conf` wins over each of them.
_LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Errors only: the lines that Spark writes while it starts say nothing about the job.
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
}
_DEFAULTS: Mapping[str, str] = {
    # Partition dates are days of UTC on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Planning reads the table's own metadata; a Spark job that stats each path would cost ten times as much.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
# Settings below spark.sql that a running session cannot change.
_STATIC_SQL = (
    "spark.sql.warehouse.dir",
    "spark.sql.extensions",
    "spark.sql.catalogImplementation",
    "spark.sql.streaming.ui.",
)

_MASTERS = re.compile(r"local(\[.+\]|-cluster\[\d+,\d+,\d+\])?|spark://\S+:\d+|yarn|k8s://\S+")
_MASTER_SECONDS = 5.0
# So long nothing is said: the processes of executors start within seconds where there is room for them.
_EXECUTOR_SECONDS = 30.0

# The condition of PySpark's error for a JVM that has ended before it could be reached.
_JVM_ENDED = "JAVA_GATEWAY_EXITED"

_LOCK = threading.Lock()
# Sessions beside the process's first one, by the settings in which they differ from it.
_SESSIONS: "dict[frozenset[tuple[str, str]], SparkSession]" = {}


class SessionSource(Protocol):
    """An object with a session: `SparkRuntime`, and the PySparkResource and LazyPySparkResource of dagster-pyspark."""

    @property
    def spark_session(self) -> Any: ...


class SparkRuntime(dg.ConfigurableResource):
    """How to reach Spark: a master, or the URL of a Spark Connect server in `remote`.

    `SparkRuntime(master="spark://spark:7077", conf={"spark.executor.memory": "4g"})` is a cluster; without arguments
    Spark runs in the process of the step, on all its cores. The session is made when a task first needs it.
    """

    master: str = "local[*]"
    """local[2], local-cluster[2,1,1024], spark://host:7077, yarn or k8s://address."""
    app_name: str = "lakehouse"
    """The name of the application in Spark's own pages."""
    remote: str | None = None
    """The URL of a Spark Connect server, such as sc://host:15002; `master` does not count then."""
    conf: dict[str, str] = {}  # noqa: RUF012  # pydantic copies the default
    """Settings of Spark, which count before ours. Dagster shows them, and Spark logs them: put no secret here."""
    stop_on_teardown: bool = False
    """True: stop the session after each run. False: the next run of this process starts warm."""
    job_description: bool = True
    """Name Spark's jobs after the table and operation, and cancel them when the step ends early."""

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        if self.stop_on_teardown:
            self.stop()

    @property
    def spark_session(self) -> "SparkSession":
        """The process's session, made now if there is none.

        Raises InvalidRequest when PySpark is missing, the master is unknown or does not answer, or the process
        already has a session whose static settings differ from ours, JavaMissing when no Java can be found.
        """
        _require_pyspark()
        with _LOCK:
            session = self._session()
        if self.job_description and self.remote is None:
            describe_jobs(session)
        return session

    def stop(self) -> None:
        """End the process's session, if it has one."""
        if "pyspark" not in sys.modules:
            return
        with _LOCK:
            session = active_session()
            _SESSIONS.clear()
            if session is not None:
                session.stop()

    def _session(self) -> "SparkSession":
        session = active_session()
        if session is None:
            _SESSIONS.clear()
            return self._start()
        _refuse_other_settings(session, _split(self.conf)[0])
        runtime = _split(self._settings())[1]
        if self.remote is not None or all(session.conf.get(key, None) == value for key, value in runtime.items()):
            return session
        # Same context, own SQL settings: a session that others use must not change under their feet.
        own = _SESSIONS.get(frozenset(runtime.items()))
        if own is None:
            own = session.newSession()
            for key, value in runtime.items():
                own.conf.set(key, value)
            _SESSIONS[frozenset(runtime.items())] = own
        return own

    def _start(self) -> "SparkSession":
        # Spark's workers would otherwise use the first python3 of PATH, which need not have our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if self.remote is None:
            _check_master(self.master)
            ensure_java()
            if self.master.startswith("local"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession  # noqa: PLC0415  # see the module's text

        builder = SparkSession.builder.appName(self.app_name)
        builder = builder.master(self.master) if self.remote is None else builder.remote(self.remote)
        with _interrupts_as_before():
            session = _made(builder.config(map=self._settings()).getOrCreate)
        if self.remote is None:
            session.sparkContext.setLogLevel("ERROR")
        if self.master.startswith("spark:") and self.remote is None:
            _await_an_executor(session, self.master)
        return session

    def _settings(self) -> dict[str, str]:
        if self.remote is not None:
            return dict(_DEFAULTS) | self.conf
        if not self.master.startswith("local"):
            # The cores of this machine say nothing about those of a cluster.
            return dict(_DEFAULTS) | self.conf
        cores = {"spark.sql.shuffle.partitions": str(_local_cores(self.master))}
        return dict(_LOCAL_DEFAULTS) | dict(_DEFAULTS) | cores | self.conf


def _require_pyspark() -> None:
    try:
        import pyspark  # noqa: F401, PLC0415  # see the module's text
    except ImportError as error:
        raise lc.InvalidRequest(
            f"SparkRuntime needs the package pyspark, which cannot be imported ({error}). Install it: pip install "
            "'paimon-lakehouse[spark]'."
        ) from error


def _made(make: "Callable[[], SparkSession]") -> "SparkSession":
    """Make a session, once more if its JVM ended while it started: nothing was done yet that a second time repeats."""
    from pyspark.errors import PySparkImportError, PySparkRuntimeError  # noqa: PLC0415  # see the module's text

    try:
        return make()
    except PySparkImportError as error:
        raise lc.InvalidRequest(
            f"SparkRuntime: Spark cannot be loaded ({error}). Install what a session needs: pip install "
            "'paimon-lakehouse[connect]' for `remote`, 'paimon-lakehouse[spark]' for a master."
        ) from error
    except PySparkRuntimeError as error:
        if error.getCondition() != _JVM_ENDED:
            raise
        logging.getLogger(__name__).warning("The JVM of Spark ended while it started. It is started once more.")
        return make()


def _check_master(master: str) -> None:
    """Raise InvalidRequest for what Spark would tell after a minute, or in a hundred lines."""
    if not _MASTERS.fullmatch(master):
        raise lc.InvalidRequest(
            f"SparkRuntime: {master!r} is not a master of Spark. Expected local[2], local-cluster[2,1,1024], "
            "spark://host:7077, yarn or k8s://address."
        )
    if not master.startswith("spark:"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_MASTER_SECONDS).close()
            return
        except (OSError, OverflowError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise lc.InvalidRequest(
        f"SparkRuntime: no master of {master} answers ({'; '.join(reasons)}). Start it, or correct its address."
    )


def _await_an_executor(session: "SparkSession", master: str) -> None:
    """Say so when no worker has room. Spark itself waits without end, and its warnings are not shown."""
    if session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    known = session.sparkContext._jsc.sc().getExecutorMemoryStatus
    deadline = time.monotonic() + _EXECUTOR_SECONDS
    # The driver is one of them.
    while known().size() < 2:
        if time.monotonic() > deadline:
            logging.getLogger(__name__).warning(
                f"{master}: no worker has room for an executor of this session yet. It waits. Look at the page of the "
                "master, and ask for less: spark.cores.max, spark.executor.cores, spark.executor.memory."
            )
            return
        time.sleep(0.1)


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Undo what PySpark does to Ctrl-C when it starts.

    Its handler calls the JVM to cancel all jobs. In the middle of another call that fails, and hides the interrupt;
    `spark_job` cancels the jobs of its block anyway.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _split(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part settings into what must be known when Spark starts and what each session may have of its own."""
    runtime = {k: v for k, v in settings.items() if k.startswith("spark.sql.") and not k.startswith(_STATIC_SQL)}
    return {k: v for k, v in settings.items() if k not in runtime}, runtime


def _refuse_other_settings(session: "SparkSession", asked: Mapping[str, str]) -> None:
    found = {key: session.conf.get(key, None) for key in asked}
    differing = sorted(key for key in asked if found[key] != asked[key])
    if differing:
        raise lc.InvalidRequest(
            "SparkRuntime: this process already has a Spark session, made with other settings: "
            + "; ".join(f"{key} is {found[key]}, asked for {asked[key]}" for key in differing)
            + ". Give both resources the same `conf`, or run them in processes of their own."
        )


def _local_cores(master: str) -> int:
    inside, _, rest = master.partition("[")[2].rstrip("]").partition(",")
    if master.startswith("local-cluster"):
        return int(inside) * int(rest.partition(",")[0])
    return int(inside) if inside.isdigit() else os.cpu_count() or 2
