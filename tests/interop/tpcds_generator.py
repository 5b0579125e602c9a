"""The generator of TPC-DS at work, in an environment of its own. Run by `test_tpcds`, never imported.

Writes each table to the folder as `NAME.parquet`, and prints the queries as JSON: pairs of number and text.
"""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpcds


def main(folder: str, scale: str) -> None:
    (extension,) = Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dsdgen(sf = {scale})")
        for (name,) in connection.execute("SHOW TABLES").fetchall():
            connection.execute(f"COPY {name} TO '{Path(folder, name)}.parquet' (FORMAT parquet)")
        queries = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
    json.dump(queries, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
