"""Files source: the rows of files that match a pattern.

Rule: a file that was read through is part of one delivery; a file that cannot be read stays to be done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline import (
    FoundFile,
    ReadFile,
    RecordedFile,
    committed_identifier,
    find_files,
    fixed_folder,
    incarnation,
    record_delivery,
    recorded_files,
    unfinished_deliveries,
)
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.row_source import (
    Behind,
    Delivery,
    Expected,
    RowSource,
    SourceCheck,
    delivery_user,
    table_of,
)
from lakehouse_dagster.specs import ROW_KINDS, FilesSpec, WriteMode

_KIND = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource(RowSource):
    """The rows of the files that match `pattern`, one batch for each delivery. `key` is the asset of the table."""

    spec: FilesSpec
    pattern: str
    key: dg.AssetKey
    upstream: dg.AssetKey
    # The key of the lake's resource.
    lake_resource: str
    write_mode: WriteMode
    rowkind_column: str | None = None

    @property
    def tells_rows(self) -> bool:
        # A key table has fewer rows where keys repeat, and an overwrite removes rows of earlier files.
        return self.write_mode == "append"

    @property
    def tells_news(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"the files {self.spec.path}"

    @property
    def checks(self) -> Sequence[SourceCheck]:
        return (
            SourceCheck(
                name="files_loaded",
                description="Every file that is there is loaded; a file that cannot be read stays to be done.",
                passed="all files are loaded",
                count="files_unloaded",
                faults=self.unloaded,
            ),
        )

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        lakehouse: LakehouseResource = getattr(context.resources, self.lake_resource)
        catalog = lakehouse.local_catalog()
        table = table_of(catalog, self.key)
        user = delivery_user(_KIND, table, self.key)
        paths: dict[int, list[Path]] = {}

        def batches_to_stage(opened: lc.Table) -> list[Batch]:
            found, recorded = find_files(self.pattern), recorded_files(catalog, opened)
            for path in _changed(found, recorded):
                context.log.warning(
                    f"{opened.name}: {path} has changed since it was loaded, and is not loaded again. Give new rows a "
                    "new file name."
                )
            good, refused = self.check(opened, _new(found, recorded))
            for each in refused:
                context.log.error(f"{opened.name}: not loaded: {each}")
            if record_delivery(catalog, opened, good) is not None:
                recorded = recorded_files(catalog, opened)
            for file in recorded:
                paths.setdefault(file.delivery, []).append(file.file.path)
            return self._batches(recorded, opened, user)

        return Delivery(
            user=user,
            version=incarnation(table),
            snapshot_id=0,
            batches_to_stage=batches_to_stage,
            batches_to_commit=lambda opened: self._batches(recorded_files(catalog, opened), opened, user),
            read=lambda batch: self.rows(paths[batch.identifier]),
        )

    def rows(self, paths: Sequence[Path]) -> lc.RowFiles:
        """Return the rows of files, in the format of the specification."""
        return lc.RowFiles(paths, format=self.spec.format, delimiter=self.spec.delimiter, null=self.spec.null)

    def check(self, table: lc.Table, files: Iterable[FoundFile]) -> tuple[list[ReadFile], list[str]]:
        """Read each file through; return those that the table can take, and a sentence for each of the others."""
        good: list[ReadFile] = []
        refused: list[str] = []
        for file in files:
            try:
                batches = self.rows([file.path]).rows(
                    table.schema.fields, rowkind_column=self.rowkind_column, missing="null"
                )
                row_count = sum(self._counted(batch, file.path) for batch in batches)
                if FoundFile.of(file.path, file.path.stat()) != file:
                    refused.append(f"{file.path}: the file changed while it was read. A later run takes it.")
                    continue
            except lc.InvalidRequest as error:
                refused.append(str(error))
            except OSError as error:
                refused.append(f"{file.path}: cannot be read: {error}. Correct it; a later run takes it.")
            else:
                good.append(ReadFile(file=file, row_count=row_count))
        return good, refused

    def _counted(self, batch: pa.RecordBatch, path: Path) -> int:
        """Return the number of rows. Raises InvalidRequest for a row kind that a table does not take."""
        if self.rowkind_column is not None:
            for kind in pc.unique(batch.column(self.rowkind_column)).to_pylist():
                if kind not in ROW_KINDS:
                    raise lc.InvalidRequest(
                        f"{path}: column {self.rowkind_column!r}: found {kind!r}, expected one of "
                        f"{', '.join(ROW_KINDS)}. Correct the file; a later run takes it."
                    )
        rows: int = batch.num_rows
        return rows

    def unloaded(self, table: lc.Table, resources: Any) -> list[str]:
        """Return a sentence for each file that is there and that no delivery has."""
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        new = _new(find_files(self.pattern), recorded_files(lakehouse.local_catalog(), table))
        good, refused = self.check(table, new)
        return [*refused, *(f"{each.file.path}: not loaded yet. Run the ingest." for each in good)]

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        done = committed_identifier(table, delivery_user(_KIND, table, self.key))
        recorded = recorded_files(lakehouse.local_catalog(), table)
        rows = sum(each.row_count for each in recorded if done is not None and each.delivery <= done)
        return rows, None if done is None else f"delivery {done}"

    def behind(self, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance) -> Behind:
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        recorded = [] if table is None else recorded_files(lakehouse.local_catalog(), table)
        done = None if table is None else committed_identifier(table, delivery_user(_KIND, table, self.key))
        # A delivery without rows leaves no commit.
        with_rows = {each.delivery for each in recorded if each.row_count > 0}
        if not (folder := fixed_folder(self.pattern)).is_dir():
            fault = f"{self.spec.path}: found no folder {folder}. Make it, or correct the path: no file can be loaded."
            return Behind(source=self.spec.path, unit="file", fault=fault)
        found = find_files(self.pattern)
        left = [each.file for each in recorded if each.delivery in with_rows and (done is None or each.delivery > done)]
        waiting = [*left, *_new(found, recorded)]
        return Behind(
            source=self.spec.path,
            unit="file",
            waiting=tuple(str(file.path) for file in waiting),
            since=min(filter(None, (_arrived(file.path) for file in waiting)), default=None),
            newest=str(found[-1].path) if found else "",
            taken=next((str(each.file.path) for each in reversed(recorded) if each.file not in left), ""),
        )

    def _batches(self, recorded: Iterable[RecordedFile], table: lc.Table, user: str) -> list[Batch]:
        numbers = unfinished_deliveries(recorded, table, commit_user=user)
        # An overwrite replaces what it saw when it was staged, so the one before it must be committed then.
        due = numbers[:1] if self.write_mode == "overwrite" else numbers
        return [Batch(key=str(number), identifier=number) for number in due]


def _arrived(path: Path) -> datetime | None:
    """Return when a file came to be where it is: one that was moved there keeps its time of modification."""
    try:
        return datetime.fromtimestamp(path.stat().st_ctime, UTC)
    except OSError:
        return None


def _changed(found: Iterable[FoundFile], recorded: Iterable[RecordedFile]) -> list[Path]:
    known = {each.file.path: each.file for each in recorded}
    return [file.path for file in found if known.get(file.path, file) != file]


def _new(found: Iterable[FoundFile], recorded: Iterable[RecordedFile]) -> list[FoundFile]:
    known = {each.file.path for each in recorded}
    return [file for file in found if file.path not in known]
