"""The same work in this process and on Spark: one implementation of every algorithm, two places where it runs."""

import datetime
import gc
import importlib
import json
import sys
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core import errors
from lakehouse_core.clock import SystemClock
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.engines.spark import SparkEngine, spark_schema
from lakehouse_core.execution.engines.spark.runtime import begin_task
from lakehouse_core.storage import open_store
from lakehouse_core.tasks.runtime import TaskRuntime
from tests.limits import HANGS_AFTER_SECONDS
from tests.pairs import in_turn

pytestmark = pytest.mark.spark


@pytest.fixture(params=["here", "spark"])
def engine(request):
    """An engine, and what makes of Arrow data what it writes."""
    if request.param == "here":
        return Side(LocalEngine(TaskRuntime(SystemClock(), open_store)), None)
    return Side(SparkEngine(request.getfixturevalue("spark")), request.getfixturevalue("spark"))


@dataclass
class Side:
    engine: object
    spark: object | None

    def data(self, arrow, table):
        """The rows for a table as this side would have them: Arrow, or a DataFrame in two partitions."""
        if self.spark is None:
            return arrow
        return self.spark.createDataFrame(arrow, spark_schema(table.schema.fields)).repartition(2)

    def catalog(self, folder):
        catalog = lc.connect(str(folder), spark=self.spark)
        catalog.create_database("db", exist_ok=True)
        return catalog

    def rows(self, scan):
        """The rows of a scan, sorted; through a DataFrame on Spark."""
        if self.spark is None:
            return sorted(map(tuple, (row.values() for row in scan.to_arrow().to_pylist())), key=repr)
        return sorted(map(tuple, scan.to_spark(self.spark).collect()), key=repr)


@dataclass(frozen=True, slots=True)
class Number:
    value: int


def double(number: Number, runtime: TaskRuntime) -> str:
    return json.dumps({"twice": 2 * number.value})


def refuse(number: Number, runtime: TaskRuntime) -> str:
    """Fails from the second input on, each time with another class."""
    if number.value == 0:
        return "fine"
    raise [errors.CorruptTable, errors.InvalidRequest][number.value % 2](f"file-{number.value}: line one\nline two é")


def stumble(number: Number, runtime: TaskRuntime) -> str:
    raise errors.StorageFull(f"disk of task {number.value} is full")


def crash(number: Number, runtime: TaskRuntime) -> str:
    raise ZeroDivisionError("in the middle")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_every_input_has_one_result(engine, count):
    results = engine.engine.run(double, [Number(value) for value in range(count)])

    assert sorted(json.loads(text)["twice"] for text in results) == [2 * value for value in range(count)]


@dataclass(frozen=True, slots=True)
class Paired:
    number: int
    folder: Path

    @property
    def mark(self) -> Path:
        return self.folder / str(self.number)


def starting(paired: Paired, runtime: TaskRuntime) -> str:
    """Begin, and end once the other one of the pair has begun: which marks were there at the beginning."""
    found = sorted(path.name for path in paired.folder.iterdir())
    paired.mark.touch()
    other, given_up = Paired(paired.number ^ 1, paired.folder), time.monotonic() + HANGS_AFTER_SECONDS
    while not other.mark.exists() and time.monotonic() < given_up:
        time.sleep(0.01)
    return json.dumps([paired.number, found])


