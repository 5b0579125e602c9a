"""DuckDB's box: even a text that passed all checks would reach nothing outside."""

import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc
from lakehouse_core.execution.engines.duckdb.box import boxed_connection
from tests.limits import HANGS_AFTER_SECONDS
from tests.pairs import in_turn

# Python 3.12 and newer warn at a fork of a process with threads.
FORKING = (sys.executable, "-W", "ignore:This process:DeprecationWarning")


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
    done = subprocess.run([*FORKING, "-c", script, tmp_path], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("child", in_turn(4, ["next(answer)", "answer.close()", "ask().close()", "sys.exit(7)"]))
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
        [*FORKING, "-c", script, tmp_path],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_SECONDS,
        check=False,
    )

    # At the end of its interpreter the child tells what of DuckDB it kept, which it must not free.
    told = [line for line in done.stderr.splitlines() if "leak" not in line and "- ... skipped" not in line]
    assert (done.returncode, [line for line in told if not line.startswith("nanobind: ")]) == (0, [])
    assert not told or child == "sys.exit(7)"


@pytest.mark.parametrize("kept", ["to_batches()", "to_reader()"])
def test_a_process_ends_quietly_with_an_answer_that_is_half_read(tmp_path, kept):
    script = f"""
import sys
import pyarrow as pa
import lakehouse_core as lc
catalog = lc.connect(sys.argv[1])
catalog.create_database("s")
catalog.create_table("s.t", {{"id": "INT"}}).write(pa.table({{"id": pa.array(range(200_000), pa.int32())}}))
answer = catalog.sql("SELECT id FROM s.t").{kept}
print(next(iter(answer)).num_rows > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_more_tables_than_a_box_knows_folders_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("lakehouse_core.execution.engines.duckdb.box._MOST_FOLDERS", 4)
    catalog = lc.connect(tmp_path)
    catalog.create_database("s")
    names = [f"s.t{number}" for number in range(7)]
    for number, name in enumerate(names):
        catalog.create_table(name, {"id": "INT"}).write([{"id": number}])

    kept = catalog.sql("SELECT id FROM s.t0").to_batches()
    found = [catalog.sql(f"SELECT id FROM {name}").to_arrow().column("id").to_pylist() for name in names]
    assert found == [[number] for number in range(7)]
    together = " UNION ALL ".join(f"SELECT id FROM {name}" for name in names)
    assert catalog.sql(f"SELECT sum(id) AS s FROM ({together})").to_arrow().to_pylist() == [{"s": 7 * 3}]
    assert [batch.num_rows for batch in kept] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM parquet_scan('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM `{file}`",
        "SELECT * FROM parquet.`{file}`",
        "SELECT * FROM s.`../secret`",
        "SELECT (SELECT count(*) FROM read_text('{file}')) FROM s.t",
        "SELECT * FROM s.t, LATERAL read_parquet('{file}')",
        "SELECT * FROM s.t WHERE id IN (FROM '{file}')",
        "SELECT read_text('{file}') FROM s.t",
        "SELECT * FROM lakehouse_sql_0",
    ],
)
def test_no_text_of_a_query_reads_another_file_of_a_folder_that_the_box_reads(tmp_path, text):
    catalog = lc.connect(tmp_path)
    catalog.create_database("s")
    catalog.create_table("s.t", {"id": "INT"}).write([{"id": 1}])
    # The box knows the folder of the table now.
    assert catalog.sql("SELECT id FROM s.t").to_arrow().num_rows == 1
    file = tmp_path / "s.db" / "t" / "secret.parquet"
    pq.write_table(pa.table({"secret": ["hidden"]}), file)

    with pytest.raises(lc.LakehouseError) as error:
        catalog.sql(text.format(file=file)).to_arrow()
    assert "hidden" not in str(error.value)
