"""Deliveries: which files of a folder a table has taken. Each file is part of one delivery, which is one commit.

Rule: a delivery is recorded in the table `<database>.file_deliveries` before its files are staged, and never changed.
So a run that was killed continues with the same files under the same number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import glob, has_magic
from os import stat_result
from pathlib import Path

import lakehouse_core as lc
from lakehouse_dagster.pipeline.table_setup import open_table
from lakehouse_dagster.pipeline.table_state import committed_identifier, incarnation

DELIVERIES = "file_deliveries"
_COLUMNS = {
    "target": "STRING NOT NULL",
    "path": "STRING NOT NULL",
    "delivery": "BIGINT",
    "file_size": "BIGINT",
    "modified": "TIMESTAMP_LTZ(3)",
    "row_count": "BIGINT",
}
# Names of files that their writer has not finished, or that mean something to the writer alone.
_PASSED_OVER_FIRST = (".", "_")
_PASSED_OVER_LAST = (".tmp", ".part", ".crdownload")
# As often two runs may record a delivery of one table at the same moment.
_MOST_RACES = 10
# Snapshots of the table of deliveries, which has no maintenance assets.
_RETAINED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as it was found."""

    path: Path
    size: int
    modified: datetime

    @classmethod
    def of(cls, path: Path, stat: stat_result) -> "FoundFile":
        return cls(path=path, size=stat.st_size, modified=datetime.fromtimestamp(stat.st_mtime_ns // 10**6 / 1000, UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A file that was read through, and the number of its rows."""

    file: FoundFile
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """A file of a delivery, as it was when the delivery was recorded."""

    file: FoundFile
    row_count: int
    delivery: int


def find_files(pattern: str) -> list[FoundFile]:
    """Return the files that match `pattern` (`**` matches any depth), oldest first; files of one time by their path.

    Hidden files, files of temporary names (`.tmp`, `.part`) and what vanishes meanwhile are left out.
    """
    found = []
    for path in map(Path, glob(pattern, recursive=True)):
        if path.name.startswith(_PASSED_OVER_FIRST) or path.name.endswith(_PASSED_OVER_LAST) or not path.is_file():
            continue
        try:
            found.append(FoundFile.of(path, path.stat()))
        except FileNotFoundError:
            continue
    return sorted(found, key=lambda file: (file.modified, file.path))


def fixed_folder(pattern: str) -> Path:
    """Return the deepest folder that each file of a pattern is in."""
    return next(folder for folder in Path(pattern).parents if not has_magic(str(folder)))


def recorded_files(catalog: lc.Catalog, table: lc.Table) -> list[RecordedFile]:
    """Return the files of all deliveries of a table, in the order of the deliveries."""
    log = open_table(catalog, _log_name(table))
    if log is None:
        return []
    rows = log.scan(where=lc.col("target") == _target(table)).to_arrow().to_pylist()
    files = (
        RecordedFile(
            file=FoundFile(path=Path(row["path"]), size=row["file_size"], modified=row["modified"]),
            row_count=row["row_count"],
            delivery=row["delivery"],
        )
        for row in rows
    )
    return sorted(files, key=lambda each: (each.delivery, each.file.modified, each.file.path))


def record_delivery(catalog: lc.Catalog, table: lc.Table, files: Sequence[ReadFile]) -> int | None:
    """Record a delivery of those `files` that no delivery has yet, and return its number; None when none is left.

    Of two runs that record at once, the second one sees what the first one took.
    """
    log = catalog.create_table(
        _log_name(table),
        _COLUMNS,
        primary_keys=["target", "path"],
        options={"bucket": "1"},
        comment="Files that tables have taken, by delivery. Rows are added by the ingest of the tables.",
        exist_ok=True,
    )
    for _ in range(_MOST_RACES):
        recorded = recorded_files(catalog, table)
        known = {each.file.path for each in recorded}
        new = [each for each in files if each.file.path not in known]
        if not new:
            return None
        number = max((each.delivery for each in recorded), default=-1) + 1
        rows = [
            {
                "target": _target(table),
                "path": str(each.file.path),
                "delivery": number,
                "file_size": each.file.size,
                "modified": each.file.modified,
                "row_count": each.row_count,
            }
            for each in new
        ]
        staged = log.stage(rows, commit_user=f"deliveries/{_target(table)}", commit_identifier=number)
        if not log.commit(staged).replayed:
            log.expire_snapshots(retain_max=_RETAINED, retain_min=1)
            return number
    raise lc.CommitConflict(
        f"{table.name}: other runs recorded {_MOST_RACES} deliveries at the same time. Run the ingest again."
    )


def unfinished_deliveries(recorded: Iterable[RecordedFile], table: lc.Table, *, commit_user: str) -> list[int]:
    """Return the numbers of the deliveries that the table has not committed, in their order.

    The last committed one is included while its staged commit is stored: a replay removes it.
    """
    done = committed_identifier(table, commit_user)
    numbers = {each.delivery for each in recorded if done is None or each.delivery > done}
    if done is not None and table.pending(commit_user, done) is not None:
        numbers.add(done)
    return sorted(numbers)


def _log_name(table: lc.Table) -> str:
    database, _, _ = table.name.partition(".")
    return f"{database}.{DELIVERIES}"


def _target(table: lc.Table) -> str:
    """Return what names the table and no other one that has its name later."""
    return f"{table.name}@{incarnation(table)}"
