"""The ids of the snapshots or changelogs that lie in a folder."""

import re
from typing import Final

from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import CHANGELOG_FOLDER

_SNAPSHOT: Final = re.compile(r"snapshot-([1-9]\d{0,18})")
_CHANGELOG: Final = re.compile(r"changelog-([1-9]\d{0,18})")


def ids_in(store: ObjectStore, folder: str) -> list[int]:
    """Return the ids of the snapshots or changelogs that lie in `folder`, rising."""
    pattern = _CHANGELOG if folder.endswith(CHANGELOG_FOLDER) else _SNAPSHOT
    return sorted(int(match[1]) for match in map(pattern.fullmatch, store.children(folder).files) if match)
