"""Ids: list the snapshots or changelogs in a folder."""

import re
from typing import Final

from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.layout import TableLayout

_SNAPSHOT: Final = re.compile(r"snapshot-([1-9]\d{0,18})")
_CHANGELOG: Final = re.compile(r"changelog-([1-9]\d{0,18})")


def snapshot_ids(store: StoreReader, layout: TableLayout) -> list[int]:
    """Return the ids of a branch's snapshot files, rising."""
    return _ids(store, layout.snapshot_folder, _SNAPSHOT)


def changelog_ids(store: StoreReader, layout: TableLayout) -> list[int]:
    """Return the ids of a branch's changelog files, rising."""
    return _ids(store, layout.changelog_folder, _CHANGELOG)


def _ids(store: StoreReader, folder: str, name: re.Pattern[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(name.fullmatch, store.children(folder).files) if match)