def test_tasks_start_in_the_order_of_their_inputs(spark, tmp_path):
    texts = SparkEngine(spark).run(starting, [Paired(number, tmp_path) for number in range(6)])

    # Two at a time: whichever of a pair is first, the pair before it had begun.
    missing = {number: {*map(str, range(number // 2 * 2))} - {*found} for number, found in map(json.loads, texts)}
    assert missing == {number: set() for number in range(6)}


@dataclass
class Traced:
    """Leaves a line in a file each time it is unpickled."""

    number: int
    file: str

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.file, "a") as log:
            log.write(f"{self.number}\n")


def number_of(traced: Traced, runtime: TaskRuntime) -> str:
    return str(traced.number)


def test_a_task_unpickles_its_own_input_only(spark, tmp_path):
    log = tmp_path / "unpickled"

    results = list(SparkEngine(spark).run(number_of, [Traced(number, str(log)) for number in range(5)]))

    assert results == ["0", "1", "2", "3", "4"]
    assert sorted(log.read_text().split()) == results


def import_from(folder: Path, runtime: TaskRuntime) -> str:
    """Import modules from two archives, begin a task, and import another: which archives the task knew, and the value
    of the last module.
    """
    archives = [folder / "pyspark.zip", folder / "own.zip"]
    for archive in archives:
        with ZipFile(archive, "w") as made:
            for name in ("before", "after"):
                made.writestr(f"{archive.stem}_{name}.py", f"value = '{name}'")
        sys.path.append(str(archive))
        importlib.import_module(f"{archive.stem}_before")
    begin_task()
    known = [archive.name for archive in archives if str(archive) in sys.path_importer_cache]
    value = importlib.import_module("pyspark_after").value
    del sys.path[-2:]
    return json.dumps([known, value, gc.get_freeze_count() > 0])


def test_a_task_does_not_read_the_archives_of_spark_again_and_those_of_others_it_does(spark, tmp_path):
    """Nor is it looked at by the collector what was there at the first task. Both cost 0.2 s of CPU time a task."""
    (text,) = SparkEngine(spark).run(import_from, [tmp_path])

    assert json.loads(text) == [["own.zip"], "after", True]


@pytest.mark.parametrize(
    ("task", "values", "raised", "message"),
    [
        (refuse, [0, 1, 2], errors.InvalidRequest, "file-1: line one\\nline two é"),
        (stumble, [7], errors.StorageFull, "disk of task 7 is full"),
    ],
)
def test_an_error_of_a_task_arrives_as_itself(engine, task, values, raised, message):
    with pytest.raises(raised) as caught:
        list(engine.engine.run(task, list(map(Number, values))))

    assert type(caught.value) is raised
    assert str(caught.value) == message


def test_what_no_task_should_raise_is_told_with_its_last_line(spark):
    with pytest.raises(
        errors.TaskFailed, match=r"^1 times crash on Spark: .* each of its attempts: ZeroDivisionError: in the m"
    ):
        list(SparkEngine(spark).run(crash, [Number(0)]))


DEEP = pa.list_(
    pa.struct(
        [("a", pa.int32()), ("m", pa.map_(pa.string(), pa.list_(pa.decimal128(10, 2)))), ("at", pa.timestamp("us"))]
    )
)
TYPES = {
    "id": ("BIGINT NOT NULL", pa.int64(), [1, 2, 3, 4]),
    "flag": ("BOOLEAN", pa.bool_(), [True, False, None, True]),
    "tiny": ("TINYINT", pa.int8(), [-128, 127, None, 0]),
    "small": ("SMALLINT", pa.int16(), [-32768, 32767, None, 0]),
    "n": ("INT", pa.int32(), [-(2**31), 2**31 - 1, None, 0]),
    "f": ("FLOAT", pa.float32(), [0.5, float("-inf"), None, -0.0]),
    "x": ("DOUBLE", pa.float64(), [1e300, float("inf"), None, 0.1]),
    "price": (
        "DECIMAL(12, 2)",
        pa.decimal128(12, 2),
        [Decimal("-9999999999.99"), Decimal("0.01"), None, Decimal("1.00")],
    ),
    "big": ("DECIMAL(38, 4)", pa.decimal128(38, 4), [Decimal(10**33), Decimal("0.0001"), None, Decimal("-1.0000")]),
    "s": ("STRING", pa.string(), ["", "é€😀", None, "x" * 5000]),
    "code": ("VARCHAR(4)", pa.string(), ["", "abcd", None, "e"]),
    "raw": ("BYTES", pa.binary(), [b"", b"\0\xff", None, b"x"]),
    "day": (
        "DATE",
        pa.date32(),
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, datetime.date(1969, 12, 31)],
    ),
    "at": ("TIMESTAMP(6)", pa.timestamp("us"), [-1, 253402300799999999, None, 1500000000123456]),
    "ms": ("TIMESTAMP(3)", pa.timestamp("us"), [-1000, 253402300799999000, None, 1500000000123000]),
    "zoned": ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC"), [-1, 253402300799999999, None, 1500000000123456]),
    "tags": ("ARRAY<STRING>", pa.list_(pa.string()), [[], ["a", None], None, ["b"]]),
    "sizes": ("MAP<STRING, INT>", pa.map_(pa.string(), pa.int32()), [[], [("a", 1), ("b", None)], None, [("c", 3)]]),
    "place": (
        "ROW<lat DOUBLE, at TIMESTAMP(3)>",
        pa.struct([("lat", pa.float64()), ("at", pa.timestamp("us"))]),
        [{"lat": 1.5, "at": datetime.datetime(2013, 1, 1)}, {"lat": None, "at": None}, None, {"lat": 0.0, "at": None}],
    ),
    # Only one bucket has a row with elements.
    "deep": (
        "ARRAY<ROW<a INT, m MAP<STRING, ARRAY<DECIMAL(10, 2)>>, at TIMESTAMP(6)>>",
        DEEP,
        [[{"a": 1, "m": [("k", [Decimal("1.25"), None]), ("n", None)], "at": None}, None], [], None, []],
    ),
    "counts": ("MULTISET<STRING>", pa.map_(pa.string(), pa.int32()), [[("a", 2)], [], None, []]),
    "times": (
        "MAP<INT, TIMESTAMP_LTZ(6)>",
        pa.map_(pa.int32(), pa.timestamp("us", "UTC")),
        [[(1, 1500000000123456), (2, None)], [], None, []],
    ),
}


@pytest.mark.parametrize("primary_keys", in_turn(2, [[], ["id"]]))
def test_every_type_comes_back_as_it_was_written(engine, tmp_path, primary_keys):
    catalog = engine.catalog(tmp_path)
    columns = {name: sql for name, (sql, _, _) in TYPES.items()}
    data = pa.table({name: pa.array(values, arrow) for name, (_, arrow, values) in TYPES.items()})
    options = {"bucket": "2" if primary_keys else "-1"}
    table = catalog.create_table("db.t", columns, primary_keys=primary_keys, options=options)

    first = table.write(engine.data(data, table))
    # The second write of a key table makes the split one that has to be merged.
    table.write(engine.data(data.slice(0, 1), table))

    found = table.scan().to_arrow().sort_by("id")
    expected = pa.concat_tables([data.slice(0, 1), data]) if not primary_keys else data
    assert first.rows_added == 4
    assert found.cast(expected.schema).equals(expected)
    if engine.spark is not None:
        by_spark = table.scan().to_spark(engine.spark).orderBy("id").toArrow()
        assert by_spark.cast(expected.schema).equals(expected)


def test_files_get_their_indexes_from_either_engine(engine, tmp_path):
    table = engine.catalog(tmp_path).create_table("db.t", {"k": "INT", "v": "STRING"}, options={"bucket": "-1"})
    for start in (0, 10):
        table.write([{"k": k, "v": f"v{k}"} for k in range(start, start + 10)])
    for limit in ("1 mb", "1 b"):
        table.alter(
            lc.SetOption("file-index.bitmap.columns", "k,v"), lc.SetOption("file-index.in-manifest-threshold", limit)
        )
        assert table.rewrite_file_index().files_indexed == 2
        assert table.rewrite_file_index().snapshot_id is None
        assert engine.rows(table.scan(where="v = 'v13'")) == [(13, "v13")]
        assert table.verify(data=True).findings == ()
