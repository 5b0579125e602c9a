"""Tables whose commits are measured: real metadata on the local disk, data files of a hundred zero bytes."""

from dataclasses import dataclass, field
from pathlib import Path

from lakehouse_core.clock import SystemClock
from lakehouse_core.execution.commit.loop import commit
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.context import table_context
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.storage import LocalStore
from lakehouse_core.table.commit_message import Append, CommitMessage
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile, SimpleStats
from lakehouse_core.table.schema import new_schema
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.runtime import local_runtime

FILE_BYTES = 100
_TYPES = [parse_type("BIGINT"), parse_type("STRING")]


@dataclass
class CommitTable:
    """An append table of two columns, as one process sees it."""

    root: str
    clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        store = LocalStore(self.root)
        self.context = table_context("db.t", store, self.clock, self.engine)
        self.schemas = self.context.schemas

    def stage(self, user: str, identifier: int, files: int) -> StagedCommit:
        """Put `files` new data files on the disk, without syncing them, and stage them."""
        folder = Path(self.root, "bucket-0")
        folder.mkdir(exist_ok=True)
        uuid = self.clock.uuid()
        made = tuple(_data_file(f"data-{uuid}-{number}.parquet", identifier) for number in range(files))
        for file in made:
            (folder / file.file_name).write_bytes(bytes(FILE_BYTES))
        return StagedCommit(
            table="db.t",
            commit_user=user,
            commit_identifier=identifier,
            mode=Append(),
            messages=(CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_files=made),),
            schema_id=0,
            base_snapshot_id=self.context.snapshots.ids.latest(),
        )

    def engine(self) -> LocalEngine:
        return LocalEngine(local_runtime(self.context.store, self.clock))

    def commit(self, staged: StagedCommit) -> CommitResult:
        return commit(self.context, staged)


def new_table(root: str) -> CommitTable:
    """Return a new table in the folder `root`."""
    table = CommitTable(root)
    table.schemas.create(new_schema({"k": "BIGINT", "v": "STRING"}, now_millis=table.clock.now_millis()))
    return table


def _data_file(name: str, number: int) -> DataFile:
    return DataFile(
        file_name=name,
        file_size=FILE_BYTES,
        row_count=1000,
        min_sequence_number=0,
        max_sequence_number=999,
        schema_id=0,
        creation_time_millis=0,
        value_stats=SimpleStats(
            min_values=serialize_row((number, "a" * 16), _TYPES),
            max_values=serialize_row((number + 999, "z" * 16), _TYPES),
            null_counts=(0, 0),
        ),
    )
