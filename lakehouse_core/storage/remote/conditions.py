"""Conditions: whether a store honours the conditions of writes. Each process asks a store once, before its first write.

Source: docs/reliability/store.md#object-stores.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lakehouse_core.errors import StorageUnavailable, UnsupportedFeature
from lakehouse_core.storage.remote.requests import Requests, or_none
from lakehouse_core.storage.remote.settings import RemoteSettings

_PROBED: Final[dict[RemoteSettings, bool]] = {}
_PROBING: Final = threading.Lock()


def check_conditions(requests: Requests, temp_key: Callable[[str], str]) -> None:
    """Raise UnsupportedFeature if the store ignores the conditions of writes. `temp_key` makes a fresh hidden key."""
    settings = requests.settings
    if not settings.has_conditions:
        # A database decides.
        return
    with _PROBING:
        if settings not in _PROBED:
            _PROBED[settings] = _honours_conditions(requests, temp_key("probe"))
    if not _PROBED[settings]:
        raise UnsupportedFeature(
            f"{settings.address} at {settings.endpoint or settings.service}: the store ignores If-None-Match or "
            "If-Match, so two writers could overwrite each other's snapshots. Nothing was written. Use a store with "
            "conditional writes, or give storage={'conditional-writes': 'false'} and a SQL catalog in all writers."
        )


def _honours_conditions(requests: Requests, key: str) -> bool:
    try:
        if not requests.put_if(key, b"1", "create") or requests.put_if(key, b"2", "create"):
            return False
        found = or_none(requests.get)(key)
        stale = {"e_tag": requests.service.stale_version}
        if found is None or found[0] != b"1" or requests.put_if(key, b"3", stale):
            return False
        return requests.put_if(key, b"4", {"e_tag": found[1]}) and requests.get(key)[0] == b"4"
    finally:
        with suppress(StorageUnavailable):
            requests.delete([key])
