"""Service: what differs between the services that keep objects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.storage.remote.settings import RemoteSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What differs between services.

    `client`: obstore's. `opened`: makes a store of this service. `missing_object`, `missing_bucket`, `missing_upload`
    (in parts; "": never told), and the keys of `advice`: the codes of error answers. In its texts `{act}` is what was
    asked, `{region}` where the bucket is, `{missing}` what a reader may take for the cause.
    `refusals`: the codes by which a condition is refused. `not_done`: those of a write that certainly did not happen,
    beside those that the client knows.
    `client_advice`: by a part of what the client says where there is no code.
    `quotes_versions`: conditions take a version with its quotes. `stale_version`: one that no object has.
    `page_keys`: the most keys of one page of a list. `how_to_give_keys`: what to do where there are no credentials.
    """

    settings: type[RemoteSettings]
    client: Callable[..., Any]
    opened: Callable[[StoreSpec], ObjectStore]
    missing_object: str
    missing_bucket: str
    missing_upload: str
    refusals: frozenset[str]
    not_done: frozenset[str]
    advice: Mapping[str, str]
    client_advice: dict[str, str]
    quotes_versions: bool
    stale_version: str
    page_keys: int
    how_to_give_keys: str
