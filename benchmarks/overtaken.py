"""A commit that another overtook: its rows get higher sequence numbers first. Beside a commit that nothing overtook.

Measured is CPU time, of one process on the local disk; the ratio is to the flush of the same rows.
"""

import statistics
import tempfile
import time
from functools import partial

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure

ROWS = 1_000_000
ROUNDS = 9


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=ROUNDS)
    rows = measure.scaled(ROWS, parsed)
    measure.print_header("Overtaken commits", data=f"{rows:,} rows of one bucket, random keys, written twice")
    data = pa.table({"k": np.random.default_rng(1).permutation(rows), "v": np.arange(rows)})
    with tempfile.TemporaryDirectory() as folder:
        catalog = lc.connect(folder)
        catalog.create_database("db")
        columns = {"k": "BIGINT NOT NULL", "v": "BIGINT"}
        options = {"bucket": "1", "write-only": "true"}
        table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
        flushes: list[float] = []
        first: list[float] = []
        second: list[float] = []
        for number in range(parsed.rounds):
            users = {
                user: partial(table.stage, data, commit_user=f"{user}{number}", commit_identifier=1) for user in "ab"
            }
            staged = {}
            for user, stage in users.items():
                began = time.process_time()
                staged[user] = stage()
                flushes.append(time.process_time() - began)
            for user, seconds in (("a", first), ("b", second)):
                began = time.process_time()
                table.commit(staged[user])
                seconds.append(time.process_time() - began)
    flush, plain, overtaken = map(statistics.median, (flushes, first, second))
    measure.print_rows(
        "CPU",
        ["", "milliseconds"],
        [
            [name, f"{1000 * value:.1f}"]
            for name, value in (("flush", flush), ("commit", plain), ("overtaken", overtaken))
        ],
    )
    measure.print_bars(
        [measure.Bar("overtaken beyond a plain commit / flush", (overtaken - plain) / flush, 1.0, 0.5, "")]
    )


if __name__ == "__main__":
    main()
