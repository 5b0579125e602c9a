"""Clients of a service, by the package obstore: one for the same settings, credentials and number of retries.

Rule: a forked process has none, because the threads behind a client are gone there.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from lakehouse_core.storage.forked import forked_error
from lakehouse_core.storage.remote.service import Service
from lakehouse_core.storage.remote.settings import Credentials, RemoteSettings, given_keys

# How often a client repeats a request that may be repeated.
READ_RETRIES: Final = 5
# Its wait before the first repetition; each further wait is random and may be twice as long.
FIRST_WAIT_SECONDS: Final = 0.1
# The processes that were forked from one that had loaded this module.
_FORKED: Final[set[int]] = set()


def client(service: Service, settings: RemoteSettings, *, uri: str, is_repeated: bool = True) -> Any:
    """Return a client; it repeats no request unless `is_repeated`. `uri` names the store in messages.

    Raises StorageUnavailable in a forked process; CredentialsMissing where the keys were given to another one, or a
    profile has none; obstore's errors for settings that it does not take.
    """
    if os.getpid() in _FORKED:
        raise forked_error(uri)
    return _client(service.client, settings, READ_RETRIES if is_repeated else 0, given_keys(settings))


@lru_cache(maxsize=32)
def _client(new: Callable[..., Any], settings: RemoteSettings, retries: int, keys: Credentials | None) -> Any:
    """Return a client. It holds the credentials that were given: do not show or send it."""
    timeout = f"{settings.timeout_seconds}s"
    provider = settings.keys_provider()
    return new(
        settings.bucket,
        **settings.client_config(),
        **dict(() if keys is None else keys.config),
        **({} if provider is None else {"credential_provider": provider}),
        client_options={"allow_http": settings.allow_http, "timeout": timeout, "connect_timeout": timeout},
        retry_config={
            "max_retries": retries,
            "retry_timeout": timedelta(seconds=3 * settings.timeout_seconds),
            "backoff": {"init_backoff": timedelta(seconds=FIRST_WAIT_SECONDS)},
        },
    )


os.register_at_fork(after_in_child=lambda: _FORKED.add(os.getpid()))
