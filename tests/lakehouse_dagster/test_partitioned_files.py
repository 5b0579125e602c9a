"""A table that is fed by the files of its partitions: a key loads all files of it, again when it is run again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

import lakehouse_core as lc
from lakehouse_dagster import Lake, load_specs
from lakehouse_dagster.testing import ReadyLake, ready_lake

T = "sales.returns"
DAYS = {"time": {"every": "day", "start": "2013-01-01", "end": "2013-01-06", "columns": {"dt": "%Y-%m-%d"}}}
REGIONS = {"static": {"keys": ["north", "south"], "column": "region"}}
DYNAMIC = {"dynamic": {"name": "regions", "column": "region"}}
BOTH = {"multi": {"day": DAYS, "region": REGIONS}}
CDC = {"write_mode": "cdc", "rowkind_column": "kind", "primary_key": ["dt", "region", "id"], "options": {"bucket": 1}}


@contextmanager
def lake_of(folder: Path, partitions: Any, path: str, **change: Any) -> Iterator[ReadyLake]:
    fields = {
        "database": "sales",
        "name": "returns",
        "comment": "Returned orders.",
        "columns": {"dt": "DATE NOT NULL", "region": "STRING NOT NULL", "id": "BIGINT NOT NULL"},
        "partition_by": [column for column in ("dt", "region") if column in str(partitions)],
        "options": {"bucket": -1},
        "write_mode": "overwrite",
        "runs_on": "process",
        "files": {"path": path},
        "partitions": partitions,
        **change,
    }
    (folder / "returns.yaml").write_text(yaml.safe_dump(fields))
    with ready_lake(Lake(name="lake", tables=load_specs(folder)), resources={}) as ready:
        yield ready


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def run(ready: ReadyLake, key: str, last: str | None = None) -> dg.ExecuteInProcessResult:
    job = ready.definitions.resolve_job_def("lake_ingest")
    if last is None:
        return job.execute_in_process(instance=ready.instance, partition_key=key, raise_on_error=False)
    tags = {"dagster/asset_partition_range_start": key, "dagster/asset_partition_range_end": last}
    return job.execute_in_process(instance=ready.instance, tags=tags, raise_on_error=False)


def rows(ready: ReadyLake) -> list[tuple[str, str, int]]:
    found = ready.table(T).scan().to_arrow().to_pylist()
    return sorted((str(row["dt"]), row["region"], row["id"]) for row in found)


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize(
    ("partitions", "path", "keys", "files"),
    [
        pytest.param(
            *(DAYS, "in/{partition_key}/*.csv", ["2013-01-02", "2013-01-04"], ["2013-01-02/a", "2013-01-04/a"]),
            marks=pytest.mark.long,
        ),
        (DAYS, "in/{partition_key:%Y/%m/%d}*.csv", ["2013-01-02", "2013-01-04"], ["2013/01/02a", "2013/01/04b"]),
        pytest.param(
            *(REGIONS, "in/{partition_key}/*.csv", ["north", "south"], ["north/a", "south/a"]), marks=pytest.mark.long
        ),
        # Characters of patterns in a key stand for themselves.
        (DYNAMIC, "in/{partition_key}.csv", ["n*", "n[1]"], ["n*", "n[1]"]),
        (
            BOTH,
            "in/{region}/**/{day:%Y%m%d}.csv",
            ["2013-01-02|south", "2013-01-03|north"],
            ["south/x/20130102", "north/20130103"],
        ),
    ],
)
def test_a_key_of_each_kind_loads_its_files_and_replaces_its_part_when_it_is_run_again(
    tmp_path: Path, partitions: Any, path: str, keys: list[str], files: list[str]
):
    with lake_of(tmp_path, partitions, path) as ready:
        ready.instance.add_dynamic_partitions("regions", [key for key in keys if partitions is DYNAMIC])
        own = [{"dt": key[:10] if key[:2] == "20" else "2013-01-01", "region": key.rpartition("|")[2]} for key in keys]
        own = [{**part, "region": "east"} if partitions is DAYS else part for part in own]
        for number, (key, file, part) in enumerate(zip(keys, files, own, strict=True)):
            put(tmp_path / "in" / f"{file}.csv", f"dt,region,id\n{part['dt']},{part['region']},{number}\n")
            assert run(ready, key).success
        put(tmp_path / "in" / f"{files[0]}.csv", f"dt,region,id\n{own[0]['dt']},{own[0]['region']},7\n")
        assert run(ready, keys[0]).success

        assert rows(ready) == sorted((p["dt"], p["region"], n) for p, n in zip(own, (7, 1), strict=True))
        status = ready.instance.get_materialized_partitions(ready.lake.table_key(ready.lake.tables[0]))
        assert {str(key) for key in status} == {*keys}
        assert all(ready.checks(T).values())


@pytest.mark.dagster
def test_rows_take_the_values_of_their_key_where_the_files_have_none(tmp_path: Path):
    put(tmp_path / "in/2013-01-02/a.csv", "region,id\nnorth,1\n")
    put(tmp_path / "in/2013-01-02/b.jsonl", '{"dt": null, "region": "north", "id": 2}\n')
    with lake_of(tmp_path, DAYS, "in/{partition_key}/*") as ready:
        assert run(ready, "2013-01-02").success

        assert rows(ready) == [("2013-01-02", "north", 1), ("2013-01-02", "north", 2)]


@pytest.mark.dagster
def test_a_range_of_keys_is_one_run_with_a_commit_each(tmp_path: Path):
    for day in (1, 2, 3):
        put(tmp_path / f"in/2013-01-0{day}.csv", f"region,id\nnorth,{day}\n")
    with lake_of(tmp_path, DAYS, "in/{partition_key}.csv") as ready:
        assert run(ready, "2013-01-01", "2013-01-03").success

        assert len(ready.table(T).snapshots()) == 3
        assert [row[0] for row in rows(ready)] == ["2013-01-01", "2013-01-02", "2013-01-03"]


@pytest.mark.spark
@pytest.mark.dagster
@pytest.mark.usefixtures("spark")
def test_spark_writes_the_rows_of_a_partition(tmp_path: Path):
    put(tmp_path / "in/2013-01-01.csv", "region,id\nnorth,1\n")
    with lake_of(tmp_path, DAYS, "in/{partition_key}.csv", runs_on="spark") as ready:
        assert run(ready, "2013-01-01").success
        assert run(ready, "2013-01-01").success

        assert rows(ready) == [("2013-01-01", "north", 1)]


@pytest.mark.dagster
def test_row_kinds_of_files_are_merged(tmp_path: Path):
    put(tmp_path / "in/2013-01-01.csv", "kind,region,id\n+I,north,1\n+I,north,2\n-D,north,1\n")
    with lake_of(tmp_path, DAYS, "in/{partition_key}.csv", **CDC, partition_by=["dt"]) as ready:
        assert run(ready, "2013-01-01").success

        assert rows(ready) == [("2013-01-01", "north", 2)]


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "sales.returns: partition '2013-01-01': found no file "),
        ({"2013-01-01/a.csv.tmp": "half"}, "sales.returns: partition '2013-01-01': found no file "),
        ({"2013-01-01/a.csv": "region,id\nnorth,x\n"}, "a.csv: Row 0, column 'id'"),
        ({"2013-01-01/a.csv": "dt,region,id\n2013-01-02,north,1\n"}, "1 rows of other partitions, the first of dt="),
    ],
)
def test_a_partition_that_cannot_be_loaded_fails_and_keeps_what_the_table_has(
    tmp_path: Path, files: dict[str, str], told: str
):
    put(tmp_path / "in/2013-01-01/good.csv", "region,id\nnorth,1\n")
    with lake_of(tmp_path, DAYS, "in/{partition_key}/*") as ready:
        assert run(ready, "2013-01-01").success
        os.remove(tmp_path / "in/2013-01-01/good.csv")
        for name, text in files.items():
            put(tmp_path / "in" / name, text)
        result = run(ready, "2013-01-01")

        assert not result.success
        assert told in "\n".join(str(entry) for entry in ready.instance.all_logs(result.run_id))
        assert rows(ready) == [("2013-01-01", "north", 1)]


@pytest.mark.parametrize(
    ("partitions", "path", "change", "told"),
    [
        (DAYS, "in/*.csv", {}, "files.path selects the same files for each key. Use {partition_key} in it"),
        (BOTH, "in/{day}.csv", {}, "files.path selects the same files for each key. Use {region} in it"),
        (DAYS, "in/{partition_kye}.csv", {}, "files.path has {partition_kye}; did you mean 'partition_key'?"),
        (REGIONS, "in/{partition_key:%Y}.csv", {}, "files.path has a pattern of time for partition_key"),
        (None, "in/{partition_key}.csv", {}, "files.path has {partition_key}, but the table has no partitions."),
        (DAYS, "in/{partition_key}.csv", {"write_mode": "append"}, "each run of a partition would add all rows of"),
        (DAYS, "in/{partition_key}.csv", {"ingest": {"news": True}}, "ingest.news: a source of files with partitions"),
    ],
)
def test_paths_that_do_not_fit_the_partitions_are_told_with_their_line(
    tmp_path: Path, partitions: Any, path: str, change: dict[str, Any], told: str
):
    with (
        pytest.raises(lc.InvalidRequest, match=r"returns\.yaml:") as refused,
        lake_of(tmp_path, partitions, path, **change),
    ):
        pass

    assert told in str(refused.value)
