"""Files that DuckDB reads by itself: which they are, and that answers are those of the streams."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakehouse_core as lc
from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.execution.engines.duckdb import files as module
from lakehouse_core.execution.engines.duckdb import tested_files
from tests.catalog.statements import random_queries
from tests.catalog.statements.query_tables import queries, rows_of
from tests.pairs import in_turn

TYPES = {
    "id": "INT NOT NULL",
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "big": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "short": "DECIMAL(5, 2)",
    "long": "DECIMAL(18, 3)",
    "wide": "DECIMAL(38, 10)",
    "fixed": "CHAR(3)",
    "text": "STRING",
    "raw": "BYTES",
    "bits": "BINARY(2)",
    "day": "DATE",
    "clock": "TIME(3)",
    "t0": "TIMESTAMP(0)",
    "t3": "TIMESTAMP(3)",
    "t6": "TIMESTAMP(6)",
    "z3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "z6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "list": "ARRAY<INT>",
    "map": "MAP<STRING, DECIMAL(9, 2)>",
    "row": "ROW<a INT, b ROW<c STRING, d DOUBLE>>",
    "rows": "ARRAY<ROW<a TIMESTAMP(3)>>",
    'odd "name" {x}': "INT",
}


def row(number: int) -> dict[str, Any]:
    """Return a row with an extreme of each type, or without values."""
    if number % 4 == 3:
        return {"id": number}
    at = (datetime(1500, 2, 28, 23, 59, 59), datetime(1969, 12, 31, 23, 59, 59), datetime(9999, 12, 31))[number % 4]
    parts = at + timedelta(milliseconds=123)
    micros = at + timedelta(microseconds=123456)
    number_of = (float("nan"), float("-inf"), -0.0)[number % 4]
    sign = (1, -1, 0)[number % 4]
    return {
        "id": number,
        "flag": number % 2 == 0,
        "tiny": 127 * sign,
        "small": 32767 * sign,
        "big": (2**63 - 1) * sign,
        "f": number_of,
        "d": number_of,
        "short": signed("999.99", sign),
        "long": signed("999999999999999.999", sign),
        "wide": signed("9999999999999999999999999999.9999999999", sign),
        "fixed": "äb",
        "text": "x\x00y" * number,
        "raw": b"\x00\xff" * number,
        "bits": b"\x00\xff",
        "day": at.date(),
        "clock": time(23, 59, 59, 999000),
        "t0": at,
        "t3": parts,
        "t6": micros,
        "z3": parts.replace(tzinfo=UTC),
        "z6": micros.replace(tzinfo=UTC),
        "list": [1, None, number][:number],
        "map": {"k": Decimal("1.25"), "l": None},
        "row": {"a": number, "b": {"c": "x", "d": number_of}},
        "rows": [{"a": parts}, None],
        'odd "name" {x}': number,
    }


def signed(digits: str, sign: int) -> Decimal:
    # A product would be rounded to 28 digits.
    return Decimal(f"-{digits}" if sign < 0 else digits)


def small(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "x": number * 2, "p": "ab"[number % 2] if number % 5 else None} for number in numbers]


SMALL = {"id": "INT NOT NULL", "x": "INT", "p": "STRING"}


def append(catalog: lc.Catalog, **options: str) -> lc.Table:
    return catalog.create_table("s.t", SMALL, partition_keys=["p"], options=options)


def keyed(catalog: lc.Catalog, **options: str) -> lc.Table:
    return catalog.create_table("s.t", SMALL, primary_keys=["id"], options={"bucket": "1", **options})


def all_types(catalog: lc.Catalog) -> None:
    catalog.create_table("s.t", TYPES).write([row(number) for number in range(8)])


def partitions_of_null(catalog: lc.Catalog) -> None:
    append(catalog).write(small(*range(12)))


def one_run(catalog: lc.Catalog) -> None:
    table = keyed(catalog)
    table.write(small(1, 2, 3))
    table.write(small(2, 9))
    table.compact(full=True)


def raw_and_merged(catalog: lc.Catalog) -> None:
    table = catalog.create_table(
        "s.t",
        {**SMALL, "p": "STRING NOT NULL"},
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options={"bucket": "1"},
    )
    rows = [one for one in small(*range(12)) if one["p"] is not None]
    table.write(rows)
    table.compact(full=True)
    table.write([{"id": 1, "x": 100, "p": "b"}])


def deleted_keys(catalog: lc.Catalog) -> None:
    table = keyed(catalog)
    table.write(small(1, 2, 3))
    table.delete("id = 2")


def renamed_and_added(catalog: lc.Catalog) -> None:
    table = append(catalog)
    table.write(small(1, 2))
    table.alter(lc.RenameColumn("x", "y"), lc.AddColumn("x", "STRING"), lc.AddColumn("z", "TIMESTAMP(3)"))
    table.write([{"id": 3, "y": 7, "x": "new", "z": datetime(2013, 1, 1), "p": "a"}])


def widened(catalog: lc.Catalog) -> None:
    table = append(catalog)
    table.write(small(1, 2))
    table.alter(lc.UpdateColumnType("x", "BIGINT"))
    table.write([{"id": 3, "x": 2**40, "p": "c"}])


def vectors(catalog: lc.Catalog) -> None:
    table = append(catalog, **{"deletion-vectors.enabled": "true"})
    table.write(small(1, 2, 3, 4))
    table.delete("id = 2")


def orc(catalog: lc.Catalog) -> None:
    append(catalog, **{"file.format": "orc"}).write(small(1, 2))


def avro(catalog: lc.Catalog) -> None:
    append(catalog, **{"file.format": "avro"}).write(small(1, 2))


def nanoseconds(catalog: lc.Catalog) -> None:
    catalog.create_table("s.t", {"id": "INT", "t": "TIMESTAMP(9)"}).write([{"id": 1, "t": datetime(2013, 1, 1)}])


def without_rows(catalog: lc.Catalog) -> None:
    append(catalog)


# The table, how many of its splits DuckDB reads by itself, and how many are read as a stream.
TABLES: list[tuple[Callable[[lc.Catalog], None], int, int]] = [
    (all_types, 1, 0),
    (partitions_of_null, 3, 0),
    (one_run, 1, 0),
    (raw_and_merged, 1, 1),
    (deleted_keys, 0, 1),
    (renamed_and_added, 2, 0),
    (widened, 1, 2),
    (vectors, 1, 1),
    (orc, 0, 2),
    (avro, 0, 2),
    (nanoseconds, 0, 1),
    (without_rows, 0, 0),
]


def as_streams(catalog: lc.Catalog, query: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(module, "native_splits", lambda plan: [])
        return catalog.sql(query).to_arrow()


def splits_of(catalog: lc.Catalog, query: str) -> tuple[int, int]:
    """Return how many splits DuckDB reads by itself, and how many it does not, over all tables of the query."""
    lines = catalog.sql(f"EXPLAIN {query}").to_arrow().column("plan").to_pylist()
    found = re.findall(r"(\d+) splits are read by DuckDB itself, (\d+) are read here", "\n".join(lines))
    return sum(int(native) for native, _ in found), sum(int(other) for _, other in found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("make", "native", "other"), TABLES, ids=[make.__name__ for make, _, _ in TABLES])
def test_files_give_the_rows_and_types_of_streams(empty, make, native, other, monkeypatch):
    make(empty)

    assert splits_of(empty, "SELECT * FROM s.t") == (native, other)
    for query in ("SELECT * FROM s.t", "SELECT * FROM s.t WHERE id > 1 AND id < 5", "SELECT count(*) AS n FROM s.t"):
        found, expected = empty.sql(query).to_arrow(), as_streams(empty, query, monkeypatch)
        assert found.schema == expected.schema
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


@pytest.mark.parametrize("query", in_turn(7, queries()))
def test_an_answer_from_files_is_that_of_streams(catalog, query, monkeypatch):
    found, expected = catalog.sql(query).to_arrow(), as_streams(catalog, query, monkeypatch)

    assert found.schema == expected.schema
    assert rows_of(found, ordered="ORDER BY" in query) == rows_of(expected, ordered="ORDER BY" in query)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", in_turn(8, range(80)))
def test_a_random_query_of_files_has_the_answer_of_streams(tmp_path_factory, seed, monkeypatch, empty):
    random_queries.make_table(empty)
    query = random_queries.random_query(seed)

    def answer(ask: Callable[[], Any]) -> Any:
        try:
            return ask().to_pylist()
        except lc.LakehouseError as error:
            return type(error)

    found = answer(lambda: empty.sql(query).to_arrow())
    assert repr(found) == repr(answer(lambda: as_streams(empty, query, monkeypatch)))


def test_bounds_that_leave_out_nan_are_not_trusted(empty, monkeypatch):
    """Java's files have bounds of floating-point columns, and DuckDB skips row groups by them."""
    monkeypatch.setattr("lakehouse_core.data_files.parquet.writer._may_hold_nan", lambda kind: False)
    empty.create_table("s.t", {"id": "INT", "d": "DOUBLE"}).write([{"id": 1, "d": 1.0}, {"id": 2, "d": float("nan")}])

    assert splits_of(empty, "SELECT id FROM s.t WHERE d > 100") == (0, 1)
    assert splits_of(empty, "SELECT id FROM s.t") == (1, 0)
    assert empty.sql("SELECT id FROM s.t WHERE d > 100").to_arrow().to_pylist() == [{"id": 2}]


