"""Success files: files with two times which say that a partition is done, or that a tag is there.

Source: docs/semantics/maintenance.md#marking-partitions-done, docs/semantics/maintenance.md#automatic-tags.
"""

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.strict_json import json_text, strict_json
from lakehouse_core.storage.object_store import ObjectStore


def write_success_file(store: ObjectStore, key: str, now_millis: int) -> None:
    """Write the file, with this time as its modification. One that is there keeps its creation time."""
    times = {"creationTime": _created_millis(store, key, now_millis), "modificationTime": now_millis}
    store.write({key: json_text(times).encode()})


def _created_millis(store: ObjectStore, key: str, now_millis: int) -> int:
    found = store.read_versioned(key)
    if found is None:
        return now_millis
    try:
        created = strict_json(found[0], key).get("creationTime")
    except CorruptTable:
        # The file holds nothing but times, so a damaged one is written anew.
        return now_millis
    return created if isinstance(created, int) and not isinstance(created, bool) else now_millis
