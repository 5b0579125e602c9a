"""Hints: files with the id of the oldest or newest snapshot or changelog.

Rule: a wrong or missing hint costs a listing, and never gives a wrong result.
Source: docs/format/layout.md#hints.
"""

import re
from typing import Final

from lakehouse_core.errors import LakehouseError
from lakehouse_core.metadata.look import Look
from lakehouse_core.storage.object_store import ObjectStore

_ID: Final = re.compile(rb"[1-9]\d{0,18}")


def read_hint(look: Look, key: str) -> int | None:
    """Return the id in a hint; None if the hint is missing or is not an id."""
    data = look.get(key)
    return int(data) if data is not None and _ID.fullmatch(data) else None


def write_hint(store: ObjectStore, key: str, snapshot_id: int) -> None:
    """Write a hint. A failure is ignored, and costs the next reader a few requests."""
    try:
        store.write({key: b"%d" % snapshot_id}, durable=False)
    except LakehouseError:
        # The commit or expiry before the hint has succeeded.
        return
