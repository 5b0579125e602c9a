"""A write of 1 M rows into a table with dynamic buckets that has 100 M keys: what it takes to look in the index files.

The index files are made for this, and the rows of their keys are not: a write reads indexes only. New keys are compared
with the same write into an empty table, known ones, which are in every bucket, with one to as many fixed buckets. Each
write runs in a new process.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import lakehouse_core as lc
from benchmarks import _measure as measure
from lakehouse_core.format.binary_row import hash_rows
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.format.hash_index import encode_hashes
from lakehouse_core.table.index_file import IndexFile

COLUMNS = {"id": "BIGINT NOT NULL", "day": "INT", "name": "STRING", "price": "DOUBLE"}
BUCKET_KEYS = 2_000_000  # dynamic-bucket.target-row-num
# The bars are those of the design: CPU seconds and MB that the indexes add to the write.
MUST_SECONDS, AIM_SECONDS, MUST_MEGABYTES, AIM_MEGABYTES = 2, 1.5, 64, 48


def main() -> None:
    arguments = measure.arguments(__doc__, rounds=3)
    keys, rows = measure.scaled(100_000_000, arguments), measure.scaled(1_000_000, arguments)
    measure.print_header(
        "Key indexes", data=f"{rows:,} rows of 4 columns in random order, {keys:,} keys in the indexes"
    )
    table_rows, bars = [], []
    with tempfile.TemporaryDirectory() as folder:
        buckets = make(folder, keys)
        for kind, first, without in (("new keys", keys, "empty"), ("known keys", 0, "fixed")):
            found = {}
            for name in ("indexed", without):
                taken = [written(folder, name, first, keys, rows) for _ in range(arguments.rounds)]
                (files,) = {one.value[1] for one in taken}
                # Known keys must have been found in every index.
                assert kind == "new keys" or files == buckets, (kind, name, files)
                found[name] = min(one.value[0] for one in taken), max(one.peak_bytes for one in taken) / 1e6
                table_rows.append((kind, name, files, f"{found[name][0]:.2f}", f"{found[name][1]:.0f}"))
            seconds, megabytes = (more - less for more, less in zip(*found.values(), strict=True))
            bars.append(measure.Bar(f"{kind} (CPU)", seconds, MUST_SECONDS, AIM_SECONDS, unit=" s"))
            bars.append(measure.Bar(f"{kind} (memory)", megabytes, MUST_MEGABYTES, AIM_MEGABYTES, unit=" MB"))
    measure.print_rows(
        f"a write of {rows:,} rows, {buckets} buckets", ("", "table", "files", "CPU s", "MB in all"), table_rows
    )
    measure.print_bars(bars)


def make(folder: str, keys: int) -> int:
    """Make a table with an index of so many keys and two without; return the number of buckets."""
    catalog = lc.connect(folder)
    catalog.create_database("db")
    random = np.random.default_rng(1)
    hashes = np.unique(np.concatenate([hashes_of(first, keys) for first in range(0, keys, BUCKET_KEYS)]))
    random.shuffle(hashes)
    buckets = -(-len(hashes) // BUCKET_KEYS)
    for name, count in (("indexed", -1), ("empty", -1), ("fixed", buckets)):
        catalog.create_table(
            f"db.{name}", COLUMNS, primary_keys=["id"], options={"bucket": str(count), "write-only": "true"}
        )
    table = catalog.table("db.indexed")
    # Buckets with an index and without data, but for the row of this commit.
    staged = table.stage(rows_of(np.zeros(1, np.int64)), commit_user="benchmark", commit_identifier=1)
    (message,) = staged.messages
    (given,) = message.new_index_files
    messages = []
    for bucket in range(buckets):
        of_bucket = np.sort(hashes[bucket * BUCKET_KEYS : (bucket + 1) * BUCKET_KEYS])
        data = encode_hashes(of_bucket)
        file: IndexFile = replace(
            given, file_name=f"index-made-{bucket}", file_size=len(data), row_count=len(of_bucket)
        )
        (Path(folder) / "db.db" / "indexed" / "index" / file.file_name).write_bytes(data)
        own = message if bucket == 0 else replace(message, new_files=())
        messages.append(replace(own, bucket=bucket, new_index_files=(file,)))
    table.commit(replace(staged, messages=tuple(messages)))
    return buckets


def hashes_of(first: int, keys: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Return the hashes of the next keys from `first` on, as the format defines them."""
    numbers = pa.array(np.arange(first, min(first + BUCKET_KEYS, keys)))
    return hash_rows([numbers], [parse_type("BIGINT")])


def written(folder: str, name: str, first: int, keys: int, rows: int) -> measure.Fresh:
    """Write to a table that is as it was made, and leave it so."""
    taken = measure.fresh(write, folder, name, first, keys, rows)
    table = lc.connect(folder).table(f"db.{name}")
    if name == "indexed":
        table.rollback_to(1)
    else:
        table.truncate()
    return taken


def write(folder: str, name: str, first: int, keys: int, rows: int) -> tuple[float, int]:
    """Write `rows` of the `keys` keys from `first` on, drawn once each; return the CPU seconds and the files added."""
    numbers = first + np.unique(np.random.default_rng(2).integers(0, keys, rows + rows // 10))
    data = rows_of(np.random.default_rng(3).permutation(numbers)[:rows])
    table = lc.connect(Path(folder)).table(f"db.{name}")
    taken = measure.sample(lambda: table.write(data))
    return taken.cpu_seconds, taken.value.files_added


def rows_of(keys: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Table:
    names = pa.array([f"name {number}" for number in range(1000)])
    return pa.table(
        {
            "id": keys,
            "day": pa.array(keys % 10, pa.int32()),
            "name": names.take(pa.array(keys % 1000)),
            "price": np.random.default_rng(4).random(len(keys)),
        }
    )


if __name__ == "__main__":
    main()
