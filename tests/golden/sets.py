"""The golden sets: unpacked warehouses and what Java reads in them."""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = ("java-2.0.0", "java-1.4.2")
PRINTED = ("java-2.1-snapshot", "java-0.9")

Doc = dict[str, Any]


def unpack(name: str, target: Path) -> Path:
    """Unpack the warehouse of a set below `target` and return its path."""
    warehouse = target / name
    with tarfile.open(HERE / name / "tables.tar.xz") as archive:
        archive.extractall(warehouse, filter="data")
    return warehouse


@cache
def docs(name: str) -> dict[str, Doc]:
    """Return, by table, what Java recorded: operations, snapshots, changelog, tags."""
    with tarfile.open(HERE / name / "expected.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".json")]
        files = [archive.extractfile(member) for member in members]
        found = [json.load(file) for file in files if file is not None]
    return {doc["table"]: doc for doc in sorted(found, key=lambda doc: doc["table"])}


def rows_by_snapshot(doc: Doc) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of every snapshot that ever was, expired ones included."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for snapshot in doc["snapshots"]:
        rows[snapshot["id"]] = snapshot["rows"] if "rows" in snapshot else rows[snapshot["same_rows_as"]]
    return rows


def retained(doc: Doc) -> list[int]:
    """Return the ids that still have a snapshot file."""
    return [snapshot["id"] for snapshot in doc["snapshots"] if not snapshot.get("expired")]
