"""Reads with `postpone.merge-on-read`: the rows of a state include those that wait for their buckets, as if the next
compaction had moved them already.
"""

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc

Row = dict[str, Any]
ON = {"postpone.merge-on-read": "true"}
COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT", "w": "STRING", "s": "INT"}
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


@pytest.mark.parametrize(
    ("kind", "seed", "partitioned"),
    [
        pytest.param(kind, seed, seed % 2 == 0, marks=[pytest.mark.long] * (seed > 0), id=f"{kind}-{seed}")
        for kind in KINDS
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
