"""Rows go to polars, DuckDB, pandas and pyarrow and come back the same; what would lose something is refused."""

import datetime as dt
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import lakehouse_core as lc
from lakehouse_core.format.data_types import type_to_sql
from tests.search.interchange import search

COLUMNS = {
    "id": "BIGINT NOT NULL",
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "big": "BIGINT",
    "single": "FLOAT",
    "double": "DOUBLE",
    "price": "DECIMAL(38, 10)",
    "text": "STRING",
    "code": "CHAR(3)",
    "raw": "BYTES",
    "day": "DATE",
    "clock": "TIME(3)",
    "seen": "TIMESTAMP(6)",
    "ticks": "TIMESTAMP(3)",
    "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "tags": "ARRAY<STRING>",
    "counts": "MAP<STRING, BIGINT>",
    "place": "ROW<x INT, y STRING>",
}
ROW: dict[str, Any] = {
    "id": 1,
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "whole": -(2**31),
    "big": 2**53 + 1,
    "single": 0.5,
    "double": 0.1,
    "price": Decimal("1234567890123456789012345678.0123456789"),
    "text": "naïve \U0001f389 text that is longer than a view holds",
    "code": "abc",
    "raw": b"\x00\xff",
    "day": dt.date(1969, 12, 31),
    "clock": dt.time(23, 59, 59, 999000),
    "seen": dt.datetime(2013, 1, 1, 1, 2, 3, 456789),
    "ticks": dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    "at": dt.datetime(2013, 1, 1, 1, 2, 3, 456789, tzinfo=dt.UTC),
    "tags": ["a", None, ""],
    "counts": [("k", 2**53 + 1), ("l", None)],
    "place": {"x": 1, "y": None},
}
ROWS = [ROW, {name: 2 if name == "id" else None for name in COLUMNS}]


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    found = lc.connect(tmp_path)
    found.create_database("db")
    return found


@pytest.fixture
def types(catalog: lc.Catalog) -> lc.Table:
    table = catalog.create_table("db.types", COLUMNS)
    table.write(ROWS)
    return table


