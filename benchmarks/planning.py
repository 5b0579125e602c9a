"""Planning a scan against the number of files: one partition of many, and everything of a very large table.

Manifests are real, data files are not there: planning never opens one. Each measured call starts from the snapshot
file, as a scan does; the large table is planned in a process of its own, which also walks through all splits.
"""

import datetime
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakehouse_core as lc
from benchmarks import _measure as measure
from lakehouse_core.clock import SystemClock
from lakehouse_core.execution.commit.snapshot_files import manifest_writer
from lakehouse_core.format.avro_container import open_container
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.storage import LocalStore
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.data_file import DataFile, SimpleStats
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.manifest import EntryKind, ManifestEntry
from lakehouse_core.table.snapshot import Snapshot

FILES = 10_000
FILES_PER_PARTITION = 100
ENTRIES = 1_000_000
BUCKETS = 16
# Of the large table's entries: so many files came and went again.
GONE = 100_000

_DATE, _KEY = parse_type("DATE"), [parse_type("BIGINT NOT NULL")]
_COLUMNS = {
    "dt": "DATE NOT NULL",
    "k": "BIGINT NOT NULL",
    "a": "INT",
    "b": "DOUBLE",
    "c": "STRING",
    "d": "TIMESTAMP(3)",
}
_TYPES = [parse_type(text) for text in _COLUMNS.values()]
_FIRST_DAY = 15706


def main() -> None:
    parsed = measure.arguments(__doc__)
    files, entries = measure.scaled(FILES, parsed), measure.scaled(ENTRIES, parsed)
    gone = entries * GONE // ENTRIES
    measure.print_header(
        "Planning",
        data=f"{files} files in {files // FILES_PER_PARTITION} partitions; {entries} manifest entries, of which {gone} "
        f"files and their deletions, {BUCKETS} buckets a partition; statistics of {len(_COLUMNS)} columns",
        notes=["floor: the same manifests read and decompressed, no entry decoded"],
    )
    root = tempfile.mkdtemp(prefix="planning-")
    day = datetime.date(2013, 1, 10)
    measure.fresh(make_table, f"{root}/small", files, 0)
    table = lc.connect(f"{root}/small").table("db.t")
    series = measure.interleave(
        {
            "one partition": lambda: walk(table.scan(where=f"dt = DATE '{day}'")),
            "one partition, one column": lambda: walk(table.scan(where=f"dt = DATE '{day}' AND a < 5")),
            "all": lambda: walk(table.scan()),
            "floor": lambda: decompress(f"{root}/small"),
        },
        rounds=parsed.rounds,
    )
    measure.print_table(f"{files} files", series, against="floor")
    measure.fresh(make_table, f"{root}/large", entries - 2 * gone, gone)
    plans = [measure.fresh(plan_all, f"{root}/large") for _ in range(parsed.rounds)]
    floors = [measure.fresh(decompress, f"{root}/large") for _ in range(2)]
    best = min(plans, key=lambda taken: taken.value["plan"] + taken.value["walk"])
    peak = max(taken.peak_bytes for taken in plans) / 2**20
    rows = [
        ["plan and walk", *(f"{best.value[name]:.2f}" for name in ("plan", "walk", "cpu")), f"{peak:.0f}"],
        [
            "floor",
            f"{min(taken.wall_seconds for taken in floors):.2f}",
            "",
            f"{min(taken.cpu_seconds for taken in floors):.2f}",
            f"{floors[0].peak_bytes / 2**20:.0f}",
        ],
    ]
    header = ["", "plan s", "walk s", "CPU s", "peak MB"]
    measure.print_rows(f"{entries} entries, {best.value['files']} live", header, rows)
    shutil.rmtree(root)
    measure.print_bars(
        [
            measure.Bar(f"{files} files, one partition", series["one partition"].best_wall_seconds, 0.3, 0.1, "s"),
            measure.Bar(f"{entries} entries, all", best.value["plan"] + best.value["walk"], 20, 6, "s"),
            measure.Bar(f"{entries} entries, all: peak", peak, 700, 400, "MB"),
        ]
    )


def walk(scan: lc.Scan) -> int:
    """Return the number of files that a scan reads, every split asked for."""
    return sum(len(split.files) for split in scan.plan().splits)


