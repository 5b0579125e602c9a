"""What listings show of values that Python itself cannot hold."""

import pyarrow as pa
import pytest

import lakehouse_core as lc

NANOS = pa.array([1_704_067_200_123_456_789], pa.timestamp("ns"))
FAR = pa.array([6_585_000], pa.int32()).cast(pa.date32())


TIMES = {
    "nanoseconds": ("TIMESTAMP(9)", NANOS, "2024-01-01 00:00:00.123456789", "TIMESTAMP "),
    "a year of five digits": ("DATE", FAR, "+19999-02-13", ""),
}


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("is_key", [True, False])
def test_files_and_conditions_show_and_take_any_time(tmp_path, time, is_key):
    kind, values, shown, type_name = time
    condition = f"{type_name}'{shown}'"
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    columns = {"id": "INT NOT NULL", "t": f"{kind} NOT NULL"}
    table = catalog.create_table("db.t", columns, primary_keys=["t" if is_key else "id"], options={"bucket": "1"})
    table.write(pa.table({"id": pa.array([1], pa.int32()), "t": values}))

    (file,) = table.files(stats=True)

    assert file.min_values["t"] == shown
    if is_key:
        assert file.min_key == (shown,)
    assert table.scan(where=f"t = {condition}").count() == 1
    assert table.scan(where=f"t < {condition}").count() == 0


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_a_number_that_became_a_time_with_more_digits_than_its_type_is_compacted_compared_and_listed(
    tmp_path, file_format
):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "1", "file.format": file_format}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "t": "BIGINT"}, primary_keys=["k"], options=options)
    table.write([{"k": 1, "t": 9_223_372_036_854_776}, {"k": 2, "t": 5}])
    table.alter(lc.UpdateColumnType("t", "TIMESTAMP(0)"))
    table.write([{"k": 3, "t": "1970-01-01 00:00:06"}])

    table.compact(full=True)

    # Java's long wraps: the lowest 64 bits of the milliseconds.
    assert table.scan().to_arrow()["t"].cast(pa.int64()).to_pylist() == [-9_223_372_036_854_775_616, 5_000, 6_000]
    assert table.scan(where="t < TIMESTAMP '1970-01-01 00:00:05'").count() == 1
    (file,) = table.files(stats=True)
    assert (file.min_values["t"], file.max_values["t"]) == ("-292275055-05-16 16:47:04", "1970-01-01 00:00:06")
