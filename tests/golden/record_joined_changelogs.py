"""`python -m tests.golden.record_joined_changelogs` has Flink's task join changelogs, and keeps what Java reads.

Needs Java and Maven, as `make interop` does.
"""

import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.golden import sets
from tests.interop.judge import Judge

SET = "flink-2.0.0"
TOLD = sets.HERE / SET / "told.json"
FIELDS = [("p", "INT NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")]
# By name: partition keys, buckets, options.
TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    "input_parquet": (["p"], {"bucket": "3", "changelog-producer": "input"}),
    "input_orc_alone": ([], {"bucket": "4", "changelog-producer": "input", "file.format": "orc"}),
    "lookup_avro_below": (
        ["p"],
        {
            "bucket": "2",
            "changelog-producer": "lookup",
            "changelog-file.format": "avro",
            "data-file.path-directory": "data",
        },
    ),
    "expired": (["p"], {"bucket": "3", "changelog-producer": "input", "changelog.num-retained.max": "100"}),
}


def recorded() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return, by table and snapshot, the rows of the changelog as Java read them before any snapshot expired."""
    return json.loads(TOLD.read_text())  # type: ignore[no-any-return]


def main() -> None:
    told = {}
    with tempfile.TemporaryDirectory() as folder, Judge("2.0.0", warehouse=folder) as java:
        for name, (partitions, options) in TABLES.items():
            table = f"db.{name}"
            java.create(table, FIELDS, ["p", "k"], partitions, {"precommit-compact": "true", **options})
            for value in "xyz":
                rows = [{"p": k % 2, "k": k, "v": f"{value}{k}"} for k in range(10)]
                java.write(table, rows, commitUser="flink", joinChangelog=True)
            told[name] = java.changelog(table, start=1)
            if name == "expired":
                java.call("expire", table=table, retainMax=1, retainMin=1)
        with tarfile.open(sets.HERE / SET / "tables.tar.xz", "w:xz") as archive:
            archive.add(Path(folder) / "db.db", "db.db")
    TOLD.write_text(json.dumps(told, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
