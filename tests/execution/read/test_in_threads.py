"""A scan on a disk lets all processors decode the columns of files that are not merged. The law: the rows are those, in
the order, that one processor reads.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc
from lakehouse_core.storage.local import LocalStore
from lakehouse_core.storage.remote.files import RangeFile

ROWS = 60_000
COLUMNS = {"k": "BIGINT", "s": "STRING", "x": "DOUBLE", "d": "DECIMAL(24, 4)", "a": "ARRAY<INT>"}
SCANS: dict[str, Callable[[lc.Table], lc.Scan]] = {
    "all": lambda table: table.scan(),
    "some columns": lambda table: table.scan(columns=["s", "a"]),
    "a condition of bounds": lambda table: table.scan(where="k < 20000"),
    "a condition of values": lambda table: table.scan(where="s = 'v7'"),
    "a limit": lambda table: table.scan(limit=5_000),
}


def filled(root: Path) -> None:
    """Make a table of three files, of which some rows are marked as deleted."""
    catalog = lc.connect(root)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, options={"deletion-vectors.enabled": "true", "bucket": "-1"})
    random = np.random.default_rng(1)
    for first in range(0, 3 * ROWS, ROWS):
        keys = np.arange(first, first + ROWS)
        table.write(
            pa.table(
                {
                    "k": keys,
                    "s": pa.array(np.char.add("v", (keys % 100).astype(str))),
                    "x": random.random(ROWS),
                    "d": pa.array(random.integers(0, 10**6, ROWS)).cast(pa.decimal128(24, 4)),
                    "a": pa.array([[int(key), None] if key % 3 else None for key in keys], pa.list_(pa.int32())),
                }
            )
        )
    table.delete("s = 'v9'")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    filled(folder)
    return folder


@pytest.mark.parametrize("name", SCANS)
def test_all_processors_read_what_one_reads(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, iter_batches = set[bool](), pq.ParquetFile.iter_batches

    def watched(file: pq.ParquetFile, *arguments: Any, **named: Any) -> Any:
        asked.add(named["use_threads"])
        return iter_batches(file, *arguments, **named)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    found = []
    for processors in ({0}, {0, 1, 2}):
        monkeypatch.setattr("os.sched_getaffinity", lambda process, processors=processors: processors)
        asked.clear()
        scan = SCANS[name](lc.connect(root).table("db.t"))
        found.append((scan.to_arrow(), pa.Table.from_batches(scan.to_batches()), scan.count()))
        assert asked == {len(processors) > 1}
    assert found[0] == found[1]
    assert found[0][0].num_rows == found[0][2] > 0


def test_a_large_object_of_a_network_is_decoded_by_one_processor_in_the_order_of_its_bytes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lc.connect(root).table("db.t").scan().to_arrow()
    used, ranges, iter_batches = set[bool](), list[int](), pq.ParquetFile.iter_batches

    def watched(file: pq.ParquetFile, *arguments: Any, **named: Any) -> Any:
        used.add(named["use_threads"])
        return iter_batches(file, *arguments, **named)

    def in_ranges(store: LocalStore, key: str, size: int | None = None) -> pa.NativeFile:
        data = store.read(key)

        def read_range(start: int, length: int) -> bytes:
            ranges.append(start)
            return data[start : start + length]

        return pa.PythonFile(RangeFile(read_range, len(data)), mode="r")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    monkeypatch.setattr(LocalStore, "open_read", in_ranges)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2})
    assert lc.connect(root).table("db.t").scan().to_arrow() == expected
    assert ranges
    assert used == {False}