@pytest.mark.damage
def test_a_damaged_page_is_found_before_duckdb_reads_it(empty, tmp_path):
    empty.create_table("s.t", {"id": "INT", "x": "BIGINT"}, options={"file.compression": "none"}).write(
        [{"id": number, "x": number * 1000} for number in range(5000)]
    )
    path = next(tmp_path.rglob("data-*.parquet"))
    data = bytearray(path.read_bytes())
    data[data.index((4_321_000).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)

    assert empty.sql("SELECT sum(id) AS s FROM s.t").to_arrow().num_rows == 1
    with pytest.raises(lc.CorruptTable, match=rf"s\.t.*{path.name}: .* does not fit its checksum"):
        empty.sql("SELECT sum(x) FROM s.t").to_arrow()


def opened(ask: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that are opened to be tested while `ask` runs."""
    found: list[str] = []

    def counted(store: Any, key: str, *arguments: Any, **named: Any) -> Any:
        found.append(key)
        return ParquetFileReader(store, key, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(tested_files, "ParquetFileReader", counted)
        ask()
    return found


def test_a_file_is_tested_once_for_all_its_columns_that_are_asked_for(empty, monkeypatch):
    table = append(empty)
    table.write(small(1, 3))

    def ask(columns: str) -> list[str]:
        return opened(lambda: empty.sql(f"SELECT {columns} FROM s.t").to_arrow(), monkeypatch)

    assert [len(ask(columns)) for columns in ("id", "id", "id, x", "x", "id, x, p", "*")] == [1, 0, 1, 0, 1, 0]
    table.write(small(5))
    assert len(ask("*")) == 1


@pytest.mark.damage
def test_a_file_that_changed_since_it_was_tested_is_tested_again(empty, tmp_path):
    table = empty.create_table("s.t", {"x": "INT"}, options={"file.compression": "none"})
    table.write([{"x": number} for number in range(5000)])
    assert empty.sql("SELECT count(x) AS n FROM s.t").to_arrow().num_rows == 1
    path = next(tmp_path.rglob("data-*.parquet"))
    data = bytearray(path.read_bytes())
    data[data.index((1234).to_bytes(4, "little"))] ^= 1
    path.write_bytes(data)

    with pytest.raises(lc.CorruptTable, match=r"s\.t"):
        empty.sql("SELECT count(x) AS n FROM s.t").to_arrow()


@pytest.mark.damage
def test_a_part_of_a_file_that_a_condition_left_out_is_tested_when_it_is_read(empty, tmp_path):
    """Two row groups, of which the first query reads the first."""
    table = empty.create_table("s.t", {"id": "INT", "x": "BIGINT"}, options={"file.compression": "none"})
    numbers = pa.array(range(200_000), pa.int32())
    table.write(pa.table({"id": numbers, "x": pc.multiply(numbers.cast(pa.int64()), 1000)}))
    path = next(tmp_path.rglob("data-*.parquet"))
    data = bytearray(path.read_bytes())
    data[data.index((199_321_000).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)

    for _ in range(2):
        assert empty.sql("SELECT sum(x) AS s FROM s.t WHERE id < 10").to_arrow().to_pylist() == [{"s": 45_000}]
    with pytest.raises(lc.CorruptTable, match=r"s\.t"):
        empty.sql("SELECT sum(x) AS s FROM s.t").to_arrow()


def test_timestamps_of_96_bits_are_read_as_a_scan_reads_them(empty):
    """Java stores timestamps finer than microseconds so; DuckDB would give them up to microseconds."""
    table = empty.create_table("s.t", {"id": "INT", "t": "TIMESTAMP(9)", "z": "TIMESTAMP(7)"})
    at = [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1677, 9, 22), datetime(2262, 4, 11), None]
    table.write([{"id": number, "t": one, "z": one} for number, one in enumerate(at)])

    assert splits_of(empty, "SELECT id FROM s.t") == (1, 0)
    assert splits_of(empty, "SELECT t FROM s.t") == (0, 1)
    assert empty.sql("SELECT id FROM s.t ORDER BY id").to_arrow().column("id").to_pylist() == [0, 1, 2, 3]
    found = empty.sql("SELECT t, z FROM s.t ORDER BY id").to_arrow()
    assert found.to_pylist() == table.scan(columns=["t", "z"]).to_arrow().to_pylist()


@pytest.mark.damage
def test_a_page_that_would_end_where_it_begins_is_damaged(empty, tmp_path):
    append(empty).write(small(1))
    path = next(tmp_path.rglob("data-*.parquet"))
    data = bytearray(path.read_bytes())
    # A header of 7 bytes, with a compressed size of -7.
    data[4:11] = bytes([0x15, 0, 0x15, 0, 0x15, 13, 0])
    path.write_bytes(data)

    with pytest.raises(lc.CorruptTable, match=rf"s\.t.*{path.name}: the page at byte 4 does not fit"):
        empty.sql("SELECT id FROM s.t").to_arrow()


@pytest.mark.damage
@pytest.mark.parametrize("damage", [b"", b"PAR1", b"x" * 700])
def test_a_damaged_file_is_one_sentence_that_names_it(empty, tmp_path, damage):
    append(empty).write(small(1))
    path = next(tmp_path.rglob("data-*.parquet"))
    path.write_bytes(damage)

    with pytest.raises(lc.CorruptTable, match=rf"s\.t.*{path.name}"):
        empty.sql("SELECT * FROM s.t").to_arrow()


@pytest.mark.damage
def test_a_file_that_vanishes_while_duckdb_opens_it_is_an_error_of_the_table(empty, tmp_path, monkeypatch):
    append(empty).write(small(1))
    path = next(tmp_path.rglob("data-*.parquet"))
    native_read = module.native_read

    def then_gone(*arguments: Any, **named: Any) -> Any:
        found = native_read(*arguments, **named)
        path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr("lakehouse_core.execution.engines.duckdb.views.native_read", then_gone)
    with pytest.raises(lc.CorruptTable, match=rf"s\.t.*{path.name}.*missing"):
        empty.sql("SELECT * FROM s.t").to_arrow()


def replaced_and_expired(table: lc.Table) -> None:
    """Replace the row 1 by one of the same partition, and delete the file that held it."""
    table.overwrite(small(3))
    table.expire_snapshots(retain_max=1, retain_min=1)


def test_a_snapshot_that_expires_before_the_read_is_told(empty):
    table = append(empty, **{"lakehouse.read.grace": "0 s"})
    table.write(small(1))
    answer = empty.sql("SELECT * FROM s.t")
    replaced_and_expired(table)

    with pytest.raises(lc.SnapshotExpired, match=r"s\.t"):
        answer.to_arrow()


def test_a_snapshot_that_expires_while_duckdb_opens_its_files_is_told(empty, monkeypatch):
    table = append(empty, **{"lakehouse.read.grace": "0 s"})
    table.write(small(1))
    native_read = module.native_read

    def then_expired(*arguments: Any, **named: Any) -> Any:
        found = native_read(*arguments, **named)
        replaced_and_expired(table)
        return found

    monkeypatch.setattr("lakehouse_core.execution.engines.duckdb.views.native_read", then_expired)
    with pytest.raises(lc.SnapshotExpired, match=r"s\.t"):
        empty.sql("SELECT * FROM s.t").to_arrow()


@pytest.mark.parametrize("prefix", ["a*b-", "a[b]-"])
def test_a_file_name_with_a_sign_of_patterns_is_read_as_a_stream(empty, prefix):
    append(empty, **{"data-file.prefix": prefix}).write(small(1))

    assert splits_of(empty, "SELECT * FROM s.t") == (0, 1)
    assert empty.sql("SELECT id FROM s.t").to_arrow().column("id").to_pylist() == [1]


def test_first_rows_are_read_as_a_stream_that_ends(empty):
    append(empty).write(small(*range(12)))

    assert splits_of(empty, "SELECT * FROM s.t LIMIT 2") == (0, 3)
    assert splits_of(empty, "SELECT count(*) FROM s.t LIMIT 2") == (3, 0)
    assert splits_of(empty, "SELECT id FROM s.t ORDER BY id LIMIT 2") == (3, 0)


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[b]c", "it's"])
def test_a_folder_with_a_sign_of_patterns_or_quotes_is_read(tmp_path, name):
    catalog = lc.connect(tmp_path / name)
    catalog.create_database("s")
    append(catalog).write(small(1, 2, 5))

    assert catalog.sql("SELECT id FROM s.t ORDER BY id").to_arrow().column("id").to_pylist() == [1, 2, 5]


def test_a_warehouse_behind_a_link_is_read(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    catalog = lc.connect(tmp_path / "link")
    catalog.create_database("s")
    append(catalog).write(small(1))

    assert splits_of(catalog, "SELECT * FROM s.t") == (1, 0)
    assert catalog.sql("SELECT * FROM s.t").to_arrow().num_rows == 1


def test_an_answer_within_a_query_is_read(empty):
    append(empty).write(small(*range(20)))
    inner = empty.sql("SELECT id FROM s.t WHERE id > 3")

    found = empty.sql("SELECT count(*) AS n FROM s.t JOIN i ON i.id = t.id", tables={"i": inner})
    assert found.to_arrow().to_pylist() == [{"n": 16}]


def test_a_store_in_memory_is_read_as_streams():
    catalog = lc.connect("memory://")
    catalog.create_database("s")
    append(catalog).write(small(1, 2))

    assert splits_of(catalog, "SELECT * FROM s.t") == (0, 2)
