"""Spark on a cluster: workers on machines of their own, which have our package only when it is shipped to them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.limits import HANGS_AFTER_SECONDS
from tests.spark.left_behind import removed_orphans
from tests.spark.standalone import DRIVER, cluster, python_without_our_package, shipped_package
from tests.storage.s3_stub import S3Stub

pytestmark = [
    pytest.mark.spark,
    pytest.mark.own_session,
    pytest.mark.slow,
    pytest.mark.cluster,
]

KINDS = {
    "key": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "lookup": {"primary_keys": ["k"], "options": {"bucket": "2", "changelog-producer": "lookup"}},
    "vectors": {"primary_keys": ["k"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "append": {"options": {"bucket": "-1"}},
}
COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}

DRIVER_PROGRAM = """
import json
import sys
from pyspark.sql import SparkSession
import lakehouse_core as lc

folder, settings, body = sys.argv[1:]
spark = SparkSession.builder.config(map=json.loads(settings)).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
catalog = lc.connect(folder, spark=spark)
catalog.create_database("db", exist_ok=True)
exec(body)
"""


class Cluster:
    def __init__(self, master: str, folder: Path) -> None:
        self.master, self.folder = master, folder
        self.python = python_without_our_package(folder / "python")
        self.archive = shipped_package(folder)

    def run(self, warehouse: Path | str, body: str, *, ships: bool = True, **settings: str) -> list[str]:
        """Run a driver on this machine with a session of the cluster; return the lines that it printed."""
        shipped = {"spark.submit.pyFiles": self.archive} if ships else {}
        asked = {
            "spark.master": self.master,
            "spark.executor.memory": "600m",
            "spark.sql.shuffle.partitions": "4",
            **DRIVER,
            **shipped,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        done = subprocess.run(
            [sys.executable, "-c", DRIVER_PROGRAM, str(warehouse), json.dumps(asked), body],
            env=os.environ | {"PYSPARK_PYTHON": self.python, "PYSPARK_DRIVER_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with S3Stub() as stub, pytest.MonkeyPatch.context() as patch:
        for name, value in stub.environ.items():
            patch.setenv(name, value)
        with cluster(folder, workers=2) as master:
            yield Cluster(master, folder)


@pytest.fixture(params=["disk", "bucket"])
def warehouse(request: pytest.FixtureRequest, two_workers: Cluster, tmp_path: Path) -> str:
    """The bucket is that of the strict server, which driver and workers have in their environment."""
    return str(tmp_path) if request.param == "disk" else f"s3://lake/{tmp_path.name}"


def rows_of(table: lc.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def test_workers_without_our_package_are_told_how_to_get_it(two_workers: Cluster, tmp_path: Path) -> None:
    (told,) = two_workers.run(
        tmp_path,
        """
table = catalog.create_table("db.t", {"k": "BIGINT NOT NULL"}, primary_keys=["k"], options={"bucket": "2"})
try:
    table.write(spark.range(10).toDF("k"))
except lc.LakehouseError as error:
    print(f"{type(error).__name__}: {error}")
""",
        ships=False,
    )

    assert told.startswith("TaskFailed: db.t: ")
    assert told.endswith(
        "the Python of the workers has no lakehouse_core. On one machine set PYSPARK_PYTHON to "
        f"{sys.executable} before the session is made; on a cluster install paimon-lakehouse on each worker, "
        "or ship it with spark.submit.pyFiles (docs/spark.md)."
    )
    assert lc.connect(tmp_path).table("db.t").snapshots() == []


def test_tables_of_each_kind_are_written_read_and_compacted_as_in_one_process(
    two_workers: Cluster, tmp_path: Path
) -> None:
    body = f"""
for name, kind in {KINDS!r}.items():
    table = catalog.create_table(f"db.{{name}}", {COLUMNS!r}, **kind)
    table.write(spark.range(1000).selectExpr("id k", "concat('old ', id) v"))
    table.write(spark.range(500, 1500).selectExpr("id k", "concat('new ', id) v"))
    merged = table.scan().to_spark(spark).selectExpr("count(*)", "sum(k)", "max(v)").first()
    table.compact(full=True)
    whole = table.scan().to_spark(spark).selectExpr("count(*)", "sum(k)", "max(v)").first()
    changes = table.changes(after=0).to_spark(spark).count()
    print(json.dumps([name, list(merged), list(whole), changes]))