@pytest.fixture
def orders(catalog: lc.Catalog) -> lc.Table:
    table = catalog.create_table(
        "db.orders", {"id": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["id"], options={"bucket": "2"}
    )
    table.write([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    table.write([{"id": 2, "v": "c"}, {"id": 3, "v": None}])
    return table


def rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sorted(table.to_pylist(), key=lambda row: row["id"])
    return found


def second(catalog: lc.Catalog, table: lc.Table) -> lc.Table:
    """Return an empty table with the columns of another."""
    schema = table.schema
    options = {"bucket": "2"} if schema.primary_keys else {}
    return catalog.create_table("db.second", table.scan().schema(), primary_keys=schema.primary_keys, options=options)


LEAVES: dict[str, Callable[[lc.Scan], Any]] = {
    "to_arrow": lambda scan: scan.to_arrow(),
    "to_reader": lambda scan: scan.to_reader(),
    "a record batch": lambda scan: scan.to_arrow().combine_chunks().to_batches()[0],
    "a stream that is not pyarrow's": lambda scan: Streams(scan.to_arrow()),
    "an array that is not pyarrow's": lambda scan: Arrays(scan.to_arrow().combine_chunks().to_batches()[0]),
    "a dataset": lambda scan: ds.dataset(scan.to_arrow()),
    "a scanner": lambda scan: ds.dataset(scan.to_arrow()).scanner(),
    "to_pandas": lambda scan: scan.to_pandas(),
    "pandas of Arrow types": lambda scan: scan.to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "to_duckdb": lambda scan: scan.to_duckdb(),
    "the scan itself": lambda scan: scan,
}


class Streams:
    """What offers an Arrow stream and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Arrays:
    """What offers one Arrow batch and nothing else."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("way", LEAVES)
def test_every_type_comes_back_as_it_was(catalog: lc.Catalog, types: lc.Table, way: str) -> None:
    target = second(catalog, types)

    report = target.write(LEAVES[way](types.scan()))

    assert report.rows_added == 2
    assert rows(target.scan().to_arrow()) == rows(types.scan().to_arrow()) == ROWS


@pytest.mark.parametrize("way", LEAVES)
def test_an_empty_table_has_all_columns_everywhere(catalog: lc.Catalog, types: lc.Table, way: str) -> None:
    empty = types.scan(where="id > 100")
    target = second(catalog, types)

    if way not in ("a record batch", "an array that is not pyarrow's"):
        report = target.write(LEAVES[way](empty))

        assert report.noop_reason == "the input had no rows to write"
    assert list(empty.to_pandas().columns) == list(COLUMNS)
    assert empty.to_duckdb().columns == list(COLUMNS)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_rows_of_random_types_come_back_from_everywhere(seed: int) -> None:
    search(seed)


def test_polars_has_all_types_but_maps(catalog: lc.Catalog, types: lc.Table) -> None:
    columns = [name for name in COLUMNS if name != "counts"]
    target = second(catalog, types)

    frame = types.scan(columns=columns).to_polars()
    target.write(frame)

    assert isinstance(frame, pl.DataFrame)
    expected = [{**row, "counts": None} for row in ROWS]
    assert rows(target.scan().to_arrow()) == expected


def test_pandas_rounds_no_integer_where_others_are_missing(types: lc.Table) -> None:
    frame = types.scan().to_pandas()

    assert str(frame["big"].dtype) == "Int64"
    assert frame["big"][0] == 2**53 + 1
    assert frame["big"].isna().tolist() == [False, True]
    assert str(frame["id"].dtype) == "int64"
    assert frame["counts"][0] == [("k", 2**53 + 1), ("l", None)]
    assert frame.index.equals(pd.RangeIndex(2))


def test_what_pandas_cannot_hold_is_refused_by_name(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.far", {"id": "BIGINT", "day": "DATE"})
    table.write(pa.table({"id": [1], "day": pa.array([2_932_897 + 1], pa.date32())}))

    with pytest.raises(lc.InvalidRequest, match=r"day.*pandas cannot hold its values .*Use to_arrow\(\)"):
        table.scan().to_pandas()


READS: dict[str, Callable[[lc.Table], Any]] = {
    "a projection": lambda table: table.scan(columns=["v"]),
    "a condition": lambda table: table.scan(where="id >= 2"),
    "a limit": lambda table: table.scan(limit=1),
    "an earlier state": lambda table: table.scan(at=lc.AtSnapshot(1)),
    "changes": lambda table: table.changes(after=0),
    "a difference": lambda table: table.diff(1, 2),
    "a system table": lambda table: table.system("snapshots"),
    "an audit log": lambda table: table.system("audit_log"),
    "snapshots": lambda table: table.snapshots(),
    "files": lambda table: table.files(),
    "no records": lambda table: table.tags(),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", READS)
def test_all_that_has_rows_is_given_to_everybody(orders: lc.Table, what: str) -> None:
    found = READS[what](orders)
    expected = found.to_arrow()

    assert found.to_reader().read_all() == expected
    assert pa.table(found) == expected
    assert pl.DataFrame(found).height == found.to_polars().height == expected.num_rows
    assert len(found.to_pandas()) == expected.num_rows
    assert found.to_duckdb().count("*").fetchall() == [(expected.num_rows,)]
    assert pa.schema(found) == expected.schema


def test_a_stream_is_cast_to_the_schema_that_is_asked_for(orders: lc.Table) -> None:
    wanted = pa.schema([("id", pa.int64()), ("v", pa.large_string())])

    assert pa.RecordBatchReader.from_stream(orders.scan(), wanted).read_all().schema == wanted
    with pytest.raises(lc.InvalidRequest, match="do not fit the requested schema"):
        pa.RecordBatchReader.from_stream(orders.scan(), pa.schema([("other", pa.int64())]))


def test_duckdb_reads_a_scan_as_often_as_its_query_names_it_from_its_own_threads(orders: lc.Table) -> None:
    connection = duckdb.connect()
    scan = orders.scan()
    relation = scan.to_duckdb(connection)
    connection.register("orders", scan)
    orders.write([{"id": 9, "v": "later"}])

    joined = connection.sql("SELECT count(*) FROM orders a JOIN orders b USING (id)").fetchall()

    assert joined == [(3,)]
    assert relation.filter("id > 1").project("v").order("v").fetchall() == [("c",), (None,)]
    assert connection.sql("SELECT sum(id) FROM scan").fetchall() == [(6,)]


def test_a_relation_outlives_what_it_was_made_of(orders: lc.Table) -> None:
    def relation() -> Any:
        return orders.scan().to_duckdb()

    found = relation()
    gc.collect()

    assert found.count("*").fetchall() == [(3,)]
    assert found.count("*").fetchall() == [(3,)]


def test_a_relation_may_be_read_in_another_thread(orders: lc.Table) -> None:
    relation = orders.scan().to_duckdb()
    found: list[Any] = []

    thread = threading.Thread(target=lambda: found.extend(relation.count("*").fetchall()))
    thread.start()
    thread.join()

    assert found == [(3,)]


@pytest.mark.parametrize("wrong", [7, "duckdb", object()])
def test_what_is_no_connection_is_refused(orders: lc.Table, wrong: object) -> None:
    with pytest.raises(lc.InvalidRequest, match=r"to_duckdb\(.*expected a connection"):
        orders.scan().to_duckdb(wrong)


def test_a_connection_that_is_closed_is_told(orders: lc.Table) -> None:
    connection = duckdb.connect()
    connection.close()

    with pytest.raises(lc.InvalidRequest, match="DuckDB cannot read these rows"):
        orders.scan().to_duckdb(connection)


def test_what_duckdb_makes_of_a_scan_is_written_back(orders: lc.Table) -> None:
    orders.write(orders.scan().to_duckdb().project("id, coalesce(v, 'none') AS v"))

    assert rows(orders.scan().to_arrow())[2] == {"id": 3, "v": "none"}


@pytest.mark.damage
def test_an_error_in_the_middle_is_one_of_ours(orders: lc.Table, tmp_path: Path) -> None:
    reader = orders.scan().to_reader()
    relation = orders.scan().to_duckdb()
    for file in (tmp_path / "db.db/orders").rglob("data-*.parquet"):
        file.write_bytes(file.read_bytes()[:50])

    with pytest.raises(lc.CorruptTable, match=r"db\.orders"):
        reader.read_all()
    with pytest.raises(lc.CorruptTable, match=r"db\.orders"):
        orders.scan().to_polars()
    with pytest.raises(lc.CorruptTable, match=r"db\.orders"):
        orders.write(orders.scan())
    with pytest.raises(duckdb.Error, match=r"db\.orders"):
        relation.fetchall()


@pytest.mark.parametrize("column", [pd.Series([1], name="id"), pl.Series("id", [1])])
def test_a_column_alone_is_refused_with_what_to_write(catalog: lc.Catalog, column: Any) -> None:
    table = catalog.create_table("db.alone", {"id": "BIGINT"})

    with pytest.raises(lc.InvalidRequest, match=r"The data is a Series, a single column: write series\.to_frame\(\)"):
        table.write(column)

    table.write(column.to_frame())
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]


FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame({"id": [1], "v": ["a"]}),
    "polars": pl.DataFrame({"id": [1], "v": ["a"]}),
    "polars lazy": pl.LazyFrame({"id": [1], "v": ["a"]}),
    "polars schema": pl.Schema({"id": pl.Int64(), "v": pl.String()}),
    "pyarrow": pa.table({"id": [1], "v": ["a"]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_in_the_place_of_a_schema_is_refused_with_what_to_pass(catalog: lc.Catalog, kind: str) -> None:
    given = FRAMES[kind]

    with pytest.raises(
        lc.InvalidRequest, match=r"db\.made: schema is a .*, which has a schema but is not one: pass"
    ) as told:
        catalog.create_table("db.made", given)

    advice = str(told.value).rpartition("not one: pass ")[2].removesuffix(".")
    schema = eval(advice, {"pyarrow": pa, "polars": pl, "df": given, "table": given, "schema": given})
    made = catalog.create_table("db.made", schema)
    assert [(field.name, type_to_sql(field.type)) for field in made.schema.fields] == [
        ("id", "BIGINT"),
        ("v", "STRING"),
    ]


@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_a_package_that_is_missing_is_named(orders: lc.Table, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(lc.InvalidRequest) as refused:
        getattr(orders.scan(), f"to_{package}")()

    assert f"to_{package}() needs the package {package}, which cannot be imported" in str(refused.value)
    assert f"pip install 'paimon-lakehouse[{package}]'" in str(refused.value)


@pytest.mark.program
def test_nothing_is_imported_that_nobody_asked_for(orders: lc.Table) -> None:
    program = f"""
import sys
import lakehouse_core as lc
assert "pandas" not in sys.modules
orders = lc.connect({str(Path(orders.uri.removeprefix("file://")).parents[1])!r}).table("db.orders")
# pyarrow itself looks for pandas once it makes an array of Python's values.
orders.write(orders.scan())
assert "polars" not in sys.modules and "duckdb" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# What comes in.


def test_a_table_is_written_into_itself_as_it_was_before(orders: lc.Table, catalog: lc.Catalog) -> None:
    log = catalog.create_table("db.log", {"id": "BIGINT", "v": "STRING"})
    log.write(orders.scan())

    log.write(log.scan())
    orders.write(orders.scan(where="id = 1"))
    log.overwrite(log.scan(where="id = 1"))

    assert [row["id"] for row in rows(log.scan().to_arrow())] == [1, 1]
    assert [row["id"] for row in rows(orders.scan().to_arrow())] == [1, 2, 3]


def test_a_scan_that_was_not_looked_at_before_is_of_the_state_that_an_overwrite_replaces(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT"})
    table.write([{"id": 1}])
    scan = table.scan()
    table.write([{"id": 2}])

    table.overwrite(scan)

    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_changes_are_written_by_their_row_kinds(orders: lc.Table, catalog: lc.Catalog) -> None:
    copy = second(catalog, orders)

    copy.write(orders.changes(after=0), rowkind_column="rowkind")

    assert rows(copy.scan().to_arrow()) == rows(orders.scan().to_arrow())


def test_a_relation_of_duckdb_is_written(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT", "v": "STRING"})

    table.write(duckdb.connect().sql("SELECT range AS id, 'v' || range AS v FROM range(3)"))

    assert rows(table.scan().to_arrow()) == [{"id": i, "v": f"v{i}"} for i in range(3)]


KEYS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"id": [3, 1]}),
    "an index of pandas": lambda: pd.DataFrame({"w": [0, 0]}, index=pd.Index([3, 1], name="id")),
    "a column of pandas": lambda: pd.Series([3, 1], name="anything"),
    "a column of objects": lambda: pd.Series([3, 1], dtype=object),
    "polars": lambda: pl.DataFrame({"id": [3, 1], "w": [0, 0]}),
    "a column of polars": lambda: pl.Series([3, 1]),
    "duckdb": lambda: duckdb.connect().sql("SELECT unnest([3, 1]) AS id"),
    "numpy": lambda: np.array([3, 1], np.int32),
    "a stream": lambda: Streams(pa.table({"id": [3, 1]})),
    "a reader": lambda: pa.table({"id": [3, 1]}).to_reader(),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_looked_up_in_the_order_of_whatever_holds_them(orders: lc.Table, kind: str) -> None:
    found = orders.lookup(KEYS[kind]())

    assert found["id"].to_pylist() == [3, 1]


def test_a_scan_of_one_table_is_looked_up_in_another(orders: lc.Table) -> None:
    assert orders.lookup(orders.scan(where="id > 1", columns=["id"])).num_rows == 2


def test_streams_are_drawn_one_batch_at_a_time(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT"})
    alive, most = 0, 0

    class Counted:
        def __init__(self) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def drawn() -> Iterator[pa.RecordBatch]:
        for number in range(50):
            holder = Counted()
            data = np.full(1_000, number)
            data.flags.writeable = False
            batch = pa.record_batch({"id": data})
            yield batch
            del batch, holder

    table.write(Streams(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), drawn())))  # type: ignore[arg-type]

    assert most == 1
    assert table.scan().count() == 50_000


def test_a_stream_that_fails_is_told_and_leaves_nothing(catalog: lc.Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT"})

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise OSError("the line went dead")

    source = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), broken())
    with pytest.raises(lc.InvalidRequest, match=r"The data ended with an error after 1 rows.*the line went dead"):
        table.write(Streams(source))  # type: ignore[arg-type]

    assert table.snapshot() is None
    assert not list((tmp_path / "db.db/t").rglob("*.parquet"))


FITS = {
    "text views": (pa.array(["a" * 20, None], pa.string_view()), "STRING", ["a" * 20, None]),
    "binary views": (pa.array([b"a" * 20, None], pa.binary_view()), "BYTES", [b"a" * 20, None]),
    "large lists": (pa.array([["a"], None], pa.large_list(pa.string_view())), "ARRAY<STRING>", [["a"], None]),
    "lists of a size": (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), "ARRAY<BIGINT>", [[1, 2], None]),
    "views of lists": (
        pa.ListViewArray.from_arrays([3, 0, 1], [1, 2, 2], pa.array(["a", "b", "c", "d"], pa.string_view())),
        "ARRAY<STRING>",
        [["d"], ["a", "b"], ["b", "c"]],
    ),
    "a slice of views of lists": (
        pa.array([["x"], None, [], ["y", "z"]], pa.large_list_view(pa.string())).slice(1),
        "ARRAY<STRING>",
        [None, [], ["y", "z"]],
    ),
    "categories": (pa.array(["a", None, "a"]).dictionary_encode(), "STRING", ["a", None, "a"]),
    "unsigned": (pa.array([255, None], pa.uint8()), "TINYINT", "Row 0, column 'c': 255 does not fit TINYINT"),
    "unsigned that fits": (pa.array([127, None], pa.uint8()), "TINYINT", [127, None]),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), "TIMESTAMP(6)", "Row 0, column 'c': .* does not fit TIMESTAMP"),
    "nanoseconds of zero": (
        pa.array([1000], pa.timestamp("ns")),
        "TIMESTAMP(6)",
        [dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
    ),
    "another zone": (
        pa.array([0], pa.timestamp("us", tz="Europe/Berlin")),
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    ),
    "a zone where the column has none": (
        pa.array([0], pa.timestamp("us", tz="UTC")),
        "TIMESTAMP(6)",
        "Column 'c' is TIMESTAMP.* and the data has timestamp.*cast it",
    ),
    "texts of pandas": (
        pa.array(["2013-01-01"], pa.large_string()),
        "DATE",
        r"date32\[day\], in pandas with pandas\.to_datetime\(column\)\.dt\.date, first\.",
    ),
    "a duration": (pa.array([1], pa.duration("s")), "BIGINT", "Column 'c' is BIGINT and the data has duration"),
    "nothing but nulls": (pa.nulls(2), "STRING", [None, None]),
    "an extension": (pa.array([b"0" * 16], pa.uuid()), "STRING", "Column 'c' is STRING and the data has extension"),
}


@pytest.mark.parametrize("case", FITS)
def test_arrow_of_other_kinds_is_taken_as_it_is_or_refused(catalog: lc.Catalog, case: str) -> None:
    array, sql, expected = FITS[case]
    table = catalog.create_table("db.t", {"c": sql})
    data = Streams(pa.table({"c": array}))

    if isinstance(expected, str):
        with pytest.raises(lc.InvalidRequest, match=expected):
            table.write(data)
        assert table.snapshot() is None
        return
    table.write(data)
    assert table.scan().to_arrow()["c"].to_pylist() == expected


POLARS = {
    "texts for days": (
        pl.Series(["2013-01-31"]),
        "DATE",
        r"cast it to date32\[day\], in polars with polars\.col\(…\)\.str\.to_date\(\), first",
    ),
    "categories": (pl.Series(["a", None, "b"], dtype=pl.Categorical), "STRING", ["a", None, "b"]),
    "an enum": (pl.Series(["x", None], dtype=pl.Enum(["x", "y"])), "STRING", ["x", None]),
    "a time": (pl.Series([dt.time(1, 2, 3, 4000), None]), "TIME(3)", [dt.time(1, 2, 3, 4000), None]),
    "a time of microseconds": (pl.Series([dt.time(0), dt.time(1, 2, 3, 4)]), "TIME(3)", "Row 1, column 'c'"),
    "an array": (pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)), "ARRAY<BIGINT>", [[1, 2], None]),
    "a duration": (pl.Series([dt.timedelta(1)]), "BIGINT", "the data has duration"),
    "128 bits": (pl.Series([1], dtype=pl.Int128), "BIGINT", "the data cannot be taken as Arrow"),
    "a decimal": (pl.Series([Decimal("1.50")]), "DECIMAL(10, 2)", [Decimal("1.50")]),
}


@pytest.mark.parametrize("case", POLARS)
def test_columns_of_polars_are_taken_as_they_are_or_refused(catalog: lc.Catalog, case: str) -> None:
    series, sql, expected = POLARS[case]
    table = catalog.create_table("db.t", {"c": sql})
    data = pl.DataFrame({"c": series})

    if isinstance(expected, str):
        with pytest.raises(lc.InvalidRequest, match=expected):
            table.write(data)
        return
    table.write(data)
    assert table.scan().to_arrow()["c"].to_pylist() == expected


PANDAS = {
    "text and NaN": (pd.Series(["a", np.nan, None], dtype=object), "STRING", ["a", None, None]),
    "text of its own kind": (pd.Series(["a", None]), "STRING", ["a", None]),
    "categories": (pd.Series(["a", None], dtype="category"), "STRING", ["a", None]),
    "integers and NaN": (pd.Series([1, None]), "BIGINT", [1, None]),
    "half a number": (pd.Series([1.0, 1.5]), "BIGINT", "Row 1, column 'c': 1.5 does not fit BIGINT"),
    "nullable integers": (pd.Series([2**53 + 1, None], dtype="Int64"), "BIGINT", [2**53 + 1, None]),
    "NaN": (pd.Series([0.5, np.nan]), "DOUBLE", [0.5, None]),
    "nothing, of which pandas knows no type": (pd.Series([np.nan, np.nan]), "DATE", [None, None]),
    "no rows, of which pandas knows no type": (pd.DataFrame({"c": []})["c"], "STRING", []),
    "numbers for days": (pd.Series([np.nan, 1.0]), "DATE", "Column 'c' is DATE and the data has double: cast it"),
    "times for days": (
        pd.Series(pd.to_datetime(["2013-01-01"])),
        "DATE",
        r"cast it to date32\[day\], in pandas with pandas\.to_datetime\(column\)\.dt\.date, first",
    ),
    "decimals": (pd.Series([Decimal("1.5"), None], dtype=object), "DECIMAL(10, 2)", [Decimal("1.50"), None]),
    "mixed": (pd.Series([1, "x"], dtype=object), "BIGINT", "Row 1, column 'c': 'x' is not a value of BIGINT"),
    "numbers as objects": (pd.Series([np.int64(7), None], dtype=object), "BIGINT", [7, None]),
    "dates": (pd.Series([dt.date(2013, 1, 1), None], dtype=object), "DATE", [dt.date(2013, 1, 1), None]),
    "days and times": (
        pd.Series([dt.date(2013, 1, 1), dt.datetime(2013, 1, 1, 5)], dtype=object),
        "DATE",
        "Row 1, column 'c': .* is not a value of DATE: it has a time of day",
    ),
    "lists": (pd.Series([["a"], np.array(["b"]), None]), "ARRAY<STRING>", [["a"], ["b"], None]),
    "nanoseconds": (pd.Series(pd.to_datetime([1], unit="ns")), "TIMESTAMP(6)", "Row 0, column 'c'"),
    "nanoseconds as objects": (
        pd.Series([None, pd.Timestamp(1, unit="ns")], dtype=object),
        "TIMESTAMP(6)",
        "Row 1, column 'c': .* it has more than 6 digits of a second",
    ),
    "no time": (
        pd.Series([pd.NaT, dt.datetime(2013, 1, 1)], dtype=object),
        "TIMESTAMP(6)",
        [None, dt.datetime(2013, 1, 1)],
    ),
    "a zone": (
        pd.Series(pd.to_datetime(["2013-01-01"]).tz_localize("Europe/Berlin")),
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        [dt.datetime(2012, 12, 31, 23, tzinfo=dt.UTC)],
    ),
    "a zone where the column has none": (
        pd.Series(pd.to_datetime(["2013-01-01"]).tz_localize("UTC")),
        "TIMESTAMP(6)",
        "the data has timestamp.*cast it",
    ),
    "periods": (pd.Series(pd.period_range("2020", periods=1, freq="M")), "STRING", "Column 'c' is STRING and the data"),
    "complex numbers": (pd.Series([1j]), "DOUBLE", "Column 'c': Arrow has no type for complex128"),
    "sparse": (pd.Series(pd.arrays.SparseArray([0, 1])), "BIGINT", "Column 'c': Arrow has no type for Sparse"),
}


@pytest.mark.parametrize("case", PANDAS)
def test_columns_of_pandas_are_taken_as_they_are_or_refused(catalog: lc.Catalog, case: str) -> None:
    series, sql, expected = PANDAS[case]
    table = catalog.create_table("db.t", {"c": sql})
    data = pd.DataFrame({"c": series}).set_index(np.arange(7, 7 + len(series)))

    if isinstance(expected, str):
        with pytest.raises(lc.InvalidRequest, match=expected):
            table.write(data)
        return
    table.write(data)
    assert table.scan().to_arrow()["c"].to_pylist() == expected


def test_no_nanosecond_of_a_timestamp_among_dicts_is_lost_unseen(catalog: lc.Catalog) -> None:
    fine = catalog.create_table("db.fine", {"c": "TIMESTAMP(9)"})
    coarse = catalog.create_table("db.coarse", {"c": "TIMESTAMP(6)", "d": "DATE"})

    fine.write([{"c": pd.Timestamp(1, unit="ns")}])

    assert fine.scan().to_arrow()["c"].cast(pa.int64()).to_pylist() == [1]
    with pytest.raises(lc.InvalidRequest, match="more than 6 digits of a second"):
        coarse.write([{"c": pd.Timestamp(1, unit="ns")}])
    with pytest.raises(lc.InvalidRequest, match="it has a time of day"):
        coarse.write([{"d": pd.Timestamp(1, unit="ns")}])
    with pytest.raises(lc.InvalidRequest, match="write None for a missing value"):
        coarse.write([{"c": pd.NaT}])


def test_index_levels_with_a_name_are_columns_and_row_numbers_are_not(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT", "v": "STRING"})
    frame = pd.DataFrame({"id": [1, 2], "v": ["a", "b"]})

    table.write(frame[frame["id"] > 1])
    table.write(frame.set_index("id"))
    table.write(frame.set_index(["id", "v"]))

    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 1, 2, 2, 2]
    with pytest.raises(lc.InvalidRequest, match="two columns 'id'"):
        table.write(frame.set_index("id", drop=False))
    with pytest.raises(lc.InvalidRequest, match="two columns 'id'"):
        table.write(pd.DataFrame({"v": ["a"]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=["id", "id"])))
    with pytest.raises(lc.InvalidRequest, match="a column 'n', which the table does not have"):
        table.write(frame.set_index(pd.Index([1, 2], name="n")))
    with pytest.raises(lc.InvalidRequest, match="a column 0, which the table does not have"):
        table.write(pd.DataFrame([[1, 2]]))


def test_rows_of_pandas_are_counted_through_all_of_a_long_frame(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"c": "BIGINT", "o": "BIGINT"})
    frame = pd.DataFrame({"c": np.zeros(70_000), "o": pd.Series([0] * 70_000, dtype=object)})

    assert table.write(frame).rows_added == 70_000
    frame.loc[66_001, "c"] = 0.5
    with pytest.raises(lc.InvalidRequest, match="Row 66001, column 'c'"):
        table.write(frame)
    frame = frame.assign(c=0.0)
    frame.loc[66_000, "o"] = "x"
    with pytest.raises(lc.InvalidRequest, match="Row 66000, column 'o'"):
        table.write(frame)


def test_a_frame_without_its_column_is_refused_at_once(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"c": "BIGINT NOT NULL", "d": "STRING"})

    with pytest.raises(lc.InvalidRequest, match="no column 'c'"):
        table.write(pd.DataFrame({"d": ["x"]}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pl.LazyFrame({"id": [1]}), r"Cannot write polars.*LazyFrame.*collect\(\)"),
        (pl.DataFrame, "Cannot write type"),
        (pl.Series([1]), r"The data is a Series, a single column: write series\.to_frame\('its column'\)"),
        (pa.array([1]), "the data cannot be taken as Arrow"),
        (pd.Series([1]), r"The data is a Series, a single column: write series\.to_frame\('its column'\)"),
        (np.array([1]), "Cannot write numpy.ndarray"),
        ({"id": [1]}, r"Cannot write dict: .* pyarrow\.table\(…\) makes a table"),
        ([{"id": 1}, 7], "Cannot write a list whose row 1 is int: expected .* a list of dicts"),
        (iter([]), r"Cannot write list_iterator.* Call list\(…\) of it"),
    ],
)
def test_what_is_no_table_is_refused(catalog: lc.Catalog, data: object, message: str) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT"})

    with pytest.raises(lc.InvalidRequest, match=message):
        table.write(data)


# Bounds.


@pytest.fixture
def long(catalog: lc.Catalog) -> lc.Table:
    """A table of 64 MB in eight files."""
    table = catalog.create_table("db.long", {"id": "BIGINT", "v": "BIGINT"}, options={"write-only": "true"})
    numbers = np.random.default_rng(0)
    for _ in range(8):
        table.write(pa.table({"id": numbers.integers(0, 2**62, 500_000), "v": numbers.integers(0, 2**62, 500_000)}))
    return table


def open_files(table: lc.Table) -> list[str]:
    """Return the files of a table that this process has open or mapped."""
    folder = table.uri.removeprefix("file://")
    names = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    names += [line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()]
    return [name for name in names if name.startswith(folder)]


def test_a_reader_holds_a_few_batches_however_long_the_scan_is(long: lc.Table) -> None:
    before, most, count = pa.total_allocated_bytes(), 0, 0

    for batch in long.scan().to_reader():
        count += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)

    assert count == 4_000_000
    assert most < 24 << 20


def test_a_table_of_any_length_is_written_into_another_a_few_batches_at_a_time(
    long: lc.Table, catalog: lc.Catalog
) -> None:
    target = catalog.create_table("db.copy", {"id": "BIGINT", "v": "BIGINT"}, options={"write-only": "true"})
    before = pa.total_allocated_bytes()
    most = 0

    def listen(progress: lc.Progress) -> None:
        nonlocal most
        most = max(most, pa.total_allocated_bytes() - before)

    target.write(long.scan(), progress=listen)

    assert target.scan().count() == 4_000_000
    assert most < 48 << 20


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", ["nobody holds it", "it was read", "its stream was closed"])
def test_the_files_of_a_reader_are_closed_when(long: lc.Table, end: str) -> None:
    reader = long.scan().to_reader()
    if end == "its stream was closed":
        reader = pa.RecordBatchReader.from_stream(long.scan())
    reader.read_next_batch()
    assert open_files(long)

    if end == "nobody holds it":
        del reader
    elif end == "it was read":
        for _ in reader:
            pass
    else:
        reader.close()

    assert open_files(long) == []


def test_the_files_of_a_query_are_closed_when_it_has_its_rows(long: lc.Table) -> None:
    relation = long.scan().to_duckdb()

    assert relation.limit(3).fetchall()
    assert relation.aggregate("count(*)").fetchall() == [(4_000_000,)]

    assert open_files(long) == []
