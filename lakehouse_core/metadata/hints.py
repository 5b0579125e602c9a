"""Hints: files that say which snapshot or changelog is the oldest and the newest.

Rule: a wrong or missing hint costs a listing and never correctness.
Source: docs/format/layout.md#hints.
"""

import re
from typing import Final

from lakehouse_core.errors import LakehouseError, NotFound
from lakehouse_core.storage.object_store import ObjectStore, StoreReader

_ID: Final = re.compile(rb"[1-9]\d{0,18}")


def read_hint(store: StoreReader, key: str) -> int | None:
    """Return the id that a hint names; None when the hint is missing or names none."""
    try:
        data = store.read(key)
    except NotFound:
        return None
    return int(data) if _ID.fullmatch(data) else None


def write_hint(store: ObjectStore, key: str, snapshot_id: int) -> None:
    """Write a hint. Best effort: a failure costs the next reader a few probes."""
    try:
        store.write(key, b"%d" % snapshot_id, durable=False)
    except LakehouseError:
        # The commit or expiry that it tells of has happened all the same.
        return
