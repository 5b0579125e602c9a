"""Reads with `postpone.merge-on-read`: the rows of a state include those that wait for their buckets, as if the next
compaction had moved them already.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import SystemClock
from lakehouse_core.storage import FaultyStore, LocalStore

Row = dict[str, Any]
ON = {"postpone.merge-on-read": "true"}
COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT", "w": "STRING", "s": "INT"}
# Kinds whose merge or whose files are much like those of another.
ALIKE = {
    "partial-update",
    "aggregation with lookups",
    "descending sequence field",
    "deletion vectors and sums",
    "orc",
    "changelog",
}
# By name: the options of a table, and whether its rows may be deletes.
KINDS: dict[str, tuple[dict[str, str], bool]] = {
    "deduplicate": ({}, True),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        True,
    ),
    "partial-update with a sequence group": (
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v,w"},
        False,
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.w.aggregate-function": "listagg",
        },
        False,
    ),
    "aggregation with lookups": (
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"},
        False,
    ),
    "first-row": ({"merge-engine": "first-row"}, False),
    "sequence field": ({"sequence.field": "s"}, True),
    "descending sequence field": ({"sequence.field": "s", "sequence.field.sort-order": "descending"}, True),
    "deletion vectors": ({"deletion-vectors.enabled": "true"}, True),
    "deletion vectors and sums": (
        {
            "deletion-vectors.enabled": "true",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
        },
        False,
    ),
    "ignored deletes": ({"ignore-delete": "true"}, True),
    "orc": ({"file.format": "orc"}, True),
    "avro": ({"file.format": "avro"}, True),
    "thin files elsewhere": ({"data-file.thin-mode": "true", "data-file.path-directory": "data"}, True),
    "indexed": ({"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}, True),
    "changelog": ({"changelog-producer": "input"}, True),
    "by rows": ({"postpone.target-row-num-per-bucket": "3"}, True),
}


def table_of(folder: Path, options: dict[str, str], *, partitioned: bool = True) -> lc.Table:
    catalog = lc.connect(str(folder))
    catalog.create_database("db", exist_ok=True)
    return catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=["p", "k"],
        partition_keys=["p"] if partitioned else [],
        options={"bucket": "-2", **options},
    )


def rows(*keys: int, v: int = 0, p: str = "a", kind: str = "+I") -> list[Row]:
    return [{"p": p, "k": key, "v": v, "w": f"w{v}", "s": v, "kind": kind} for key in keys]


def write(table: lc.Table, *parts: list[Row]) -> lc.CommitReport:
    return table.write([row for part in parts for row in part], rowkind_column="kind")


def content(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def seen(table: lc.Table, **read: Any) -> list[tuple[Any, ...]]:
    return content(table.scan(**read).to_arrow())


def keys(table: lc.Table) -> list[tuple[str, int, int]]:
    return sorted((row["p"], row["k"], row["v"]) for row in table.scan(columns=["p", "k", "v"]).to_arrow().to_pylist())


def compacted(table: lc.Table, folder: Path) -> lc.Table:
    """Return a copy of the table that is read without the option after a compaction."""
    copy = folder.parent / f"{folder.name}-compacted"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    found = lc.connect(str(copy)).table("db.t")
    found.alter(lc.SetOption("postpone.merge-on-read", "false"))
    found.compact()
    return found


def random_rows(random: Random, step: int, *, takes_deletes: bool) -> list[Row]:
    def row() -> Row:
        kind = random.choice(["+I", "+I", "-D"]) if takes_deletes else "+I"
        value = random.choice([None, step])
        return {
            "p": random.choice("ab"),
            "k": random.randrange(9),
            "v": value,
            "w": random.choice([None, f"w{step}"]),
            "s": random.randrange(5),
            "kind": kind,
        }

    return [row() for _ in range(random.randint(1, 12))]


def check_doors(table: lc.Table, expected: lc.Table) -> None:
    """Compare what each way of reading gives with the table without waiting rows."""
    whole = seen(expected)
    assert seen(table) == whole
    assert table.scan().count() == len(whole)
    assert len(table.scan(limit=3).to_arrow()) == min(3, len(whole))
    for where in (lc.col("k") == 4, lc.col("v") > 5, (lc.col("p") == "a") & (lc.col("w").is_null())):
        assert seen(table, where=where, columns=["v", "k"]) == seen(expected, where=where, columns=["v", "k"])
        assert table.scan(where=where).count() == expected.scan(where=where).count()
    asked = [{"p": p, "k": k} for p in "ba" for k in (8, 3, 0, 5, 11)]
    assert table.lookup(asked, aligned=True) == expected.lookup(asked, aligned=True)
    assert table.lookup(asked, columns=["v"], aligned=True) == expected.lookup(asked, columns=["v"], aligned=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "seed", "partitioned"),
    [
        # In turn with partitions and without.
        pytest.param(
            kind,
            seed,
            (seed + at) % 2 == 0,
            marks=[pytest.mark.long] * (seed > 0 or kind in ALIKE),
            id=f"{kind}-{seed}",
        )
        for at, kind in enumerate(KINDS)
        for seed in range(4)
    ],
)
def test_a_read_has_what_a_compaction_of_the_state_would_leave(
    tmp_path: Path, kind: str, seed: int, partitioned: bool
) -> None:
    options, takes_deletes = KINDS[kind]
    folder, random = tmp_path / "lake", Random(f"{kind} {seed}")
    count = {} if "target" in str(options) else {"postpone.default-bucket-num": str(random.randint(1, 3))}
    table = table_of(folder, {**ON, **count, **options}, partitioned=partitioned)
    for step in range(1, 7):
        match random.choice(["write", "write", "write", "compact", "full"]):
            case "write":
                write(table, random_rows(random, step, takes_deletes=takes_deletes))
            case "compact":
                table.compact()
            case "full":
                table.compact(full=True)
        if step == 4:
            table.alter(lc.AddColumn("x", "DOUBLE"))
            table.alter(lc.SetOption("postpone.default-bucket-num", "5"))
    write(table, random_rows(random, 9, takes_deletes=takes_deletes))

    check_doors(table, compacted(table, folder))


def test_rows_are_read_in_the_order_of_their_commits_before_any_compaction(tmp_path: Path) -> None:
    table = table_of(tmp_path, ON)
    write(table, rows(1, 2, v=1), rows(5, p="b", v=1))
    write(table, rows(2, v=2), rows(1, kind="-D"))

    assert keys(table) == [("a", 2, 2), ("b", 5, 1)]
    assert (table.scan().plan().file_count, table.scan().plan().row_count) == (3, 5)
    assert [row["partition"] for row in table.system("partitions").to_arrow().to_pylist()] == ["p=a", "p=b"]
    assert {row["bucket"] for row in table.system("files").to_arrow().to_pylist()} == {-2}
    assert sum(row["record_count"] for row in table.system("buckets").to_arrow().to_pylist()) == 5
    assert table.health().due[0] == (
        "compact: 5 rows wait for their buckets, and until a compaction moves them every read of a state merges them"
    )


def test_the_newest_option_counts_also_for_what_is_pinned_to_an_old_snapshot(tmp_path: Path) -> None:
    table = table_of(tmp_path, {})
    write(table, rows(1))
    table.create_tag("then")
    wanted, at = [{"p": "a", "k": 1}], lc.AtTag("then")
    handle = table.lookups(at=at)

    assert (handle.get(wanted).num_rows, seen(table, at=at)) == (0, [])
    table.alter(lc.SetOption("postpone.merge-on-read", "true"))
    assert handle.get(wanted).num_rows == 0
    handle.refresh()
    assert (handle.get(wanted).num_rows, len(seen(table, at=at))) == (1, 1)
    table.compact()
    assert (table.lookup(wanted, at=at).num_rows, len(seen(table, at=lc.AtSnapshot(1)))) == (1, 1)
    table.alter(lc.RemoveOption("postpone.merge-on-read"))
    handle.refresh()
    assert (handle.get(wanted).num_rows, seen(table, at=at), len(seen(table))) == (0, [], 1)


def test_a_handle_that_was_opened_before_follows_to_rows_that_wait(tmp_path: Path) -> None:
    table = table_of(tmp_path, {**ON, "postpone.default-bucket-num": "3"})
    write(table, rows(*range(20), v=1))
    table.compact()
    wanted = [{"p": p, "k": k} for p in "ab" for k in range(25)]
    with table.lookups(columns=["v"]) as handle:
        assert handle.get(wanted)["v"].to_pylist() == [1] * 20
        write(table, rows(3, 24, v=2), rows(4, kind="-D"), rows(7, p="b", v=3))
        assert handle.get(wanted).num_rows == 20
        handle.refresh()
        merged = [2 if k == 3 else 1 for k in range(20) if k != 4] + [2, 3]
        assert handle.get(wanted)["v"].to_pylist() == merged
        table.compact()
        handle.refresh()
        assert handle.get(wanted)["v"].to_pylist() == merged


def test_what_compactions_have_done_and_changes_are_told_as_without_the_option(tmp_path: Path) -> None:
    table = table_of(tmp_path, ON)
    write(table, rows(1, v=1))
    table.compact(full=True)
    write(table, rows(1, v=2), rows(2, v=2))

    assert (
        content(table.system("ro").to_arrow()) == seen(table, read_optimized=True) == seen(table, at=lc.AtSnapshot(2))
    )
    assert seen(table, options={"scan.mode": "compacted-full"}) == seen(table, at=lc.AtSnapshot(2))
    assert len(table.changes(0).to_arrow()) == 3
    assert len(table.scan(options={"incremental-between": "2,3"}).to_arrow()) == 2
    assert keys(table) == [("a", 1, 2), ("a", 2, 2)]
    assert sorted(table.system("audit_log").to_arrow()["rowkind"].to_pylist()) == ["+I", "+I"]


REFUSED: dict[str, tuple[Callable[[lc.Table], object], str]] = {
    "diff": (
        lambda table: table.diff(1, 3).to_arrow(),
        "db.t: a diff of two states cannot merge rows that wait for their buckets, as postpone.merge-on-read = true "
        "asks for. Read states in which none wait, such as the one that a compaction leaves, or set the option",
    ),
    "incremental diff": (
        lambda table: table.scan(
            options={"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
        ).to_arrow(),
        "db.t: a diff of two states cannot merge rows that wait",
    ),
    "file creation time": (
        lambda table: table.scan(at=lc.FromFileCreationTime(datetime(2020, 1, 1, tzinfo=UTC))).to_arrow(),
        "db.t: a read of the files that were created since some time cannot merge rows that wait",
    ),
}


@pytest.mark.parametrize("door", REFUSED)
def test_what_cannot_merge_waiting_rows_says_so(tmp_path: Path, door: str) -> None:
    call, message = REFUSED[door]
    table = table_of(tmp_path, ON)
    write(table, rows(1))
    table.compact()
    write(table, rows(2))

    with pytest.raises(lc.LakehouseError) as refused:
        call(table)

    assert message in str(refused.value)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_read_that_ends_early_leaves_nothing_on_disk_or_open(tmp_path: Path, scratch: Path) -> None:
    table = table_of(tmp_path / "lake", {**ON, "postpone.default-bucket-num": "2"})
    write(table, rows(*range(40_000)), rows(*range(10), p="b"))

    def held() -> int:
        return sum(str(scratch) in os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())

    batches: Iterator[pa.RecordBatch] = table.scan().to_batches()
    next(batches)
    assert held() > 0
    assert list(scratch.iterdir()) == []
    batches.close()  # type: ignore[attr-defined]

    assert held() == 0
    assert list(scratch.iterdir()) == []


def test_waiting_rows_are_read_once_for_all_buckets_and_a_key_reads_its_bucket_only(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    table = table_of(folder, {**ON, "postpone.default-bucket-num": "8"}, partitioned=False)
    write(table, rows(*range(40), v=1))
    table.compact(full=True)
    write(table, rows(*range(30), v=2))

    def read(**asked: Any) -> tuple[int, int, int]:
        """Return how many rows a scan has, and how many files of waiting rows and of buckets it opens."""
        store = FaultyStore(LocalStore(str(folder)))
        found = Catalog(store, clock=SystemClock()).table("db.t").scan(**asked).to_arrow().num_rows
        opened = [call.key.split("/")[-2] for call in store.calls if call.method == "open_read"]
        files = [bucket for bucket in opened if bucket.startswith("bucket-")]
        return found, files.count("bucket-postpone"), len(files) - files.count("bucket-postpone")

    assert read() == (40, 1, 8)
    assert read(limit=39)[:2] == (39, 1)
    of_key = (lc.col("p") == "a") & (lc.col("k") == 7)
    assert read(where=of_key) == (1, 1, 1)
    plan = table.scan(where=of_key).plan()
    assert (len(plan.splits), plan.file_count) == (1, 2)


def test_rows_that_wait_are_read_in_the_columns_of_today(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    table = table_of(folder, {**ON, "postpone.default-bucket-num": "2"})
    write(table, rows(1, 2, v=1), rows(3, p="b", v=1))
    table.compact()
    write(table, rows(2, 4, v=2))
    table.alter(
        lc.RenameColumn("v", "amount"),
        lc.UpdateColumnType("amount", "BIGINT"),
        lc.DropColumn("w"),
        lc.AddColumn("w", "DOUBLE"),
    )
    table.write([{"p": "a", "k": 4, "amount": 1 << 40, "s": 3, "w": 0.5}])

    expected = compacted(table, folder)
    assert seen(table) == seen(expected)
    assert seen(table, columns=["w", "amount"]) == seen(expected, columns=["w", "amount"])
    assert seen(table, where=lc.col("amount") > 1 << 33, columns=["k"]) == [(4,)]
    assert seen(table, where=lc.col("w").is_null(), columns=["k"]) == [(1,), (2,), (3,)]


def test_a_disk_that_takes_no_scratch_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "lake", ON)
    write(table, rows(1))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))

    with pytest.raises(lc.StorageUnavailable, match=r"gone: the disk refused .* or compact the table, so that no rows"):
        table.scan().to_arrow()


def test_a_scan_outlives_neither_its_snapshot_nor_leaves_rows_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, {**ON, "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"})
    write(table, rows(1))
    scan = table.scan()
    scan.plan()
    table.compact()
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))

    with pytest.raises(lc.SnapshotExpired):
        scan.to_arrow()
    assert len(seen(table)) == 1


def test_many_waiting_rows_are_sorted_on_disk_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_core.tasks.waiting.placing._BUFFER_BYTES", 64 << 10)
    table = table_of(tmp_path, {**ON, "postpone.default-bucket-num": "3"})
    for step in range(3):
        write(table, rows(*Random(step).sample(range(4000), 3000), v=step))
    newest = {key: step for step in range(3) for key in Random(step).sample(range(4000), 3000)}

    assert keys(table) == [("a", key, step) for key, step in sorted(newest.items())]


def test_nulls_that_are_older_than_a_rule_are_read(tmp_path: Path) -> None:
    table = table_of(tmp_path, ON)
    table.write([{"p": "a", "k": 1, "v": None, "w": "x", "s": 1}])
    table.alter(lc.SetOption("alter-column-null-to-not-null.disabled", "false"))
    table.alter(lc.UpdateColumnNullability("v", nullable=False))

    assert table.scan(columns=["v"]).to_arrow().to_pylist() == [{"v": None}]


def test_statements_of_sql_see_waiting_rows(tmp_path: Path) -> None:
    catalog = lc.connect(str(tmp_path))
    table = table_of(tmp_path, {**ON, "postpone.default-bucket-num": "2"})
    write(table, rows(*range(10), v=1), rows(1, p="b", v=1))
    table.compact(full=True)
    write(table, rows(2, v=20), rows(3, kind="-D"), rows(11, v=20))

    def asked(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in catalog.sql(text).to_arrow().to_pylist()]

    assert asked("SELECT count(*), sum(v) FROM db.t") == [(11, 49)]
    assert asked("SELECT v FROM db.t WHERE k = 2") == [(20,)]
    assert asked("SELECT p, count(*) FROM db.t GROUP BY p ORDER BY p") == [("a", 10), ("b", 1)]
    assert asked("SELECT count(*) FROM db.t VERSION AS OF 2") == [(11,)]
    plan = "\n".join(str(row) for row in asked("EXPLAIN SELECT v FROM db.t"))
    # Partition b, in which nothing waits, needs no merge.
    assert "3 splits; 1 splits" in plan
    table.alter(lc.SetOption("postpone.merge-on-read", "false"))
    assert asked("SELECT count(*), sum(v) FROM db.t") == [(11, 11)]
