"""DuckDB's box: even a text that passed all checks would reach nothing outside."""

import duckdb
import pyarrow as pa
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
