"""The tables of the queries: rows by `tpcgen-cli`, as Parquet files and as tables of ours of several kinds."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow.parquet as pq

import lakehouse_core as lc

# Primary key and options.
Kind: TypeAlias = tuple[tuple[str, ...], Mapping[str, str]]
_APPEND: Kind = ((), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Queries and the tables that they ask. `name`: of the generator's data and of the file of queries."""

    name: str
    database: str
    kinds: Mapping[str, Kind]

    def queries(self) -> Iterator[tuple[str, str]]:
        """Yield what each query asks, and the query."""
        text = Path(__file__).with_name(f"{self.name}.sql").read_text()
        for block in text.split(";\n")[:-1]:
            title, _, query = block.strip().rpartition("-- ")[2].partition("\n")
            yield title, query

    def generate(self, folder: Path, scale: float) -> None:
        """Write the tables as Parquet files `NAME.parquet`; at scale 1 the greatest has 3 or 6 million rows."""
        program = Path(sys.executable).with_name("tpcgen-cli")
        tables = ",".join(self.kinds)
        command = [program, self.name, "parquet", "-s", str(scale), "-o", folder, "-q", "--tables", tables]
        subprocess.run(command, check=True)

    def load(self, catalog: lc.Catalog, files: Path) -> None:
        """Create the database with the tables, each from the Parquet file of its name."""
        catalog.create_database(self.database)
        for name, (keys, options) in self.kinds.items():
            rows = pq.read_table(files / f"{name}.parquet")
            catalog.create_table(f"{self.database}.{name}", rows.schema, primary_keys=keys, options=options).write(rows)

    def plain(self, files: Path) -> duckdb.DuckDBPyConnection:
        """Return DuckDB with the Parquet files as views of a schema with the name of the database."""
        connection = duckdb.connect()
        connection.execute(f"CREATE SCHEMA {self.database}")
        for name in self.kinds:
            view = f"CREATE VIEW {self.database}.{name} AS SELECT * FROM read_parquet('{files / name}.parquet')"
            connection.execute(view)
        return connection


# One of each kind that a reader may meet: merged, with vectors, raw.
TPC_H = Questions(
    name="tpch",
    database="h",
    kinds={
        "region": _APPEND,
        "nation": (("n_nationkey",), {"bucket": "1"}),
        "supplier": _APPEND,
        "part": ((), {"deletion-vectors.enabled": "true"}),
        "partsupp": (("ps_partkey", "ps_suppkey"), {"bucket": "1", "merge-engine": "partial-update"}),
        "customer": (("c_custkey",), {"bucket": "-1"}),
        "orders": (("o_orderkey",), {"bucket": "2"}),
        "lineitem": (("l_orderkey", "l_linenumber"), {"bucket": "2", "deletion-vectors.enabled": "true"}),
    },
)
TPC_DS = Questions(
    name="tpcds",
    database="d",
    kinds={
        "store_sales": (("ss_ticket_number", "ss_item_sk"), {"bucket": "2", "deletion-vectors.enabled": "true"}),
        "store_returns": (("sr_ticket_number", "sr_item_sk"), {"bucket": "-1"}),
        "web_sales": (("ws_order_number", "ws_item_sk"), {"bucket": "1", "merge-engine": "first-row"}),
        "item": (("i_item_sk",), {"bucket": "1"}),
        "store": _APPEND,
        "date_dim": _APPEND,
        "customer": (("c_customer_sk",), {"bucket": "1", "merge-engine": "partial-update"}),
        "customer_address": ((), {"deletion-vectors.enabled": "true"}),
        "household_demographics": _APPEND,
        "promotion": (("p_promo_sk",), {"bucket": "1"}),
        "inventory": ((), {"bucket": "2", "bucket-key": "inv_item_sk"}),
        "warehouse": _APPEND,
    },
)