def plan_all(root: str) -> dict[str, Any]:
    """Plan a scan of everything, then go through its splits one by one as a reader does."""
    begin, cpu = time.perf_counter(), time.process_time()
    scan = lc.connect(root).table("db.t").scan()
    plan = scan.plan()
    planned = time.perf_counter()
    files = sum(len(split.files) for split in plan.splits)
    return {
        "plan": planned - begin,
        "walk": time.perf_counter() - planned,
        "files": files,
        "cpu": time.process_time() - cpu,
    }


def decompress(root: str) -> int:
    """Read and decompress every manifest of the table."""
    size = 0
    for path in Path(root, "db.db", "t", "manifest").glob("manifest-*"):
        if not path.name.startswith("manifest-list"):
            size += sum(len(block.data) for block in open_container(path.read_bytes(), path.name).blocks)
    return size


def make_table(root: str, files: int, gone: int) -> None:
    """Make a table whose one snapshot names `files` live files and, beside them, `gone` that came and went."""
    catalog = lc.connect(root)
    catalog.create_database("db")
    options = {"bucket": str(BUCKETS)}
    table = catalog.create_table("db.t", _COLUMNS, primary_keys=["dt", "k"], partition_keys=["dt"], options=options)
    store = LocalStore(f"{root}/db.db/t")
    clock = SystemClock()
    writer = manifest_writer(store, clock, table.schema)
    manifests = []
    for chunk in _chunks(_entries(files, gone), 20_000):
        manifests += writer.write_entries(chunk)
    base, delta = writer.write_list([]), writer.write_list(manifests)
    writer.flush()
    SnapshotLog(store, MAIN).create(
        Snapshot(
            id=1,
            schema_id=0,
            base_manifest_list=base.name,
            base_manifest_list_size=base.size,
            delta_manifest_list=delta.name,
            delta_manifest_list_size=delta.size,
            commit_user="benchmark",
            commit_identifier=1,
            commit_kind=CommitKind.APPEND,
            time_millis=clock.now_millis(),
            total_record_count=0,
            delta_record_count=0,
        )
    )


def _entries(files: int, gone: int) -> Iterator[ManifestEntry]:
    """Level-0 files are those that went; the live ones lie in the top level, each with keys of its own."""
    uuid = SystemClock().uuid()
    per_partition = max(1, min(FILES_PER_PARTITION * 10 if gone else FILES_PER_PARTITION, files))
    for number in range(files + gone):
        # Partitions come one after the other, files that go are spread among those that stay.
        is_gone = gone > 0 and number % ((files + gone) // gone) == 0 and number // ((files + gone) // gone) < gone
        entry = _entry(uuid, number, number // per_partition, level=0 if is_gone else 5)
        yield entry
        if is_gone:
            yield ManifestEntry(
                kind=EntryKind.DELETE,
                partition=entry.partition,
                bucket=entry.bucket,
                total_buckets=BUCKETS,
                file=entry.file,
            )


def _entry(uuid: str, number: int, partition: int, *, level: int) -> ManifestEntry:
    low, high = number * 1000, number * 1000 + 999
    key_low, key_high = serialize_row([low], _KEY), serialize_row([high], _KEY)
    day = _FIRST_DAY + partition
    bottom = serialize_row(
        [day, low, number % 100, 0.5, f"customer-{number:07}", (1_357_000_000_000 + number, 0)], _TYPES
    )
    top = serialize_row(
        [day, high, number % 100 + 50, 9.5, f"customer-{number:07}z", (1_357_000_000_999 + number, 0)], _TYPES
    )
    return ManifestEntry(
        kind=EntryKind.ADD,
        partition=serialize_row([day], [_DATE]),
        bucket=number % BUCKETS,
        total_buckets=BUCKETS,
        file=DataFile(
            file_name=f"data-{uuid}-{number}.parquet",
            file_size=30_000_000 + number,
            row_count=1000,
            min_key=key_low,
            max_key=key_high,
            key_stats=SimpleStats(min_values=key_low, max_values=key_high, null_counts=(0,)),
            value_stats=SimpleStats(min_values=bottom, max_values=top, null_counts=(0, 0, 1, 2, 3, 4)),
            min_sequence_number=low,
            max_sequence_number=high,
            schema_id=0,
            level=level,
            creation_time_millis=1_700_000_000_000 + number,
        ),
    )


def _chunks(entries: Iterator[ManifestEntry], size: int) -> Iterator[list[ManifestEntry]]:
    chunk: list[ManifestEntry] = []
    for entry in entries:
        chunk.append(entry)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


if __name__ == "__main__":
    main()
