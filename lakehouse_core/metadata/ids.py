"""Ids: list the snapshots or changelogs in a folder. Source: docs/format/layout.md#directory-layout."""

import re
from typing import Final

from lakehouse_core.storage.object_store import Children, StoreReader
from lakehouse_core.table.layout import TableLayout

_SNAPSHOT: Final = re.compile(r"snapshot-([1-9]\d{0,18})")
_CHANGELOG: Final = re.compile(r"changelog-([1-9]\d{0,18})")


def snapshot_ids(store: StoreReader, layout: TableLayout) -> list[int]:
    """Return the ids of a branch's snapshot files, rising."""
    return _ids_in(store.children(layout.folders.snapshots), _SNAPSHOT)


def changelog_ids(store: StoreReader, layout: TableLayout) -> list[int]:
    """Return the ids of a branch's changelog files, rising."""
    return changelog_ids_in(store.children(layout.folders.changelogs))


def changelog_ids_in(changelogs: Children) -> list[int]:
    """Return the ids of the changelog files in a changelog folder, rising."""
    return _ids_in(changelogs, _CHANGELOG)


def _ids_in(folder: Children, name: re.Pattern[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(name.fullmatch, folder.files) if match)
