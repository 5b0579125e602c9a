"""A table whose data files hold no rows: a commit looks at their names and sizes only. And what can be seen of it."""

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from lakehouse_core.clock import Clock, VirtualClock
from lakehouse_core.execution.commit.loop import commit
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import MemoryStore, ObjectStore
from lakehouse_core.table.commit_message import Append, CommitMessage, WriteMode
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.runtime import local_runtime
from tests.contexts import context_of
from tests.planning.change_vocabulary import data_file, key_schema


@dataclass
class CommitTable:
    """One actor's view of a table. Two of them on one store are two processes."""

    store: ObjectStore = field(default_factory=MemoryStore)
    clock: Clock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        self.context = context_of(self.store, self.clock)
        self.schemas = self.context.schemas

    def written_file(self, file: DataFile, in_partition: bytes = EMPTY_ROW, bucket: int = 0) -> DataFile:
        """Put a file of the recorded size where `file` must lie, and return it."""
        folder = DataLayout(self.schemas.latest()).bucket(in_partition, bucket)
        self.store.write({f"{folder}/{file.file_name}": bytes(file.file_size)})
        return file

    def message(
        self, *, in_partition: bytes = EMPTY_ROW, bucket: int = 0, total_buckets: int = 1, **files: Any
    ) -> CommitMessage:
        """Return the message, with its new files written."""
        for kind in ("new_files", "changelog_files", "compact_after"):
            for file in files.get(kind, ()):
                self.written_file(file, in_partition, bucket)
        return CommitMessage(partition=in_partition, bucket=bucket, total_buckets=total_buckets, **files)

    def staged(
        self, *messages: CommitMessage, user: str = "user", identifier: int = 1, mode: WriteMode | None = None,
        **more: Any,
    ) -> StagedCommit:  # fmt: skip
        """Return the messages as staged now, at the latest snapshot."""
        fields: dict[str, Any] = {"base_snapshot_id": self.context.snapshots.ids.latest()} | more
        return StagedCommit(
            table="db.t",
            commit_user=user,
            commit_identifier=identifier,
            mode=mode or Append(),
            messages=messages,
            schema_id=self.schemas.latest().id,
            **fields,
        )

    def append(self, *names: str, user: str = "user", identifier: int = 1, **where: Any) -> StagedCommit:
        """Stage new files of level 0, each with a key of its own: nothing in them can be overtaken."""
        files = tuple(data_file(name, crc32(name.encode()) >> 1, crc32(name.encode()) >> 1) for name in names)
        return self.staged(self.message(new_files=files, **where), user=user, identifier=identifier)

    def engine(self) -> LocalEngine:
        return LocalEngine(local_runtime(self.store, self.clock))

    def commit(self, staged: StagedCommit) -> CommitResult:
        return commit(self.context, staged)

    def again(self) -> TableContext:
        """Return the table as another process opens it, which remembers nothing."""
        return context_of(self.store, self.clock)

    def live(self, snapshot_id: int | None = None) -> str:
        """Return the live files as `name@level`, sorted."""
        snapshot = (
            self.context.snapshots.latest() if snapshot_id is None else self.context.snapshots.snapshot(snapshot_id)
        )
        if snapshot is None:
            return ""
        entries = self.context.manifests.live_entries(snapshot)
        assert all(entry.kind is EntryKind.ADD for entry in entries)
        return " ".join(sorted(f"{entry.file.file_name}@{entry.file.level}" for entry in entries))

    def history(self) -> str:
        """Return the snapshots as `id kind`, oldest first."""
        return ", ".join(f"{one.id} {one.commit_kind}" for one in self.context.snapshots.history())

    def unreferenced(self) -> list[str]:
        """Return the metadata files that no snapshot names."""
        named = set()
        for snapshot in self.context.snapshots.history():
            lists = (
                snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list,
            )  # fmt: skip
            named |= {name for name in lists if name is not None}
            manifests = [*self.context.manifests.of(snapshot), *self.context.manifests.changelog(snapshot)]
            named |= {manifest.file_name for manifest in manifests}
        return sorted(set(self.store.children("manifest").files) - named)


def commit_table(
    schema: TableSchema | None = None, *, store: ObjectStore | None = None, clock: Clock | None = None
) -> CommitTable:
    """Return a new table (by default: a key INT, one bucket) without snapshots."""
    table = CommitTable(store or MemoryStore(), clock or VirtualClock())
    assert table.schemas.create(schema or key_schema())
    return table


def another_actor(table: CommitTable) -> CommitTable:
    """Return the same table as another process sees it: nothing but the store is shared."""
    return CommitTable(table.store, VirtualClock(seed=99))
