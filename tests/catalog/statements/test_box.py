"""DuckDB's box: even a text that passed all checks would reach nothing outside."""

import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_core.execution.engines.duckdb.box import boxed_connection


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('https://127.0.0.1:1/x')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/x.db' AS x",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET temp_directory = '{folder}'",
        "PRAGMA enable_profiling = 'json'",
        "SELECT * FROM hidden",
    ],
)
def test_the_box_refuses_what_reaches_outside(text, tmp_path):
    hidden = pa.table({"x": [1]})
    assert hidden.num_rows == 1
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    connection = boxed_connection(duckdb)

    with pytest.raises(duckdb.Error):
        connection.execute(text.format(file=file, folder=tmp_path)).fetchall()

    connection.close()
    assert [one.name for one in tmp_path.iterdir()] == ["secret.csv"]


def test_a_box_reads_files_in_its_folders_only(tmp_path):
    for folder in ("table", "table2"):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"x": [1]}), tmp_path / folder / "a.parquet")
    connection = boxed_connection(duckdb, [str(tmp_path / "table")])

    read = "SELECT x FROM read_parquet('{}')"
    assert connection.execute(read.format(tmp_path / "table" / "a.parquet")).fetchall() == [(1,)]
    for outside in ("table2/a.parquet", "table/../table2/a.parquet", "table*/a.parquet"):
        with pytest.raises(duckdb.PermissionException):
            connection.execute(read.format(tmp_path / outside))
    connection.close()


def test_a_box_outlives_a_fork_of_its_process(tmp_path):
    script = """
import os, sys
import lakehouse_core as lc
catalog = lc.connect(sys.argv[1])
catalog.create_database("s")
catalog.create_table("s.t", {"id": "INT"}).write([{"id": 1}])
for _ in range(2):
    assert catalog.sql("SELECT id FROM s.t").to_arrow().num_rows == 1
    child = os.fork()
    if not child:
        assert lc.connect(sys.argv[1]).sql("SELECT id FROM s.t").to_arrow().num_rows == 1
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("child", ["next(answer)", "answer.close()", "ask().close()"])
def test_a_child_of_a_process_that_reads_an_answer_does_not_wait(tmp_path, child):
    script = f"""
import os, sys
import pyarrow as pa
import lakehouse_core as lc
catalog = lc.connect(sys.argv[1])
catalog.create_database("s")
catalog.create_table("s.t", {{"id": "INT"}}).write(pa.table({{"id": pa.array(range(200_000), pa.int32())}}))
ask = lambda: catalog.sql("SELECT id FROM s.t").to_batches()
answer = ask()
rows = next(answer).num_rows
if not (pid := os.fork()):
    try:
        {child}
    except lc.InvalidRequest as error:
        assert "forked" in str(error)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert rows + sum(batch.num_rows for batch in answer) == 200_000
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
