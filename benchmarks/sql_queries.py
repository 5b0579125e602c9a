"""SQL without Spark and on Spark against the same queries on the same Parquet files: 22 queries derived from TPC-H.

Without Spark, append tables of one file each are what the files are; the other tables merge, or have deleted rows. A
point query by key is compared with a scan of the same row. Each query runs once before it is measured, so that what is
remembered of it counts (docs/sql.md#without-spark). Results are not comparable with published TPC-H results.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import lakehouse_core as lc
from benchmarks import _measure as measure
from benchmarks._connector_peer import session as new_session
from lakehouse_dagster.resources.java_home import ensure_java
from tests.tpc.tables import TPC_H

POINT = "SELECT * FROM h.orders WHERE o_orderkey = 7"


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=3)
    scale = measure.scaled(200, arguments) / 1000
    measure.print_header("SQL queries", data=f"derived from TPC-H, scale {scale}", packages=("duckdb", "pyspark"))
    bars: list[measure.Bar] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        TPC_H.generate(root, scale)
        raw, merged = lc.connect(root / "raw"), lc.connect(root / "merged")
        _load_raw(raw, root)
        TPC_H.load(merged, root)
        with _plain(root / "raw") as plain:
            bars += _without_spark(raw, merged, plain, arguments.rounds)
            bars += _point_query(merged, arguments.rounds)
        shutil.rmtree(root / "merged")
        bars += _on_spark(root / "raw", arguments.rounds)
    measure.print_bars(bars)


def _load_raw(catalog: lc.Catalog, files: Path) -> None:
    catalog.create_database("h")
    for name in TPC_H.kinds:
        rows = pq.read_table(files / f"{name}.parquet")
        catalog.create_table(f"h.{name}", rows.schema, options={"write-only": "true"}).write(rows)


def _files(warehouse: Path, name: str) -> list[str]:
    return sorted(map(str, warehouse.glob(f"h.db/{name}/bucket-*/*.parquet")))


def _plain(warehouse: Path) -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the data files of the tables as views, and no table of ours."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA h")
    for name in TPC_H.kinds:
        connection.execute(f"CREATE VIEW h.{name} AS SELECT * FROM read_parquet({_files(warehouse, name)})")
    return connection


def _without_spark(
    raw: lc.Catalog, merged: lc.Catalog, plain: duckdb.DuckDBPyConnection, rounds: int
) -> list[measure.Bar]:
    def sides(query: str) -> dict[str, Callable[[], object]]:
        return {
            "plain": lambda: plain.sql(query).to_arrow_table(),
            "append": lambda: raw.sql(query).to_arrow(),
            "merged": lambda: merged.sql(query).to_arrow(),
        }

    worst, totals = 0.0, dict.fromkeys(("plain", "append", "merged"), 0.0)
    for title, query in TPC_H.queries():
        series = measure.interleave(sides(query), rounds=rounds)
        measure.print_table(title, series, against="plain")
        worst = max(worst, measure.cpu_ratio(series, "append", "plain"))
        for each in totals:
            totals[each] += series[each].cpu_seconds
    return [
        measure.Bar("append tables / files, all queries (CPU)", totals["append"] / totals["plain"], 1.3, 1.2),
        measure.Bar("append tables / files, worst query (CPU)", worst, 1.8, 1.5),
        measure.Bar("tables of all kinds / files, all queries (CPU)", totals["merged"] / totals["plain"], 2.9, 1.5),
    ]


def _point_query(catalog: lc.Catalog, rounds: int) -> list[measure.Bar]:
    series = measure.interleave(
        {
            "scan": lambda: catalog.table("h.orders").scan(where="o_orderkey = 7").to_arrow(),
            "sql": lambda: catalog.sql(POINT).to_arrow(),
        },
        rounds=rounds * 3,
    )
    measure.print_table("a row by its key", series, against="scan")
    above = (series["sql"].cpu_seconds - series["scan"].cpu_seconds) * 1000
    return [measure.Bar("a row by its key: SQL above the scan (CPU)", above, 25, 15, unit=" ms")]


def _on_spark(warehouse: Path, rounds: int) -> list[measure.Bar]:
    ensure_java()
    session = new_session({})
    catalog = lc.connect(warehouse, spark=session)
    for name in TPC_H.kinds:
        session.read.parquet(*_files(warehouse, name)).createOrReplaceTempView(name)
    texts = [query for _, query in TPC_H.queries()]
    series = measure.interleave(
        {
            "plain": lambda: _all(lambda query: session.sql(query.replace("h.", "")).toArrow(), texts),
            "sql": lambda: _all(lambda query: catalog.sql(query).to_arrow(), texts),
        },
        rounds=rounds,
    )
    measure.print_table("all queries on Spark", series, against="plain")
    session.stop()
    return [
        measure.Bar("on Spark / plain Parquet, all queries (CPU)", measure.cpu_ratio(series, "sql", "plain"), 1.5, 1.3)
    ]


def _all(run: Callable[[str], object], texts: list[str]) -> None:
    for text in texts:
        run(text)


if __name__ == "__main__":
    main()
