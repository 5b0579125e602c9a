"""What all tests share: the Spark session, made once per run and only when a test asks for it."""

import gc
import hashlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import lakehouse_core as lc
from tests.parts import WHOLE, of_part, parse_part

# The same examples every time, everywhere: nothing is drawn at random, nothing is remembered. A busy machine must not
# fail a law by the clock. More examples, also the same every time, are the business of `make laws`, other examples that
# of `make search`. A law that takes long asks for a part of the profile's number.
settings.register_profile("tests", deadline=None, print_blob=True, database=None, derandomize=True, max_examples=10)
settings.register_profile("laws", settings.get_profile("tests"), max_examples=200)
settings.register_profile("search", deadline=None, print_blob=True, database=None, max_examples=200)
settings.load_profile("tests")

# A shell lets its background jobs ignore SIGINT. Dagster gives SIGTERM what it finds on SIGINT, and processes that a
# test starts have it from their parent: nothing could end them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The JVM of a test ends before code pays that is compiled with full effort.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=parse_part, default=WHOLE, metavar="K/N", help="every N-th test from the K-th on")
    parser.addoption("--each-call", action="store_true", help="sweeps interfere with each call, not with every fifth")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the modules and tests, which stay until the end, from being looked through by Python's collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # By default the collector looks through new objects every 700 of them: some 6 % of the tests' CPU time.
        gc.set_threshold(20_000, 10, 10)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the workers read the groups in a hook of their own
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Let one worker run all tests with Spark, in one session.

    They come first, for they take most of the time; then those that start Spark in processes of their own: at the end
    the others would wait for them. The fast ones come last, and fill what is left of each worker's time.
    `--no-loadscope-reorder` keeps this order.
    Of a test with the mark `one_in(N)`, every N-th case stays in `make test`, from the first on; the others get `long`.
    Of the tests that are left by their marks, keep those of `--part`.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if "every" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.sweep)
        if (one_in := item.get_closest_marker("one_in")) and not item.get_closest_marker("long"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % one_in.args[0]:
                item.add_marker(pytest.mark.long)
            cases[test] += 1
        if item.get_closest_marker("spark") and not item.get_closest_marker("own_session"):
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=_turn)
    yield
    kept = of_part(items, config.getoption("part"))
    left_out = set(items) - set(kept)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = kept


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("xdist_group"):
        return 0
    if item.get_closest_marker("own_session"):
        return 1
    return 2 if any(map(item.get_closest_marker, ("slow", "golden", "dagster"))) else 3


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a worker that has a test of a file run all of it, so that what its tests share is made once."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Files(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return str(super()._split_scope(nodeid)).partition("::")[0]

    return Files(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail where groups have no effect: each worker would start sessions of its own, and the run take much longer."""
    if session.config.getoption("loadgroup", default=False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(
                    f"{item.nodeid} has a group, and pytest-xdist does not see it: see pyproject.toml"
                )


@pytest.fixture
def every(request: pytest.FixtureRequest) -> int:
    """The stride of a test that fails, ends or interrupts a verb at its calls, one after the other.

    `make test` takes every fifth call from the first on, `make test-long` each.
    """
    return 1 if request.config.getoption("each_call") else 5


# The contents of the tables in which `verify` found nothing.
_SOUND: set[bytes] = set()


@pytest.fixture(autouse=True)
def sound_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did to tables in its folder, `verify` finds nothing, unless it is marked `damage`.

    A table with the same files as one that was found sound is sound: many tests begin with copies and change one.
    """
    if "tmp_path" not in request.fixturenames or request.node.get_closest_marker("damage"):
        yield
        return
    folder: Path = request.getfixturevalue("tmp_path")
    yield
    found = {}
    for schema in folder.rglob("*.db/*/schema/schema-0"):
        table = schema.parent.parent
        if not table.name.startswith(".") and (content := _content(table)) not in _SOUND:
            name = f"{table.parent.stem}.{table.name}"
            findings = lc.connect(table.parent.parent).table(name).verify(data=True).findings
            if findings:
                found[name] = findings
            else:
                _SOUND.add(content)
    assert found == {}


def _content(table: Path) -> bytes:
    """Return a digest of the table's name and of the names and bytes of all its files."""
    digest = hashlib.sha256(table.name.encode())
    for path in sorted(table.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            digest.update(f"\0{path.relative_to(table)}\0{len(data)}\0".encode())
            digest.update(data)
    return digest.digest()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A warm session on two cores whose tasks have three attempts. Never stop it in a test.

    Results are checked against the declared Arrow schema here, which Spark leaves out by default.
    """
    from pyspark.sql import SparkSession

    # Whoever runs one module need not load Dagster.
    from lakehouse_dagster.resources.java_home import ensure_java

    ensure_java()
    # Spark's workers would otherwise use the first python3 of PATH, which has none of our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,3]")
        .appName("tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-warehouse")))
        .config("spark.sql.execution.arrow.pyspark.validateSchema.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    # The first job of each kind is slow; no test shall pay for it.
    assert session.range(2).mapInArrow(lambda batches: batches, "id long").count() == 2
    yield session
    session.stop()
