"""Rows by their keys: what users may ask, what they get, and what it takes."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc
from lakehouse_core.api.table import Table
from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.execution.lookup import bucket as lookup_task
from lakehouse_core.execution.lookup import lookup as execution_lookup
from lakehouse_core.execution.lookup import process_directory
from lakehouse_core.table import sorted_run

ORDERS = {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING", "amount": "DECIMAL(12, 2)"}
DAY = date(2013, 1, 1)


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(tmp_path / "wh")
    catalog.create_database("db")
    return catalog


@pytest.fixture
def orders(catalog: lc.Catalog) -> Table:
    """Two days, three orders: one in a level-0 file over an older version of it."""
    table = catalog.create_table(
        "db.orders", ORDERS, partition_keys=["dt"], primary_keys=["dt", "id"], options={"bucket": "2"}
    )
    table.write([order(1, "new"), order(2, "new"), order(3, "new", day=date(2013, 1, 2))])
    table.compact(full=True)
    table.write([order(1, "paid")])
    return table


@pytest.fixture
def numbers(catalog: lc.Catalog) -> Table:
    """One file of 100,000 even keys in ten row groups, written as others write it."""
    table = catalog.create_table(
        "db.numbers", {"k": "BIGINT NOT NULL", "v": "BIGINT"}, primary_keys=["k"], options={"bucket": "1"}
    )
    keys = np.arange(0, 200_000, 2)
    table.write(pa.table({"k": keys, "v": keys * 10}))
    return table


def order(number: int, status: str, day: date = DAY) -> dict[str, object]:
    return {"dt": day, "id": number, "status": status, "amount": Decimal("1.50")}


KEYS = [(DAY, 2), (DAY, 9), (DAY, 1), (DAY, 2), (date(2013, 1, 2), 3), (date(2014, 1, 1), 1)]


@pytest.mark.parametrize(
    "keys",
    [
        KEYS,
        [{"id": number, "dt": day} for day, number in KEYS],
        [{"id": str(number), "dt": day.isoformat(), "note": None} for day, number in KEYS],
        pa.table({"id": [number for _, number in KEYS], "dt": [day for day, _ in KEYS], "note": [None] * len(KEYS)}),
        pa.RecordBatch.from_pydict({"dt": [day for day, _ in KEYS], "id": pa.array([n for _, n in KEYS], pa.int8())}),
    ],
    ids=["tuples", "dicts", "texts", "table", "batch"],
)
def test_rows_come_in_the_order_of_their_keys_and_keys_that_are_not_there_have_none(orders, keys):
    found = orders.lookup(keys, columns=["id", "status"])

    assert found.to_pylist() == [
        {"id": 2, "status": "new"},
        {"id": 1, "status": "paid"},
        {"id": 2, "status": "new"},
        {"id": 3, "status": "new"},
    ]


def test_aligned_rows_stand_where_their_keys_stood(orders):
    found = orders.lookup(KEYS, columns=["status"], aligned=True)

    assert found.column("status").to_pylist() == ["new", None, "paid", "new", "new", None]


def test_all_columns_come_in_the_types_of_a_scan(orders):
    found = orders.lookup([(DAY, 1)])

    assert found.schema == orders.scan().schema()
    assert found.to_pylist() == [order(1, "paid")]
    assert orders.lookup([]).schema == found.schema
    assert orders.lookup([], aligned=True).num_rows == 0


@pytest.mark.parametrize("keys", [[2, 5, 4], (2, 5, 4), pa.array([2, 5, 4]), pa.chunked_array([[2, 5], [4]])])
def test_a_key_of_one_column_may_be_given_as_plain_values(numbers, keys):
    assert numbers.lookup(keys).to_pylist() == [{"k": 2, "v": 20}, {"k": 4, "v": 40}]


def test_an_earlier_state_is_asked_with_at(orders):
    orders.create_tag("before", at=1)

    for at in (lc.AtSnapshot(2), lc.AtTag("before")):
        assert orders.lookup([(DAY, 1)], ["status"], at).to_pylist() == [{"status": "new"}]


def test_a_table_without_snapshots_has_no_rows(catalog):
    table = catalog.create_table("db.t", ORDERS, primary_keys=["dt", "id"], options={"bucket": "2"})

    with table.lookups() as lookups:
        assert lookups.snapshot_id is None
        assert lookups.get(KEYS).num_rows == 0
        table.write([order(1, "new")])
        assert lookups.refresh() == 1
        assert lookups.get(KEYS).num_rows == 1


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([{"id": 1}], r"keys: there is no column 'dt', which is DATE NOT NULL and part of the primary key \(dt, id\)"),
        (pa.table({"dt": [DAY]}), "keys: there is no column 'id', which is BIGINT NOT NULL"),
        ([(DAY, 1), (DAY, None)], "keys: row 1 has null for 'id'"),
        (pa.table({"dt": [DAY, None], "id": [1, 1]}), "keys: row 1 has null for 'dt'"),
        ([(DAY, 1), (DAY,)], "keys: row 1 has 1 values, but the primary key has 2 columns: dt, id"),
        ([1, 2], "keys: the primary key has the columns dt, id: give tuples of them"),
        (pa.array([1]), "keys: the primary key has the columns dt, id: give tuples of them"),
        ([(DAY, "one")], "keys: Row 0, column 'id'"),
        ([(DAY, 2**63)], "keys: Row 0, column 'id'"),
        (
            pa.table({"dt": [DAY], "id": ["1"]}),
            "keys: Column 'id' is BIGINT NOT NULL and the data has string: cast it to int64 first",
        ),
        (
            pa.table({"dt": [DAY], "id": [1.5]}),
            "keys: Row 0, column 'id': 1.5 does not fit BIGINT without loss. No row can have this value",
        ),
        ([{"dt": DAY, "id": 1}, (DAY, 1)], "keys: found rows of different kinds"),
        (None, "keys: NoneType: expected an Arrow table or column"),
        ("key", "keys: str: expected an Arrow table or column"),
    ],
)
def test_keys_that_do_not_fit_are_refused(orders, keys, message):
    with pytest.raises(lc.InvalidRequest, match=f"db.orders: {message}"):
        orders.lookup(keys)
    with orders.lookups() as lookups, pytest.raises(lc.InvalidRequest, match=message):
        lookups.get(keys)


def test_what_has_no_rows_of_a_name_is_refused(catalog, orders):
    table = catalog.create_table("db.log", ORDERS)

    for ask in (lambda: table.lookup([1]), table.lookups):
        with pytest.raises(lc.InvalidRequest, match=r"db.log: the table has no primary key"):
            ask()
    with pytest.raises(lc.InvalidRequest, match="means changes, not a state"):
        orders.lookups(at=lc.LatestDelta())
    with pytest.raises(lc.InvalidRequest, match="there is no column 'amuont'"):
        orders.lookup(KEYS, columns=["amuont"])
    with pytest.raises(lc.NotFound):
        orders.lookup(KEYS, at=lc.AtSnapshot(9))


@pytest.mark.parametrize("cache", [5, b"folder", ""])
def test_what_is_no_directory_is_refused_before_anything_is_made(orders, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())

    for ask in (lambda: orders.lookup(KEYS, cache=cache), lambda: orders.lookups(cache=cache)):
        with pytest.raises(lc.InvalidRequest, match=r"db.orders: cache=.*: expected the path of a directory"):
            ask()
    assert set(tmp_path.iterdir()) == before


def test_aligned_is_a_claim(orders):
    with pytest.raises(lc.InvalidRequest, match=r"db.orders: lookup\(aligned='no'\): expected True or False"):
        orders.lookup(KEYS, aligned="no")


def test_closed_lookups_answer_no_more(orders):
    with orders.lookups() as lookups:
        assert repr(lookups) == "Lookups('db.orders', snapshot 3)"

    with pytest.raises(lc.InvalidRequest, match="This lookup handle is closed"):
        lookups.get(KEYS)
    assert repr(lookups) == "Lookups('db.orders', closed)"


def test_a_refresh_sees_the_newest_snapshot_and_keeps_what_it_has_of_files_that_stay(orders, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    with orders.lookups(["status"], cache=cache) as lookups:
        lookups.get(KEYS)
        built = {path.name: path.stat().st_ino for path in cache.iterdir()}
        orders.write([order(3, "paid", day=date(2013, 1, 2))])
        assert lookups.get([(date(2013, 1, 2), 3)]).to_pylist() == [{"status": "new"}]

        assert lookups.refresh() == lookups.snapshot_id == 4
        assert lookups.get([(date(2013, 1, 2), 3)]).to_pylist() == [{"status": "paid"}]
        lookups.get(KEYS)
        assert built.items() <= {path.name: path.stat().st_ino for path in cache.iterdir()}.items()

        orders.compact(full=True)
        lookups.refresh()
        assert not built.keys() & {path.name for path in cache.iterdir()}
        assert lookups.get(KEYS).num_rows == 4


def test_warm_lookups_plan_nothing_and_open_no_data_file(orders, monkeypatch):
    with orders.lookups() as lookups:
        expected = lookups.get(KEYS)

        def refused(*_: object, **__: object) -> None:
            raise AssertionError("asked again")

        monkeypatch.setattr(execution_lookup, "plan_read", refused)
        monkeypatch.setattr(lookup_task.BucketFiles, "open", refused)
        assert lookups.get(KEYS) == expected


def test_the_smallest_and_the_greatest_key_of_a_file_are_decoded_once(catalog, monkeypatch):
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("db.t", {"k": "STRING NOT NULL"}, primary_keys=["k"], options=options)
    table.write([{"k": "a"}, {"k": "c"}])
    table.write([{"k": "b"}, {"k": "d"}])
    decoded: list[bytes] = []
    decode = sorted_run.deserialize_row
    monkeypatch.setattr(sorted_run, "deserialize_row", lambda key, types: decoded.append(key) or decode(key, types))

    with table.lookups() as lookups:
        sorted_run._key.cache_clear()
        decoded.clear()
        assert lookups.get(["a", "d"]).num_rows == 2
        assert lookups.get(["b", "c"]).num_rows == 2

    assert 0 < len(decoded) == len(set(decoded))


def test_rows_are_found_by_numbers_that_are_none_and_by_times_of_any_digit(catalog):
    columns = {"x": "DOUBLE NOT NULL", "at": "TIMESTAMP(9) NOT NULL", "v": "INT"}
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("db.t", columns, primary_keys=["x", "at"], options=options)
    numbers = [float("-inf"), -0.5, 1.5, float("inf"), float("nan")]
    keys = pa.table({"x": numbers, "at": pa.array([-1, 0, 1, 10**18 + 7, 5], pa.timestamp("ns"))})
    table.write(keys.append_column("v", pa.array(range(5), pa.int32())))
    table.write(keys.slice(3).append_column("v", pa.array([30, 40], pa.int32())))

    assert table.lookup(keys).column("v").to_pylist() == [0, 1, 2, 30, 40]


def test_a_lookup_reads_the_columns_asked_for_and_what_merging_needs_besides(orders, monkeypatch):
    read: list[list[str]] = []
    batches = ParquetFileReader.batches
    monkeypatch.setattr(
        ParquetFileReader,
        "batches",
        lambda reader, fields, **how: read.append([field.name for field in fields]) or batches(reader, fields, **how),
    )

    assert orders.lookup([(DAY, 1)], ["status"]).to_pylist() == [{"status": "paid"}]
    assert read == [["status", "id"]]


@pytest.mark.damage
def test_a_local_file_that_was_damaged_is_built_again(orders, tmp_path):
    cache = tmp_path / "cache"
    expected = orders.lookup(KEYS, cache=cache)
    for path in cache.iterdir():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:100] + b"?" + data[101:])

    assert lc.connect(tmp_path / "wh").table("db.orders").lookup(KEYS, cache=cache) == expected
    assert lc.connect(tmp_path / "wh").table("db.orders").lookup(KEYS, cache=cache) == expected


@pytest.mark.damage
@pytest.mark.parametrize("change", ["another byte", "cut"])
def test_a_local_file_that_is_changed_in_place_while_it_is_open_is_built_again(numbers, tmp_path, change):
    cache = tmp_path / "cache"
    with numbers.lookups(cache=cache) as lookups:
        every = list(range(0, 200_000, 2))
        assert lookups.get(every).column("v").to_pylist() == [key * 10 for key in every]
        (path,) = cache.iterdir()
        if change == "cut":
            os.truncate(path, 100)
        else:
            value = (77_780).to_bytes(8, "little")
            with path.open("r+b") as file:
                file.seek(path.read_bytes().index(value))
                file.write((66_660).to_bytes(8, "little"))

        assert lookups.get([7_776, 7_778]).column("v").to_pylist() == [77_760, 77_780]
        assert lookups.get(every).column("v").to_pylist() == [key * 10 for key in every]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
        {"merge-engine": "partial-update"},
    ],
    ids=["deduplicate", "aggregation", "partial-update"],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in their order", "the other way"])
@pytest.mark.parametrize("keys", [([1], [1]), ([2], [2, 1]), ([1, 2, 3], [2]), ([2, 9], [1, 2])], ids=str)
def test_versions_of_equal_number_are_told_apart_alike_by_reads_compactions_and_lookups(catalog, options, order, keys):
    options = {"bucket": "1", "write-only": "true", **options}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
    staged = [
        table.stage([{"k": k, "v": f"{writer}{k}"} for k in some], commit_user=f"u{writer}", commit_identifier=1)
        for writer, some in enumerate(keys)
    ]
    for number in order:
        table.commit(staged[number])

    read = table.scan().to_arrow().sort_by("k").to_pylist()

    assert table.lookup(sorted({*keys[0], *keys[1]})).to_pylist() == read
    table.compact(full=True)
    assert table.scan().to_arrow().sort_by("k").to_pylist() == read


def test_few_keys_of_a_large_file_are_read_from_the_row_groups_that_may_hold_them(catalog, tmp_path):
    table = catalog.create_table(
        "db.big", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1"}
    )
    keys = np.arange(0, 4_000_000, 2, dtype=np.int32)
    table.write(pa.table({"k": keys, "v": keys}))
    (file,) = table.files()
    groups = pq.read_metadata(tmp_path / "wh" / "db.db" / "big" / file.path).num_row_groups
    assert groups > 10
    cache = tmp_path / "cache"

    with table.lookups(cache=cache) as lookups:
        assert lookups.get([2_000_000, 2_000_001]).to_pylist() == [{"k": 2_000_000, "v": 2_000_000}]
        assert list(cache.iterdir()) == []
        assert lookups.get([0, 1_000_000, 3_999_998]).column("k").to_pylist() == [0, 1_000_000, 3_999_998]
        assert len(list(cache.iterdir())) == 1
        assert lookups.get(pa.array(keys[::-7])).column("k").to_pylist() == keys[::-7].tolist()


def test_the_options_of_the_table_bound_the_local_files(numbers, tmp_path):
    numbers.alter(lc.SetOption("lookup.cache-max-disk-size", "100 kb"))
    cache = tmp_path / "cache"

    assert numbers.lookup(pa.array(range(0, 200_000, 2_000)), cache=cache).num_rows == 100
    assert list(cache.iterdir()) == []

    numbers.alter(lc.SetOption("lookup.cache-max-disk-size", "100 mb"))
    assert numbers.lookup(pa.array(range(0, 200_000, 2_000)), cache=cache).num_rows == 100
    assert len(list(cache.iterdir())) == 1


def test_a_snapshot_that_has_expired_is_told_as_such(catalog, tmp_path):
    options = {"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    table.write([{"k": 1}])
    lookups = table.lookups(cache=tmp_path / "cache")
    table.write([{"k": 2}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)

    with pytest.raises(lc.SnapshotExpired):
        lookups.get([1])
    lookups.refresh()
    assert lookups.get([1]).num_rows == 1


def test_a_file_whose_bloom_filter_denies_the_keys_is_not_opened(catalog, tmp_path, monkeypatch):
    options = {"bucket": "1", "file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 b"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    table.write(pa.table({"k": pa.array(range(0, 2000, 2), pa.int32())}))
    opened: list[str] = []
    open_file = lookup_task.BucketFiles.open
    monkeypatch.setattr(
        lookup_task.BucketFiles, "open", lambda files, file: opened.append(file.file_name) or open_file(files, file)
    )

    assert table.lookup([1, 3], cache=tmp_path / "cache").num_rows == 0
    assert opened == []
    assert table.lookup([1, 4], cache=tmp_path / "cache").num_rows == 1
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("options", "most"), [({}, 60), ({"lookup.cache.bloom.filter.enabled": "false"}, 600)], ids=["filter", "none"]
)
def test_a_file_that_was_searched_in_vain_often_enough_gets_a_filter(catalog, tmp_path, monkeypatch, options, most):
    table = catalog.create_table(
        "db.t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", **options}
    )
    table.write(pa.table({"k": pa.array(range(0, 6000, 2), pa.int32()), "v": pa.array(range(3000), pa.int32())}))
    counts: list[int] = []
    search = lookup_task.search

    def counted(rows, keys):
        counts[-1] += keys.row_count if rows.row_count == 3000 else 0
        return search(rows, keys)

    monkeypatch.setattr(lookup_task, "search", counted)
    with table.lookups(cache=tmp_path / "cache") as lookups:
        for start in (0, 1200, 2400, 3600):
            counts.append(0)
            absent = list(range(start + 1, start + 1201, 2))
            assert lookups.get(absent).num_rows == 0
        counts.append(0)
        found = lookups.get(list(range(2000))).column("k").to_pylist()

    assert counts[:3] == [600, 600, 600]
    assert most / 4 < counts[3] <= most
    assert found == list(range(0, 2000, 2))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(3, 1), (2, 2), (1, 3), (3, 3)]),
        ({"sequence.field": "v"}, [(3, 3), (2, 3), (1, 3), (3, 3)]),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, [(6, 3), (3, 3), (1, 3), (6, 3)]),
    ],
    ids=["newest", "sequence field", "aggregation"],
)
def test_files_older_than_what_is_found_of_a_key_are_not_opened(catalog, tmp_path, monkeypatch, options, expected):
    options = {"bucket": "1", "write-only": "true", **options}
    columns = {"k": "INT NOT NULL", "v": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
    # Each file spans all keys: what they hold alone tells them apart.
    table.write([{"k": k, "v": 1} for k in (0, 1, 2, 3, 9)])
    table.write([{"k": k, "v": 2} for k in (0, 1, 2, 9)])
    table.write([{"k": k, "v": 3} for k in (0, 1, 9)])
    opened: list[str] = []
    open_file = lookup_task.BucketFiles.open
    monkeypatch.setattr(
        lookup_task.BucketFiles, "open", lambda files, file: opened.append(file.file_name) or open_file(files, file)
    )

    found = []
    for keys in ([1], [2], [3], [1, 2, 3]):
        opened.clear()
        rows = table.lookup(keys, cache=tmp_path / "-".join(map(str, keys))).to_pylist()
        found.append((max(row["v"] for row in rows), len(opened)))

    assert found == expected


def test_buckets_that_a_partition_was_written_with_are_asked_whatever_the_table_says_now(orders):
    orders.alter(lc.SetOption("bucket", "5"))
    orders.overwrite([order(7, "new", day=date(2013, 1, 3))], partition={"dt": date(2013, 1, 3)})
    keys = [*KEYS, (date(2013, 1, 3), 7)]

    assert orders.lookup(keys).column("id").to_pylist() == [2, 1, 2, 3, 7]
    with orders.lookups() as lookups:
        assert lookups.get(keys).column("id").to_pylist() == [2, 1, 2, 3, 7]


def test_rows_that_a_vector_marks_as_deleted_are_not_found_whether_copied_or_read_in_place(catalog, tmp_path):
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "compaction.force-up-level-0": "true"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options=options)
    table.write(pa.table({"k": pa.array(range(300_000), pa.int32()), "v": pa.array(range(300_000), pa.int32())}))
    table.compact(full=True)
    table.write([{"k": 7, "v": -7, "op": "+I"}, {"k": 9, "v": None, "op": "-D"}], rowkind_column="op")
    table.compact()
    assert [len(split.deletions) for split in table.scan().plan().splits] == [1]
    cache = tmp_path / "cache"

    assert table.lookup([9, 7, 8], cache=cache).to_pylist() == [{"k": 7, "v": -7}, {"k": 8, "v": 8}]
    found = table.lookup(pa.array(range(0, 300_000, 3), pa.int32()), cache=cache)
    assert found.column("k").to_pylist() == [key for key in range(0, 300_000, 3) if key != 9]
    assert table.lookup([9, 7, 8], cache=cache).to_pylist() == [{"k": 7, "v": -7}, {"k": 8, "v": 8}]


def test_those_who_share_a_directory_may_build_the_same_file_at_once(numbers, tmp_path):
    keys = pa.array(range(0, 200_000, 100))
    tables = [lc.connect(tmp_path / "wh").table("db.numbers") for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda table: table.lookup(keys, cache=tmp_path / "cache"), tables))

    assert all(rows == tables[0].scan(where=lc.col("k").isin(keys.to_pylist())).to_arrow() for rows in found)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_no_folder_for_temporary_files_is_told_and_another_directory_does(numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(process_directory.tempfile, "tempdir", str(tmp_path / "gone"))
    process_directory.process_directory.cache_clear()

    with pytest.raises(
        lc.StorageUnavailable, match=r"No such file or directory.* Set TMPDIR to another folder, or name"
    ):
        numbers.lookup([2])

    assert numbers.lookup([2], cache=tmp_path / "other").num_rows == 1
