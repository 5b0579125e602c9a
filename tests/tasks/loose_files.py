"""Tables that exist only as files and their entries: what tasks work on, without snapshots and manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakehouse_core.clock import VirtualClock
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import Predicate, bind
from lakehouse_core.table.schema import TableSchema, new_schema
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.compact import RewriteTask, rewrite_bucket
from lakehouse_core.tasks.read import ReadTask, read_schema, read_split
from lakehouse_core.tasks.runtime import TaskRuntime, local_runtime
from lakehouse_core.tasks.write.input import input_batches
from lakehouse_core.tasks.write.task import WriteTask, write_batches

Place = tuple[bytes, int]


class LooseFiles:
    """The files of one table, by bucket; each write and each compaction is applied at once."""

    def __init__(self, schema: TableSchema, store: Any = None) -> None:
        self.schema = schema
        self.schemas = {schema.id: schema}
        self.store = store if store is not None else MemoryStore()
        self.clock = VirtualClock()
        self.files: dict[Place, list[DataFile]] = {}
        self.changelog: dict[Place, list[DataFile]] = {}
        self._folders: dict[Place, str] = {}

    @property
    def runtime(self) -> TaskRuntime:
        return local_runtime(self.store, self.clock)

    def write(self, data: object, *, rowkind_column: str | None = None, restore: bool = True) -> list[CommitMessage]:
        next_sequence_numbers = {
            place: max(file.max_sequence_number for file in files) + 1 for place, files in self.files.items() if files
        }
        task = WriteTask(
            store=self.store.spec,
            schema=self.schema,
            next_sequence_numbers=next_sequence_numbers if restore else {},
            rowkind_column=rowkind_column,
        )
        batches = input_batches(data, self.schema.fields, rowkind_column=rowkind_column)
        messages = write_batches(task, batches, self.runtime)
        for message in messages:
            place = (message.partition, message.bucket)
            self.files.setdefault(place, []).extend(message.new_files)
            self.changelog.setdefault(place, []).extend(message.changelog_files)
        return messages

    def folder(self, place: Place) -> str:
        """Found by looking: the layout of folders is not what is tested here."""
        if place not in self._folders:
            names = {file.file_name for file in (*self.files[place], *self.changelog.get(place, ()))}
            key = next(info.key for info in self.store.list("") if info.key.rpartition("/")[2] in names)
            self._folders[place] = key.rpartition("/")[0]
        return self._folders[place]

    def read(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        *,
        raw: bool = False,
        with_row_kinds: bool = False,
    ) -> pa.Table:
        names = self.schema.column_names if columns is None else tuple(columns)
        tasks = self.read_tasks(names, predicate, raw=raw, with_row_kinds=with_row_kinds)
        return pa.Table.from_batches(
            [batch for task in tasks for batch in read_split(task, self.runtime)], read_schema(tasks[0])
        )

    def count(self) -> int:
        """Rows after the merge, read without any column."""
        return sum(batch.num_rows for task in self.read_tasks(()) for batch in read_split(task, self.runtime))

    def read_tasks(
        self,
        columns: Sequence[str],
        predicate: Predicate | None = None,
        *,
        raw: bool = False,
        with_row_kinds: bool = False,
    ) -> list[ReadTask]:
        """One task for each bucket."""
        return [
            ReadTask(
                store=self.store.spec,
                schema=self.schema,
                split=Split(
                    snapshot_id=1,
                    partition=place[0],
                    bucket=place[1],
                    total_buckets=1,
                    folder=self.folder(place),
                    files=tuple(files),
                    raw=raw,
                ),
                columns=tuple(columns),
                predicate=None if predicate is None else bind(predicate, self.schema.fields),
                file_schemas=self.schemas,
                with_row_kinds=with_row_kinds,
            )
            for place, files in self.files.items()
        ]

    def compact(self) -> list[CommitMessage]:
        messages = []
        for place, files in self.files.items():
            plan = plan_bucket(files, self.schema)
            if plan is None:
                continue
            message = rewrite_bucket(self.rewrite_task(place, plan), self.runtime)
            gone = {(file.file_name, file.level) for file in message.compact_before}
            files[:] = [file for file in files if (file.file_name, file.level) not in gone] + [*message.compact_after]
            messages.append(message)
        return messages

    def rewrite_task(self, place: Place, plan: Any) -> RewriteTask:
        """The task that carries out the plan of one bucket."""
        return RewriteTask(
            store=self.store.spec,
            schema=self.schema,
            file_schemas=self.schemas,
            partition=place[0],
            bucket=place[1],
            total_buckets=1,
            folder=self.folder(place),
            plan=plan,
        )

    def only_file(self) -> bytes:
        """The bytes of the one file that there is."""
        ((place, (file,)),) = self.files.items()
        return bytes(self.store.read(f"{self.folder(place)}/{file.file_name}"))

    def spoiled(self, data: bytes, *, is_known: bool = True) -> LooseFiles:
        """The same table with other bytes in its only file; where that `is_known`, its entry has their number."""
        ((place, (file,)),) = self.files.items()
        copy = LooseFiles(self.schema, MemoryStore())
        copy.store.write({f"{self.folder(place)}/{file.file_name}": data})
        copy.files = {place: [replace(file, file_size=len(data)) if is_known else file]}
        return copy

    def all_files(self) -> list[DataFile]:
        return [file for files in self.files.values() for file in files]

    def names_on_disk(self) -> set[str]:
        return {info.key.rpartition("/")[2] for info in self.store.list("")}


def key_table(
    fields: Mapping[str, str] | None = None,
    *,
    primary_keys: Sequence[str] = ("k",),
    partition_keys: Sequence[str] = (),
    store: Any = None,
    **options: str,
) -> LooseFiles:
    """A table `k BIGINT, v STRING` with one bucket, unless told; options with "_" for "-" and "__" for "."."""
    schema = new_schema(
        fields or {"k": "BIGINT", "v": "STRING"},
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options={"bucket": "1", **_named(options)},
        now_millis=0,
    )
    return LooseFiles(schema, store)


def append_table(
    fields: Mapping[str, str] | None = None, *, partition_keys: Sequence[str] = (), store: Any = None, **options: str
) -> LooseFiles:
    """A table `k BIGINT, v STRING` without keys, and without buckets unless told."""
    schema = new_schema(
        fields or {"k": "BIGINT", "v": "STRING"},
        partition_keys=partition_keys,
        options=_named(options),
        now_millis=0,
    )
    return LooseFiles(schema, store)


def rows(*pairs: tuple[Any, ...], names: Iterable[str] = ("k", "v")) -> list[dict[str, Any]]:
    return [dict(zip(names, pair, strict=True)) for pair in pairs]


def _named(options: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
