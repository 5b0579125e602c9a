"""The golden sets: unpacked warehouses and what Java reads in them."""

import json
import re
import tarfile
from collections.abc import Sequence
from datetime import date, time
from functools import cache
from pathlib import Path
from typing import Any

from lakehouse_core.format.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

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


def printed(name: str) -> dict[str, tuple[int, list[str]]]:
    """Return, by table of an older set, how many rows Java read and the first of them as it printed them."""
    tables: dict[str, tuple[int, list[str]]] = {}
    rows: list[str] = []
    for line in (HERE / name / "expected-rows.txt").read_text().splitlines():
        if line.startswith("   +I "):
            rows.append(line.removeprefix("   +I "))
        elif matched := re.fullmatch(r"(\w+) rows=(\d+) splits=\d+", line):
            rows = []
            tables[matched[1]] = int(matched[2]), rows
    return tables


def as_printed(row: dict[str, Any], fields: Sequence[DataField]) -> str:
    """Return a row of the judge's JSON as older sets print it: internal numbers, of arrays and maps the size."""
    return "".join(f"{_printed_value(row[field.name], field.type)}|" for field in fields)


def _printed_value(value: Any, type_: DataType) -> str:
    match type_:
        case _ if value is None:
            return "null"
        case ArrayType():
            return f"arr{len(value)}"
        case MapType() | MultisetType():
            return f"map{len(value)}"
        case RowType():
            return "row"
        case AtomicType(root=TypeRoot.BOOLEAN):
            return str(value).lower()
        case AtomicType(root=TypeRoot.DATE):
            return str((date.fromisoformat(value) - date(1970, 1, 1)).days)
        case AtomicType(root=TypeRoot.TIME):
            moment = time.fromisoformat(value)
            seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
            return str(seconds * 1000 + moment.microsecond // 1000)
        case AtomicType(root=TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ):
            return value.removesuffix("Z")  # type: ignore[no-any-return]
        case _:
            return str(value)


def rows_by_snapshot(doc: Doc) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of every snapshot that ever was, expired ones included."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for snapshot in doc["snapshots"]:
        rows[snapshot["id"]] = snapshot["rows"] if "rows" in snapshot else rows[snapshot["same_rows_as"]]
    return rows


def retained(doc: Doc) -> list[int]:
    """Return the ids that still have a snapshot file."""
    return [snapshot["id"] for snapshot in doc["snapshots"] if not snapshot.get("expired")]
