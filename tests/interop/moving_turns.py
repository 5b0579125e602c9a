"""One table whose keys move between partitions, which Java and we write in turns: no key is in two partitions."""

from pathlib import Path
from random import Random
from typing import Any

import lakehouse_core as lc
from tests.execution.write.moving_keys import COLUMNS, ENGINES, PARTITIONS, bare, rows_of
from tests.interop.engines import Java
from tests.oracle.moving_keys import MovingKeys

KINDS: tuple[tuple[str, dict[str, str]], ...] = (
    ("deduplicate", {}),
    ("deduplicate", {"changelog-producer": "lookup"}),
    ("deduplicate", {"deletion-vectors.enabled": "true", "changelog-producer": "input"}),
    ("partial-update", {}),
    ("partial-update", {"changelog-producer": "full-compaction"}),
    ("aggregation", {"file.format": "orc"}),
    ("first-row", {"changelog-producer": "lookup"}),
)


def create(java: Java, engine: str, options: dict[str, str]) -> str:
    """Let Java create the table; return the name that it has for its buckets."""
    fields = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    merging = {"merge-engine": engine, "dynamic-bucket.target-row-num": "3", **ENGINES[engine], **options}
    mode: str = java("create", fields=fields, primaryKeys=["k"], partitionKeys=["p"], options=merging)["bucketMode"]
    return mode


def seen(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(((row["k"], row["p"], row["a"], row["b"]) for row in rows), key=lambda row: row[0])


def write_in_turns(java: Java, folder: Path, engine: str, options: dict[str, str], seed: int) -> None:
    """Carry out a random history on a new table in `folder`, the warehouse of `java`. After each step both must read
    what the model has; raises AssertionError, with what was done.
    """
    assert create(java, engine, options) in ("CROSS_PARTITION", "KEY_DYNAMIC")
    done: list[str] = []
    try:
        _steps(java, lc.connect(folder).table("db.t"), engine, Random(f"{seed} {engine}"), done)
    except Exception as error:
        error.add_note("\n".join([*done, f"seed {seed}, {engine}, {options}"]))
        raise


def _steps(java: Java, table: lc.Table, engine: str, random: Random, done: list[str]) -> None:
    model = MovingKeys(engine)
    # A delete of a key that is elsewhere keeps its kind here, where Java combines it as a row.
    kinds = ["+I", "+I", "-D"] if engine == "deduplicate" else ["+I"]
    for _ in range(9):
        rows = [
            {
                "k": random.randrange(9),
                "p": random.choice(PARTITIONS),
                "a": random.randrange(9),
                "b": random.choice([None, "s", "t"]),
                "_kind": random.choice(kinds),
            }
            for _ in range(random.randint(1, 6))
        ]
        verbs = ["java writes", "we write", "java compacts", "we compact", "we rescale", "we replace"]
        verb = random.choice([*verbs, *verbs[:2]])
        done.append(f"{verb} {rows}")
        match verb:
            case "java writes":
                java("write", rows=rows, commitUser="job", compact=random.choice(["none", "full"]))
            case "we write":
                table.write(rows, rowkind_column="_kind")
            case "java compacts":
                java("compact", strategy="full")
                rows = []
            case "we compact":
                table.compact(full=True)
                rows = []
            case "we rescale":
                table.rescale()
                rows = []
            case "we replace":
                # Keys of other partitions come over, or stay there with their new rows.
                rows = [{**row, "p": "y", "_kind": "+I"} for row in rows]
                table.overwrite(bare(rows), where="p = 'y'")
                model.drop({"y"})
        model.write({**row, "kind": row["_kind"]} for row in rows)
        if table.schema.table_options.skips_level_0:
            table.compact()
        assert rows_of(table) == model.sorted()
        assert seen(java("read")["rows"]) == model.sorted()
    assert table.verify(data=True).findings == ()
    assert java("files")["missing"] == []
