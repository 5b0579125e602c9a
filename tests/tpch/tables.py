"""The tables of the queries: rows by `tpchgen-cli`, as Parquet files and as tables of ours of several kinds."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import lakehouse_core as lc

_QUERIES = Path(__file__).with_name("queries.sql")
_APPEND: tuple[tuple[str, ...], dict[str, str]] = ((), {})
# Table → primary key and options. One of each kind that a reader may meet: merged, with vectors, raw.
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "region": _APPEND,
    "nation": (("n_nationkey",), {"bucket": "1"}),
    "supplier": _APPEND,
    "part": ((), {"deletion-vectors.enabled": "true"}),
    "partsupp": (("ps_partkey", "ps_suppkey"), {"bucket": "1", "merge-engine": "partial-update"}),
    "customer": (("c_custkey",), {"bucket": "-1"}),
    "orders": (("o_orderkey",), {"bucket": "2"}),
    "lineitem": (("l_orderkey", "l_linenumber"), {"bucket": "2", "deletion-vectors.enabled": "true"}),
}


def queries() -> Iterator[tuple[str, str]]:
    """Yield what each query asks, and the query."""
    for block in _QUERIES.read_text().split(";\n")[:-1]:
        title, _, text = block.strip().rpartition("-- ")[2].partition("\n")
        yield title, text


def generate(folder: Path, scale: float) -> None:
    """Write the eight tables as Parquet files `NAME.parquet`; at scale 1, `lineitem` has 6 million rows."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([program, "parquet", "-s", str(scale), "-o", folder, "-q"], check=True)


def load(catalog: lc.Catalog, files: Path) -> None:
    """Create database `h` with the eight tables, each from the Parquet file of its name."""
    catalog.create_database("h")
    for name, (keys, options) in KINDS.items():
        rows = pq.read_table(files / f"{name}.parquet")
        catalog.create_table(f"h.{name}", rows.schema, primary_keys=keys, options=options).write(rows)


def plain(files: Path) -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the Parquet files as views of schema `h`."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA h")
    for name in KINDS:
        connection.execute(f"CREATE VIEW h.{name} AS SELECT * FROM read_parquet('{files / name}.parquet')")
    return connection
