"""delta-rs as a side of `row_changes`: carries out one JSON request per line and tells what each took.

It runs in an environment of its own, so only what that one has is imported.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import deltalake
import pyarrow as pa

from benchmarks import _measure as measure

# As files of tables here are compressed; its own default is Snappy.
ZSTD = deltalake.WriterProperties(compression="ZSTD", compression_level=1)


def fill(table: str, file: str) -> None:
    """Make the table with one commit for each batch of the Arrow file."""
    with pa.ipc.open_file(file) as batches:
        for number in range(batches.num_record_batches):
            batch = pa.Table.from_batches([batches.get_batch(number)])
            deltalake.write_deltalake(table, batch, mode="append", writer_properties=ZSTD)


def delete(table: str, where: str) -> int:
    done: dict[str, Any] = deltalake.DeltaTable(table).delete(where, writer_properties=ZSTD)
    return int(done["num_deleted_rows"])


def merge(table: str, file: str, computed: dict[str, str] | None) -> int:
    """Merge the rows of the Arrow file by `k`: update those that match, insert the others. `computed`: the values of
    an update, None: those of the file.
    """
    with pa.ipc.open_file(file) as batches:
        source = batches.read_all()
    merging = deltalake.DeltaTable(table).merge(
        source, "t.k = s.k", source_alias="s", target_alias="t", writer_properties=ZSTD
    )
    merging = merging.when_matched_update_all() if computed is None else merging.when_matched_update(computed)
    done: dict[str, Any] = merging.when_not_matched_insert_all().execute()
    return int(done["num_target_rows_updated"]) + int(done["num_target_rows_inserted"])


def main() -> None:
    """Serve requests `[verb, argument, …]` until the input ends."""
    verbs: dict[str, Callable[..., object]] = {"fill": fill, "delete": delete, "merge": merge}
    for line in sys.stdin:
        verb, *values = json.loads(line)
        taken = measure.sample(partial(verbs[verb], *values))
        answer = {"wall": taken.wall_seconds, "cpu": taken.cpu_seconds, "value": taken.value}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
