"""Orphans: files of a table that no root names. Decide which files may be orphans, by their keys.

Rule: only files in places where this format keeps files of its own may be orphans; any other file stays.
Source: docs/reliability/deletion.md#orphans.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.table.layout import INDEX_FOLDER, MANIFEST_FOLDER, STATISTICS_FOLDER, TABLE_FOLDERS

_BUCKET: Final = re.compile(r"bucket-(?:\d+|postpone)")
_TEMPORARY: Final = re.compile(r"\..+\.tmp")
_FOLDERS: Final = (MANIFEST_FOLDER, INDEX_FOLDER, STATISTICS_FOLDER)


class OrphanKind(StrEnum):
    """Where an orphan was found. `temporary`: a file that was being written under a hidden name."""

    BUCKET = "bucket"
    MANIFEST = "manifest"
    INDEX = "index"
    STATISTICS = "statistics"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanFile:
    """A file that may be an orphan; `modified_millis` by the storage's clock."""

    key: str
    kind: OrphanKind
    size: int
    modified_millis: int

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


def orphan_kind(key: str, *, partition_depth: int, data_folder: str) -> OrphanKind | None:
    """Return what a file would be as an orphan, None if it is never one.

    `partition_depth`: the number of the table's partition columns; `data_folder`: the folder of its partitions, "" for
    the table's own.
    """
    *folders, name = key.split("/")
    in_bucket = _is_bucket(folders, partition_depth=partition_depth, data_folder=data_folder)
    if _TEMPORARY.fullmatch(name):
        # Files of a user in a folder that is not the table's may have such names too.
        return OrphanKind.TEMPORARY if in_bucket or not folders or folders[0] in TABLE_FOLDERS else None
    if in_bucket:
        return OrphanKind.BUCKET
    return OrphanKind(folders[0]) if len(folders) == 1 and folders[0] in _FOLDERS else None


def _is_bucket(folders: list[str], *, partition_depth: int, data_folder: str) -> bool:
    above = data_folder.split("/") if data_folder else []
    if folders[: len(above)] != above or len(folders) != len(above) + partition_depth + 1:
        return False
    *partition, bucket = folders[len(above) :]
    return all("=" in part for part in partition) and _BUCKET.fullmatch(bucket) is not None
