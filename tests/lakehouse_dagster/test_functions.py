"""A table that is fed by a Python function: its new rows once each, or all of them anew in each run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakehouse_dagster import Lake, TableSpec, ingest_asset
from lakehouse_dagster.testing import ReadyLake, ready_lake

T = "sales.orders"
ROWS: list[tuple[int, str]] = []
ASKED: list[object] = []


@pytest.fixture(autouse=True)
def no_rows() -> None:
    ROWS.clear()
    ASKED.clear()


def orders(since: int | None) -> Iterator[object]:
    """Rows since a cursor, each kind of frame in turn."""
    ASKED.append(since)
    kinds = (pa.Table.from_pandas, pd.DataFrame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy())
    for place, (number, note) in enumerate(sorted(row for row in ROWS if since is None or row[0] >= since)):
        yield kinds[place % len(kinds)](pd.DataFrame({"id": [number], "note": [note]}))


def everything() -> pa.Table:
    return pa.table({"id": [number for number, _ in ROWS], "note": pa.array([n for _, n in ROWS], pa.string())})


def not_rows() -> Iterator[object]:
    yield {"id": 1}


def signed(*, token: str = "hunter2") -> Iterator[object]:
    yield everything()


def other_columns() -> Iterator[object]:
    yield pa.table({"id": [1]})
    yield pa.table({"note": ["x"]})


def backwards(since: int | None) -> Iterator[object]:
    yield pa.table({"id": [2, 1]})


@contextmanager
def fed_by(call: object, **change: Any) -> Iterator[ReadyLake]:
    fields = {
        "database": "sales",
        "name": "orders",
        "comment": "Orders.",
        "columns": {"id": "BIGINT", "note": "STRING"},
        "options": {"bucket": "-1"},
        "write_mode": "append",
        "runs_on": "process",
        "function": {"call": call, "cursor": "id"},
        **change,
    }
    with ready_lake(Lake(name="lake", tables=[TableSpec.model_validate(fields)]), resources={}) as ready:
        yield ready


def notes(ready: ReadyLake) -> list[str]:
    return sorted(row["note"] for row in ready.table(T).scan().to_arrow().to_pylist())


def told_by_refusal(ready: ReadyLake) -> str:
    job = ready.definitions.resolve_job_def("lake_ingest")
    result = job.execute_in_process(instance=ready.instance, raise_on_error=False)
    assert not result.success
    return "\n".join(str(entry) for entry in ready.instance.all_logs(result.run_id))


@pytest.mark.dagster
@pytest.mark.parametrize("call", [orders, f"{__name__}.orders"])
def test_the_rows_of_a_function_are_taken_once_each(call: object):
    with fed_by(call) as ready:
        ROWS.extend([(1, "a"), (2, "b"), (2, "b"), (2, "c")])
        ready.ingest()
        ROWS.extend([(2, "d"), (3, "e")])
        resources = {ready.lake.resource: ready.definitions.resources[ready.lake.resource]}
        # A run that dies between staging and commit.
        ingest = ingest_asset(ready.lake, ready.lake.tables[0])
        assert dg.materialize([ingest], instance=ready.instance, resources=resources).success
        ROWS.append((3, "f"))
        ready.ingest()

        assert notes(ready) == ["a", "b", "b", "c", "d", "e", "f"]
        assert ASKED == [None, 2, 3]
        assert all(ready.checks(T).values())


@pytest.mark.spark
@pytest.mark.dagster
@pytest.mark.usefixtures("spark")
def test_spark_writes_the_rows_of_a_function():
    with fed_by(orders, runs_on="spark") as ready:
        ROWS.extend([(1, "a"), (2, "b")])
        ready.ingest()
        ROWS.append((2, "c"))
        ready.ingest()

        assert notes(ready) == ["a", "b", "c"]


@pytest.mark.dagster
def test_a_function_without_cursor_gives_the_whole_table_in_each_run():
    with fed_by(everything, write_mode="overwrite", function={"call": everything}) as ready:
        ROWS.extend([(1, "a"), (2, "b")])
        ready.ingest()
        ROWS[:] = [(3, "c")]
        ready.ingest()
        assert notes(ready) == ["c"]

        ROWS.clear()
        ready.ingest()
        assert notes(ready) == []


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize(
    ("function", "told"),
    [
        ({"call": "nowhere.rows"}, "function.call 'nowhere.rows': the module 'nowhere' cannot be imported"),
        ({"call": f"{__name__}.everythin"}, "'everythin' does not exist; did you mean 'everything'?"),
        ({"call": f"{__name__}.ROWS"}, "'ROWS' is not a function"),
        ({"call": not_rows}, "not_rows yields an object of <class 'dict'>, expected Arrow, pandas or polars rows."),
        ({"call": other_columns}, "other_columns yields the columns note after id. Yield the same columns each time."),
        ({"call": backwards, "cursor": "id"}, "cursor 'id': found 1 after 2, but rows are taken in its order."),
        ({"call": orders, "cursor": "at"}, "function.cursor names 'at', but"),
        ({"call": everything, "cursor": "id"}, "does not take what it is called with, the last value of its cursor ("),
        ({"call": "os.rows"}, "'rows' does not exist; there are "),
        ({"call": signed, "cursor": "id"}, "signed(*, token) does not take"),
        ({"call": orders}, "orders(since) does not take"),
    ],
)
def test_a_function_that_gives_no_such_rows_is_told(function: dict[str, object], told: str):
    ROWS.append((1, "a"))
    mode = {"write_mode": "upsert", "primary_key": ["id"], "columns": {"id": "BIGINT NOT NULL", "note": "STRING"}}
    with fed_by(None, **mode, options={"bucket": "1"}, function=function) as ready:
        logged = told_by_refusal(ready)
    assert told in logged
    assert "hunter2" not in logged


def test_a_function_that_would_be_added_again_in_each_run_is_refused():
    with (
        pytest.raises(ValueError, match="each run would add all rows of the function again"),
        fed_by(everything, function={"call": everything}),
    ):
        pass


def test_a_specification_with_a_function_has_the_digest_of_its_name():
    fields = {"database": "a", "name": "b", "comment": "", "columns": {"id": "INT"}, "write_mode": "append"}
    specs = [
        TableSpec.model_validate({**fields, "function": {"call": call, "cursor": "id"}})
        for call in (orders, f"{__name__}.orders")
    ]

    assert specs[0].digest == specs[1].digest
