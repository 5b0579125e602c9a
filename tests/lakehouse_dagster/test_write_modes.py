"""Write modes: what the rows of a batch do to those that the table has, also after a run that died."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse_dagster import Lake, TableSpec, ingest_asset
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.pairs import each_with_one

T = "sales.t"
COLUMNS = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "v": "STRING"}


@contextmanager
def fed_by_files(folder: Path, **change: Any) -> Iterator[ReadyLake]:
    fields = {
        "database": "sales",
        "name": "t",
        "comment": "Rows.",
        "columns": COLUMNS,
        "options": {"bucket": "1"},
        "runs_on": "process",
        "files": {"path": f"{folder}/*.csv"},
        **change,
    }
    with ready_lake(Lake(name="lake", tables=[TableSpec.model_validate(fields)]), resources={}) as ready:
        yield ready


def put(folder: Path, name: str, *rows: str, header: str = "id,day,v") -> None:
    (folder / name).write_text("\n".join([header, *rows, ""]))


def rows(ready: ReadyLake) -> list[str]:
    found = ready.table(T).scan().to_arrow().to_pylist()
    return sorted(",".join(str(value) for value in row.values()) for row in found)


def stage_only(ready: ReadyLake) -> None:
    """A run that dies between staging and commit."""
    resources = {ready.lake.resource: ready.definitions.resources[ready.lake.resource]}
    assert dg.materialize(
        [ingest_asset(ready.lake, ready.lake.tables[0])], instance=ready.instance, resources=resources
    ).success


# What the specification says, the rows of two files, and those of the table after them.
MODES: list[tuple[dict[str, Any], tuple[list[str], list[str]], list[str]]] = [
    ({"write_mode": "append"}, (["1,a,x"], ["1,a,y"]), ["1,a,x", "1,a,y"]),
    ({"write_mode": "upsert", "primary_key": ["id"]}, (["1,a,x", "2,a,x"], ["1,a,y"]), ["1,a,y", "2,a,x"]),
    (
        {"write_mode": "overwrite", "partition_by": ["day"], "options": {"bucket": "-1"}},
        (["1,a,x", "2,a,x", "3,b,x"], ["4,a,y"]),
        ["3,b,x", "4,a,y"],
    ),
    (
        {"write_mode": "overwrite", "primary_key": ["id", "day"], "partition_by": ["day"]},
        (["1,a,x", "2,a,x", "3,b,x"], ["4,a,y"]),
        ["3,b,x", "4,a,y"],
    ),
    ({"write_mode": "overwrite", "options": {"bucket": "-1"}}, (["1,a,x", "3,b,x"], ["4,a,y"]), ["4,a,y"]),
]


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize(("mode", "dies"), each_with_one(MODES, [False, True]))
def test_a_write_mode_says_what_new_rows_do_to_old_ones(
    tmp_path: Path, mode: tuple[dict[str, Any], tuple[list[str], list[str]], list[str]], dies: bool
):
    change, loads, expected = mode
    with fed_by_files(tmp_path, **{"options": {"bucket": "1" if "primary_key" in change else "-1"}, **change}) as ready:
        put(tmp_path, "1.csv", *loads[0])
        if dies:
            stage_only(ready)
        else:
            ready.ingest()
        put(tmp_path, "2.csv", *loads[1])
        ready.ingest()
        ready.ingest()

        assert rows(ready) == expected
        assert all(ready.checks(T).values())


@pytest.mark.dagster
def test_rows_of_change_data_say_what_becomes_of_their_keys(tmp_path: Path):
    cdc = {"write_mode": "cdc", "rowkind_column": "op", "primary_key": ["id"]}
    with fed_by_files(tmp_path, **cdc) as ready:
        put(tmp_path, "1.csv", "1,a,x,+I", "2,a,x,+I", header="id,day,v,op")
        ready.ingest()
        put(tmp_path, "2.csv", "1,a,x,-D", "2,a,x,-U", "2,a,y,+U", header="id,day,v,op")
        put(tmp_path, "3.csv", "3,a,x,insert", header="id,day,v,op")
        ready.ingest()

        assert rows(ready) == ["2,a,y"]
        assert ready.checks(T)["files_loaded"] is False
