"""Files of rows, given to the writing verbs."""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc

ROWS = [{"id": 1, "status": "new"}, {"id": 2, "status": None}]


def csv(path: Path) -> None:
    path.write_text("id,status\n1,new\n2,\n")


def packed_csv(path: Path) -> None:
    path.write_bytes(gzip.compress(b"id,status\n1,new\n2,\n"))


def tsv(path: Path) -> None:
    path.write_text("status\tid\nnew\t1\n\t2\n")


def json_lines(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def json_array(path: Path) -> None:
    path.write_text(json.dumps(ROWS))


def parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def arrow(path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


@pytest.fixture
def orders(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(tmp_path / "warehouse")
    catalog.create_database("sales")
    columns = {"id": "BIGINT NOT NULL", "status": "STRING"}
    return catalog.create_table("sales.orders", columns, primary_keys=["id"], options={"bucket": "1"})


def rows_of(table: lc.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("rows.csv", csv),
        ("rows.csv.gz", packed_csv),
        ("rows.tsv", tsv),
        ("rows.jsonl", json_lines),
        ("rows.ndjson", json_lines),
        ("rows.json", json_array),
        ("rows.parquet", parquet),
        ("rows.arrow", arrow),
    ],
)
def test_each_format_gives_the_rows_of_the_table(
    orders: lc.Table, tmp_path: Path, name: str, make: Callable[..., None]
):
    make(tmp_path / name)

    report = orders.write(lc.RowFiles(tmp_path / name))

    assert report.rows_added == 2
    assert rows_of(orders) == ROWS


def test_files_are_read_one_after_the_other_and_the_last_row_of_a_key_wins(orders: lc.Table, tmp_path: Path):
    (tmp_path / "b.txt").write_text("id;status\n1;old\n3;NA\n")
    (tmp_path / "a.txt").write_text("id;status\n1;newer\n")

    orders.write(lc.RowFiles([tmp_path / "b.txt", str(tmp_path / "a.txt")], format="csv", delimiter=";", null="NA"))

    assert rows_of(orders) == [{"id": 1, "status": "newer"}, {"id": 3, "status": None}]


def test_staging_and_overwriting_take_files_too(orders: lc.Table, tmp_path: Path):
    csv(tmp_path / "rows.csv")
    (tmp_path / "kinds.csv").write_text("kind,id\n-D,1\n")
    files = lc.RowFiles(tmp_path / "rows.csv")

    orders.commit(orders.stage(files, commit_user="me", commit_identifier=0))
    orders.overwrite(pickle.loads(pickle.dumps(files)))
    orders.write(lc.RowFiles(tmp_path / "kinds.csv"), rowkind_column="kind")

    assert rows_of(orders) == [{"id": 2, "status": None}]


@pytest.mark.parametrize(
    ("content", "options", "fault"),
    [
        ("id,status\n1,new\nx,new\n", {}, r"rows\.csv: .*Row 1, column 'id': .*'x'"),
        ("id,status\n1\n", {}, r"rows\.csv: Line 2: found 1 fields, expected 2 .*choose another delimiter"),
        ("id\n1\n", {"missing": "error"}, r"rows\.csv: .*status"),
        (None, {}, r"rows\.csv: the file does not exist"),
    ],
)
def test_a_file_that_cannot_be_taken_is_named_and_nothing_is_written(
    orders: lc.Table, tmp_path: Path, content: str | None, options: dict[str, Any], fault: str
):
    if content is not None:
        (tmp_path / "rows.csv").write_text(content)

    with pytest.raises(lc.InvalidRequest, match=fault):
        orders.write(lc.RowFiles(tmp_path / "rows.csv"), **options)

    assert (orders.snapshot(), orders.files()) == (None, [])


@pytest.mark.parametrize(
    ("arguments", "options", "fault"),
    [
        ([7], {}, r"RowFiles\(7\): expected a path, or a list of paths"),
        ([["a.csv", None]], {}, "expected a path, or a list of paths"),
        ([""], {}, "expected a path, or a list of paths"),
        (["-"], {}, "Only the shell reads standard input"),
        (["a.csv"], {"format": "xml"}, r"format='xml'\): expected one of parquet, csv"),
        (["a.csv"], {"delimiter": ";;"}, r"RowFiles\(delimiter=…\) ';;': expected one character"),
        (["a.csv"], {"delimiter": 7}, r"RowFiles\(delimiter=…\) 7: expected one character"),
        (["a.csv"], {"null": None}, r"RowFiles\(null=None\): expected a text"),
    ],
)
def test_what_names_no_files_is_refused_when_it_is_made(arguments: list[Any], options: dict[str, Any], fault: str):
    with pytest.raises(lc.InvalidRequest, match=fault):
        lc.RowFiles(*arguments, **options)


def test_an_ending_that_means_no_format_is_refused_before_anything_is_read(orders: lc.Table, tmp_path: Path):
    (tmp_path / "rows.txt").write_text("id\n1\n")

    with pytest.raises(
        lc.InvalidRequest, match=r"rows\.txt: expected a name that ends with one of .*its format \(--format"
    ):
        orders.write(lc.RowFiles(tmp_path / "rows.txt"))
