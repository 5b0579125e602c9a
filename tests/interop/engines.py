"""The same verbs for both sides of a comparison: ours through the front door, Java's through the judge."""

from pathlib import Path
from typing import Any, Protocol

import lakehouse_core as lc
from tests.interop.bucket import Bucket
from tests.interop.judge import Judge
from tests.interop.kinds import Kind
from tests.interop.values import Row, arrow_rows, canonical, canonical_changes, java_rows

TABLE = "db.t"


class Side(Protocol):
    """One engine at work on the one table of a cell."""

    def create(self, kind: Kind) -> None: ...
    def write(self, rows: list[Row]) -> None: ...
    def rows(self, snapshot_id: int | None = None) -> list[str]: ...
    def changes(self, snapshot_id: int) -> list[str]: ...
    def compact(self, *, full: bool = True) -> None: ...
    def expire(self, retain: int) -> None: ...
    def tag(self, name: str) -> None: ...
    def tagged(self, name: str) -> list[str]: ...


class Ours:
    def __init__(self, place: Path | Bucket) -> None:
        self._catalog = place.ours if isinstance(place, Bucket) else lc.connect(str(place))

    def create(self, kind: Kind) -> None:
        self._catalog.create_database("db", exist_ok=True)
        self._catalog.create_table(
            TABLE,
            dict(kind.fields),
            primary_keys=list(kind.primary_keys),
            partition_keys=list(kind.partition_keys),
            options=dict(kind.options),
        )

    @property
    def table(self) -> lc.Table:
        return self._catalog.table(TABLE)

    def write(self, rows: list[Row]) -> None:
        table = self.table
        data = arrow_rows(rows, table.schema.fields)
        if any("_kind" in row for row in rows) and not table.schema.options.get("rowkind.field"):
            kinds = [row.get("_kind", "+I") for row in rows]
            table.write(data.append_column("_kind", [kinds]), rowkind_column="_kind")
        else:
            table.write(data)

    def rows(self, snapshot_id: int | None = None) -> list[str]:
        scan = self.table.scan(at=lc.Latest() if snapshot_id is None else lc.AtSnapshot(snapshot_id))
        return canonical(java_rows(scan.to_arrow(), scan.plan().schema.fields))

    def changes(self, snapshot_id: int) -> list[str]:
        changes = self.table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow()
        rows = java_rows(changes, self.table.schema.fields)
        kinds = changes.column("rowkind").to_pylist()
        return canonical_changes({"_kind": kind} | row for kind, row in zip(kinds, rows, strict=True))

    def compact(self, *, full: bool = True) -> None:
        self.table.compact(full=full)

    def compact_manifests(self) -> None:
        self.table.compact_manifests()

    def expire(self, retain: int) -> None:
        self.table.expire_snapshots(retain_max=retain, retain_min=1)

    def tag(self, name: str) -> None:
        self.table.create_tag(name)

    def tagged(self, name: str) -> list[str]:
        scan = self.table.scan(at=lc.AtTag(name))
        return canonical(java_rows(scan.to_arrow(), scan.plan().schema.fields))

    def verify(self) -> list[Any]:
        return list(self.table.verify().findings)


class Java:
    """Java's side. Called with a verb of the judge and its request, it answers for the table."""

    def __init__(self, judge: Judge, place: Path | Bucket) -> None:
        self._judge = judge
        self._place = place.of_java(judge) if isinstance(place, Bucket) else {"warehouse": str(place)}

    def __call__(self, verb: str, **request: Any) -> Any:
        return self._judge.call(verb, table=TABLE, **self._place, **request)

    def create(self, kind: Kind) -> None:
        self(
            "create",
            fields=[{"name": name, "type": type_} for name, type_ in kind.fields],
            primaryKeys=list(kind.primary_keys),
            partitionKeys=list(kind.partition_keys),
            options=dict(kind.options),
        )

    def write(self, rows: list[Row]) -> None:
        self("write", rows=rows, mode="batch")

    def rows(self, snapshot_id: int | None = None) -> list[str]:
        options = {} if snapshot_id is None else {"scan.snapshot-id": str(snapshot_id)}
        return canonical(self("read", options=options)["rows"])

    def changes(self, snapshot_id: int) -> list[str]:
        steps = self("stream-read", **{"from": snapshot_id, "to": snapshot_id})["snapshots"]
        return canonical_changes(row for step in steps if step["snapshot"] == snapshot_id for row in step["rows"])

    def compact(self, *, full: bool = True) -> None:
        self("compact", strategy="full" if full else "minor")

    def delete(self, condition: Row) -> None:
        """Mark the rows of an append table with deletion vectors that the judge's filter names."""
        self("delete-rows", filter=condition)

    def compact_manifests(self) -> None:
        self("compact-manifest")

    def expire(self, retain: int) -> None:
        self("expire", retainMax=retain, retainMin=1)

    def tag(self, name: str) -> None:
        self("create-tag", tag=name, snapshot=self.latest_id())

    def tagged(self, name: str) -> list[str]:
        return canonical(self("read", options={"scan.tag-name": name})["rows"])

    def latest_id(self) -> int:
        return max(int(snapshot["id"]) for snapshot in self("snapshots")["snapshots"])

    def snapshot_ids(self) -> list[int]:
        return sorted(int(snapshot["id"]) for snapshot in self("snapshots")["snapshots"])

    def missing_files(self) -> list[str]:
        missing: list[str] = self("files")["missing"]
        return missing
