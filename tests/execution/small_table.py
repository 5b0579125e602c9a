"""A table small enough to think about: real metadata over data files that hold JSON instead of Parquet.

Rows are `key: value` (None deletes the key). Commits go through the committer, so histories are real ones.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.commit.loop import commit
from lakehouse_core.execution.expiry.expire import ExpiryResult, expire
from lakehouse_core.execution.expiry.tags import create_tag, delete_tag
from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.storage import MemoryStore, ObjectStore
from lakehouse_core.table.commit_message import Append, CommitMessage, StaticOverwrite, WriteMode
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile, FileSource
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.manifest import EntryKind, ManifestEntry
from lakehouse_core.table.schema import new_schema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.table.stats import unknown_stats
from tests.contexts import context_of

INT = parse_type("INT NOT NULL")
TOP_LEVEL = 5
HOUR = 3600
State = dict[tuple[str, int], str]


class SmallTable:
    """One table in a store. `options` come on top of: two buckets, one snapshot retained, nobody to wait for."""

    def __init__(
        self,
        *,
        options: Mapping[str, str] | None = None,
        keyed: bool = True,
        partitioned: bool = False,
        store: ObjectStore | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        # A memory store lives as long as somebody holds it, also while a faulty one stands before it.
        self.origin = store or MemoryStore(clock=self.clock)
        self.store = self.origin
        self.partitioned = partitioned
        self._number = 0
        defaults = {
            "bucket": "2",
            "lakehouse.read.grace": "0 s",
            "snapshot.num-retained.min": "1",
            "snapshot.expire.limit": "1000",
        }
        columns = {"dt": "STRING NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
        keys = (["dt", "k"] if partitioned else ["k"]) if keyed else []
        schema = new_schema(
            columns,
            primary_keys=keys,
            partition_keys=["dt"] if partitioned else [],
            options={**defaults, **({} if keyed else {"bucket-key": "k"}), **(options or {})},
            now_millis=self.clock.now_millis(),
        )
        assert SchemaLog(self.store, MAIN).create(schema)
        self.over(self.store)

    def over(self, store: ObjectStore) -> "SmallTable":
        """Use another store from now on, such as a faulty one over the same objects."""
        self.store = store
        self.context = context_of(store, self.clock)
        self.schemas = self.context.schemas
        self.schema = self.schemas.latest()
        self.folders = DataLayout(self.schema)
        return self

    def copy(self) -> "SmallTable":
        """Return the same table, at the same time, in a store of its own."""
        twin = object.__new__(SmallTable)
        twin.clock = VirtualClock(seed=self._number, now_millis=self.clock.now_millis())
        twin.partitioned, twin._number = self.partitioned, self._number
        twin.origin = MemoryStore(clock=twin.clock)
        for info in self.store.list(""):
            twin.origin.write({info.key: self.store.read(info.key)})
        return twin.over(twin.origin)

    def write(
        self, rows: Mapping[int, str | None], *, dt: str = "d", mode: WriteMode | None = None, bucket: int = 0
    ) -> int:
        """Append a level-0 file of rows to one bucket (with the changelog that the table's producer wants)."""
        return self.write_all({(dt, bucket): rows}, mode=mode)

    def write_all(
        self, parts: Mapping[tuple[str, int], Mapping[int, str | None]], *, mode: WriteMode | None = None
    ) -> int:
        producer = self.schema.options.get("changelog-producer", "none")
        messages = []
        for (dt, bucket), rows in parts.items():
            file = self.data_file(rows, dt=dt, bucket=bucket)
            # The changelog of an overwrite is not kept.
            logs = producer == "input" and not isinstance(mode, StaticOverwrite)
            changelog = (self.data_file(rows, dt=dt, bucket=bucket, prefix="changelog"),) if logs else ()
            messages.append(self.message(dt, bucket, new_files=(file,), changelog_files=changelog))
        return self.commit(messages, mode or Append())

    def compact(self) -> int | None:
        """Merge each bucket into one file of the top level; None when nothing is there to merge."""
        latest = self.context.snapshots.latest()
        messages = []
        for (_, bucket), entries in sorted(self._buckets(latest).items()) if latest else ():
            if len(entries) < 2:
                continue
            dt = self.dt_of(entries[0])
            rows = _merged(self._rows(entry) for entry in entries)
            new = self.data_file(
                {key: value for key, value in rows.items() if value is not None},
                dt=dt,
                bucket=bucket,
                level=TOP_LEVEL if self.schema.primary_keys else 0,
                source=FileSource.COMPACT,
            )
            before = tuple(entry.file for entry in entries)
            messages.append(self.message(dt, bucket, compact_before=before, compact_after=(new,)))
        return self.commit(messages, Append()) if messages else None

    def overwrite(self, rows: Mapping[int, str | None], *, dt: str = "d") -> int:
        return self.write(rows, dt=dt, mode=StaticOverwrite({"dt": dt} if self.partitioned else {}))

    def commit(self, messages: Sequence[CommitMessage], mode: WriteMode) -> int:
        """Make a snapshot, a second after whatever happened before."""
        self.clock.advance(1)
        staged = self.staged(messages, mode)
        return commit(self.context, staged).snapshots[-1].id

    def staged(self, messages: Sequence[CommitMessage], mode: WriteMode) -> StagedCommit:
        self._number += 1
        return StagedCommit(
            table="db.t",
            commit_user="tests",
            commit_identifier=self._number,
            mode=mode,
            messages=tuple(messages),
            schema_id=self.schema.id,
            base_snapshot_id=self.context.snapshots.ids.latest(),
        )

    def data_file(
        self,
        rows: Mapping[int, str | None],
        *,
        dt: str = "d",
        bucket: int = 0,
        prefix: str = "data",
        level: int = 0,
        source: FileSource = FileSource.APPEND,
    ) -> DataFile:
        """Write a file of rows and describe it."""
        keyed = bool(self.schema.primary_keys)
        name = f"{prefix}-{self.clock.uuid()}-0.json"
        data = json.dumps({str(key): value for key, value in sorted(rows.items())}).encode()
        self.store.write({f"{self.folder(dt, bucket)}/{name}": data})
        self._number += 1
        low, high = (min(rows, default=0), max(rows, default=0))
        return DataFile(
            file_name=name,
            file_size=len(data),
            row_count=len(rows),
            min_key=serialize_row((low,), [INT]) if keyed else EMPTY_ROW,
            max_key=serialize_row((high,), [INT]) if keyed else EMPTY_ROW,
            key_stats=unknown_stats(1 if keyed else 0),
            value_stats=unknown_stats(3),
            min_sequence_number=self._number,
            max_sequence_number=self._number,
            schema_id=self.schema.id,
            level=level,
            file_source=source,
        )

    def folder(self, dt: str = "d", bucket: int = 0) -> str:
        return self.folders.bucket(self._partition(dt), bucket)

    def expire(self, *, dry_run: bool = False, **asked: int) -> ExpiryResult:
        return expire(self.context, dry_run=dry_run, **asked)

    def tag(self, name: str, *, at: int | None = None, retention_millis: int | None = None) -> None:
        create_tag(self.context, name, snapshot_id=at, retention_millis=retention_millis)

    def branch(self, name: str, *, at: int) -> None:
        """Make a branch from a snapshot as Java makes it: schema, tag and snapshot are copied."""
        for key in ("schema/schema-0", f"snapshot/snapshot-{at}"):
            self.store.write({f"branch/branch-{name}/{key}": self.store.read(key)})

    def delete_tag(self, name: str, *, dry_run: bool = False) -> ExpiryResult:
        return delete_tag(self.context, name, dry_run=dry_run)

    def findings(self) -> list[str]:
        return [str(finding) for finding in verify(self.context)]

    def ids(self) -> list[int]:
        return [snapshot.id for snapshot in self.context.snapshots.history()]

    def objects(self) -> set[str]:
        """Every object of the table."""
        return {info.key for info in self.store.list("")}

    def files(self) -> set[str]:
        """Every object but for schemas, hints, roots and our own."""
        folders = ("schema", "snapshot", "changelog", "tag", "consumer", "lakehouse")
        return {key for key in self.objects() if key.split("/")[0] not in folders}

    def visible(self, snapshot: Snapshot) -> State:
        """Return what a reader of `snapshot` sees: values by partition and key, read from the files there are."""
        state: State = {}
        for entries in self._buckets(snapshot).values():
            dt = self.dt_of(entries[0])
            if self.schema.primary_keys:
                rows = _merged(self._rows(entry) for entry in entries).items()
                state.update({(dt, key): value for key, value in rows if value is not None})
            else:
                for entry in entries:
                    for key, value in self._rows(entry).items():
                        state[dt, key] = f"{state.get((dt, key), '')}+{value}"
        return state

    def changelog(self, snapshot: Snapshot) -> list[tuple[str, str]]:
        """Return what a stream reads of one snapshot or long-lived changelog: texts of files by folder."""
        if self.schema.options.get("changelog-producer", "none") != "none":
            manifests = self.context.manifests.changelog(snapshot)
        elif snapshot.commit_kind == "APPEND":
            manifests = self.context.manifests.delta(snapshot)
        else:
            manifests = []
        entries = (entry for manifest in manifests for entry in self.context.manifests.entries(manifest))
        return sorted(
            (self.folders.bucket(entry.partition, entry.bucket), self._read(entry))
            for entry in entries
            if entry.kind is EntryKind.ADD
        )

    def live(self, snapshot: Snapshot) -> dict[tuple[bytes, int], frozenset[str]]:
        """Return the names of the live files by partition and bucket."""
        return {
            place: frozenset(entry.file.file_name for entry in entries)
            for place, entries in self._buckets(snapshot).items()
        }

    def _buckets(self, snapshot: Snapshot) -> dict[tuple[bytes, int], list[ManifestEntry]]:
        # Another handle, which remembers nothing.
        live = context_of(self.store, self.clock).manifests.live_entries(snapshot)
        found: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for entry in sorted(live, key=lambda entry: entry.file.max_sequence_number):
            found.setdefault((entry.partition, entry.bucket), []).append(entry)
        return found

    def _rows(self, entry: ManifestEntry) -> dict[int, str | None]:
        return {int(key): value for key, value in json.loads(self._read(entry)).items()}

    def _read(self, entry: ManifestEntry) -> str:
        return self.store.read(f"{self.folders.bucket(entry.partition, entry.bucket)}/{entry.file.file_name}").decode()

    def message(self, dt: str, bucket: int, **changes: tuple[DataFile, ...]) -> CommitMessage:
        total = self.schema.table_options.bucket
        return CommitMessage(partition=self._partition(dt), bucket=bucket, total_buckets=total, **changes)

    def _partition(self, dt: str) -> bytes:
        return serialize_row((dt,), [parse_type("STRING NOT NULL")]) if self.partitioned else EMPTY_ROW

    def dt_of(self, entry: ManifestEntry) -> str:
        folder = self.folders.bucket(entry.partition, entry.bucket).rpartition("/")[0]
        return folder.removeprefix("dt=") or "d"


def _merged(files: Iterable[Mapping[int, str | None]]) -> dict[int, str | None]:
    rows: dict[int, str | None] = {}
    for file in files:
        rows.update(file)
    return rows
