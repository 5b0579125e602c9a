"""Effects: count the files, rows and bytes that a commit added and removed."""

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.table.manifest import EntryKind, ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Counts of added and removed files, with their rows (before any merge) and bytes; changelog files are separate.

    A file that only changed its level counts as `upgraded`, not as added or removed.
    """

    files_added: int = 0
    files_removed: int = 0
    files_upgraded: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    changelog_files_added: int = 0
    changelog_rows_added: int = 0


def effects_of(changes: Iterable[FileChanges]) -> Effects:
    """Return the net effect of `changes`, which were applied in this order."""
    added: dict[tuple[bytes, int, str], ManifestEntry] = {}
    removed: dict[tuple[bytes, int, str], ManifestEntry] = {}
    changelog: list[ManifestEntry] = []
    for change in changes:
        for entry in change.entries:
            place = (entry.partition, entry.bucket, entry.file.file_name)
            (added if entry.kind is EntryKind.ADD else removed)[place] = entry
        changelog += change.changelog
    upgraded = added.keys() & removed.keys()
    came = [entry.file for place, entry in added.items() if place not in upgraded]
    went = [entry.file for place, entry in removed.items() if place not in upgraded]
    return Effects(
        files_added=len(came),
        files_removed=len(went),
        files_upgraded=len(upgraded),
        rows_added=sum(file.row_count for file in came),
        rows_removed=sum(file.row_count for file in went),
        bytes_added=sum(file.file_size for file in came),
        bytes_removed=sum(file.file_size for file in went),
        changelog_files_added=len(changelog),
        changelog_rows_added=sum(entry.file.row_count for entry in changelog),
    )
