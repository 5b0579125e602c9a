"""Check staged commits before they are committed: whether they can be at all.

Rule: what is refused here stays refused, so the data must be staged again. What is not refused may still conflict.
"""

from collections.abc import Sequence

from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.commit.live_files import live_in
from lakehouse_core.execution.commit.staged_files import check_new_files
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.commit.checks import check_schema, check_staged
from lakehouse_core.planning.commit.conflicts import bucket_counts, conflict_error, needs_live_files
from lakehouse_core.planning.commit.file_changes import FileChanges, append_changes, new_files
from lakehouse_core.table.commit_message import Append
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit


def refusals(table: TableContext, staged: Sequence[StagedCommit]) -> list[str | None]:
    """Return for each staged commit why it cannot be committed, None if nothing speaks against it: its files are there,
    and rows that it adds have the bucket count of their partitions.
    """
    if not staged:
        return []
    schema = table.schemas.latest()
    folders = DataLayout(schema)
    changes = [append_changes(each) for each in staged]
    infos = table.store.infos(file.key for each in changes for file in new_files(each, folders))

    def why_not(each: StagedCommit, added: FileChanges) -> str | None:
        try:
            check_staged(each)
            check_schema(each, schema)
            check_new_files(new_files(added, folders), infos)
            if isinstance(each.mode, Append):
                _check_bucket_counts(table, schema, added)
        except LakehouseError as error:
            return str(error)
        return None

    return [why_not(each, added) for each, added in zip(staged, changes, strict=True)]


def _check_bucket_counts(table: TableContext, schema: TableSchema, changes: FileChanges) -> None:
    settings = table.schemas.bucket_settings(schema)
    latest = table.snapshots.latest()
    if latest is None or not needs_live_files(
        changes.kind, changes.entries, bucketing=schema.bucketing, bucket_settings=settings
    ):
        return
    live = live_in(table, latest, changes.partitions, schema)
    if conflicts := bucket_counts(live, changes.entries):
        raise conflict_error(conflicts, schema)