"""
    told = [json.loads(line) for line in two_workers.run(tmp_path / "there", body)]

    here = lc.connect(tmp_path / "here")
    here.create_database("db")
    there = lc.connect(tmp_path / "there")
    assert [name for name, *_ in told] == list(KINDS)
    for name, merged, whole, changes in told:
        table = here.create_table(f"db.{name}", COLUMNS, **KINDS[name])
        table.write([{"k": k, "v": f"old {k}"} for k in range(1000)])
        table.write([{"k": k, "v": f"new {k}"} for k in range(500, 1500)])
        table.compact(full=True)
        rows = rows_of(table)
        assert rows_of(there.table(f"db.{name}")) == rows
        assert merged == whole == [len(rows), sum(k for k, _ in rows), max(v for _, v in rows)]
        assert changes == table.changes(after=0).to_arrow().num_rows


# Kills the process of the executor of a task, or its own, once for each mark: what is left of a machine that is gone.
DEATHS = """
import os
import signal
from lakehouse_core.execution.engines.spark import run
from lakehouse_core.execution.engines.spark.write import frame as write

def die_once(mark, *, alone=False):
    try:
        open(mark, "x").close()
    except FileExistsError:
        return
    daemon = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()
    os.kill(os.getpid() if alone else int(daemon[1]), signal.SIGKILL)

def have_died(mark):
    return os.path.exists(mark) and os.path.exists(f"{mark} alone")

whole, whole_write = run._one_result, write.written_messages

def compacted(kind, options):
    options = {**options, "write-only": "true"}
    table = catalog.create_table(f"db.compacted_{kind}", columns, primary_keys=["k"], options=options)
    for text in ("old", "new"):
        table.write(spark.range(3000).selectExpr("id k", f"concat('{text}', id) v"))
    mark = f"{marks}/compaction_{kind}"

    def ended(task, packed):
        # The files are written, and nobody is told of them.
        result = whole(task, packed)
        die_once(mark)
        die_once(f"{mark} alone", alone=True)
        return result

    run._one_result = ended
    print(kind, "compacted", table.compact(full=True).buckets_rewritten, have_died(mark))
    run._one_result = whole

def written(kind, arguments):
    table = catalog.create_table(f"db.written_{kind}", columns, **arguments)
    mark = f"{marks}/write_{kind}"

    def rows(batches):
        for batch in batches:
            yield batch
            die_once(f"{mark} alone", alone=True)

    def ended(*arguments):
        texts = whole_write(*arguments)
        if texts:
            die_once(mark)
        return texts

    write.written_messages = ended
    frame = spark.range(0, 20000, 1, 8).selectExpr("id k", "concat('v', id) v").mapInArrow(rows, "k long, v string")
    print(kind, "written", table.write(frame).rows_added, have_died(mark))
    write.written_messages = whole_write
"""


def test_executors_that_are_killed_in_the_middle_of_tasks_lose_and_double_nothing(
    two_workers: Cluster, tmp_path: Path, warehouse: str
) -> None:
    written = ("key", "append")
    compacted = ("key", "lookup", "vectors")
    body = f"""
columns, marks = {COLUMNS!r}, {str(tmp_path)!r}
{DEATHS}
for kind, arguments in {KINDS!r}.items():
    if kind in {written!r}:
        written(kind, arguments)
    if kind in {compacted!r}:
        compacted(kind, arguments["options"])
"""
    told = two_workers.run(warehouse, body)

    assert sorted(told) == sorted(
        [
            *(f"{kind} written 20000 True" for kind in written),
            *(f"{kind} compacted 2 True" for kind in compacted),
        ]
    )
    catalog = lc.connect(warehouse)
    for kind in written:
        table = catalog.table(f"db.written_{kind}")
        assert rows_of(table) == [(k, f"v{k}") for k in range(20000)]
        assert len(table.snapshots()) == 1
    for kind in compacted:
        table = catalog.table(f"db.compacted_{kind}")
        assert rows_of(table) == [(k, f"new{k}") for k in range(3000)]
        assert [file.level for file in table.files()] == [5, 5]
    replayed = catalog.table("db.compacted_lookup").changes(after=0).to_arrow().to_pylist()
    assert {row["k"]: row["v"] for row in replayed} == {k: f"new{k}" for k in range(3000)}
    for name in catalog.tables("db"):
        orphans, _ = removed_orphans(catalog.table(f"db.{name}"))
        assert orphans, name


READ_AND_COPIED = """
from lakehouse_core.execution import copying

table = catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "2", "write-only": "true"})
for text in ("old", "new"):
    table.write(spark.range(3000).selectExpr("id k", f"concat('{text}', id) v"))

def rows(batches):
    for batch in batches:
        yield batch
        die_once(f"{marks}/read")

frame = table.scan().to_spark(spark).mapInArrow(rows, "k long, v string")
print("read", frame.distinct().count(), os.path.exists(f"{marks}/read"))
# Small files, as if they were large.
copying._FEW_BYTES, copying._TASK_BYTES = 0, 2 << 20

def copied(task, packed):
    result = whole(task, packed)
    die_once(f"{marks}/copy")
    return result

run._one_result = copied
report = catalog.copy_table(table, "db.copy", data=True)
print("copied", report.files == report.files_added, report.findings, os.path.exists(f"{marks}/copy"))
"""


def test_a_merge_read_and_a_copy_go_on_when_their_executor_is_killed(
    two_workers: Cluster, tmp_path: Path, warehouse: str
) -> None:
    given = f"columns, marks = {COLUMNS!r}, {str(tmp_path)!r}"
    told = two_workers.run(warehouse, f"{given}\n{DEATHS}\n{READ_AND_COPIED}")

    assert told == ["read 3000 True", "copied True () True"]
    catalog = lc.connect(warehouse)
    table, copy = catalog.table("db.t"), catalog.table("db.copy")
    assert rows_of(copy) == rows_of(table) == [(k, f"new{k}") for k in range(3000)]
    assert [file.path for file in copy.files()] == [file.path for file in table.files()]


# Executors end after a second without work, and begin when there is some.
COMING_AND_GOING = {
    "spark__dynamicAllocation__enabled": "true",
    "spark__dynamicAllocation__shuffleTracking__enabled": "true",
    "spark__dynamicAllocation__shuffleTracking__timeout": "1s",
    "spark__dynamicAllocation__executorIdleTimeout": "1s",
    "spark__dynamicAllocation__minExecutors": "0",
}


def test_executors_that_come_and_go_write_and_read_the_same(two_workers: Cluster, tmp_path: Path) -> None:
    body = f"""
import time
table = catalog.create_table("db.t", {COLUMNS!r}, **{KINDS["key"]!r})
for text in ("old", "new"):
    table.write(spark.range(0, 4000, 1, 8).selectExpr("id k", f"concat('{{text}}', id) v"))
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    deadline = time.monotonic() + {HANGS_AFTER_SECONDS // 2}
    # The driver is one of them.
    while executors().size() > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    print(executors().size(), flush=True)
print(table.scan().to_spark(spark).where("v LIKE 'new%'").count())
"""
    told = two_workers.run(tmp_path, body, **COMING_AND_GOING)

    assert told == ["1", "1", "4000"]


def test_executors_that_are_killed_while_others_come_and_go_lose_and_double_nothing(
    two_workers: Cluster, tmp_path: Path
) -> None:
    body = f"""
import time
columns, marks = {COLUMNS!r}, {str(tmp_path)!r}
{DEATHS}
def all_gone():
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    deadline = time.monotonic() + 120
    # The driver is one of them.
    while executors().size() > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    print(executors().size(), flush=True)

written("key", {KINDS["key"]!r})
all_gone()
compacted("lookup", {KINDS["lookup"]["options"]!r})
all_gone()
print(catalog.table("db.compacted_lookup").scan().to_spark(spark).where("v LIKE 'new%'").count())
"""
    told = two_workers.run(tmp_path, body, **COMING_AND_GOING)

    assert told == ["key written 20000 True", "1", "lookup compacted 2 True", "1", "3000"]
    catalog = lc.connect(tmp_path)
    written, compacted = catalog.table("db.written_key"), catalog.table("db.compacted_lookup")
    assert rows_of(written) == [(k, f"v{k}") for k in range(20000)]
    assert rows_of(compacted) == [(k, f"new{k}") for k in range(3000)]
    assert [file.level for file in compacted.files()] == [5, 5]
    assert [*written.verify().findings, *compacted.verify().findings] == []
