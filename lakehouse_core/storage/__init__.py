"""Storage: whole objects under string keys, the stores' contract and its implementations."""

from lakehouse_core.storage.faulty import Call, Fault, FaultKind, FaultyStore, ProcessDied
from lakehouse_core.storage.keys import child, is_hidden, is_temp
from lakehouse_core.storage.local import LocalStore
from lakehouse_core.storage.memory import MemoryStore
from lakehouse_core.storage.object_store import (
    Children,
    Folders,
    ObjectInfo,
    ObjectStore,
    StoreReader,
    StoreSpec,
    delete_folder,
    read_all,
)
from lakehouse_core.storage.opening import (
    EXPECTED_ADDRESS,
    has_conditions,
    home_expanded,
    inside,
    is_there,
    open_store,
    open_warehouse,
    parse_location,
    with_storage,
)
from lakehouse_core.storage.secrets import has_secret, is_secret_setting

__all__ = [
    "EXPECTED_ADDRESS",
    "Call",
    "Children",
    "Fault",
    "FaultKind",
    "FaultyStore",
    "Folders",
    "LocalStore",
    "MemoryStore",
    "ObjectInfo",
    "ObjectStore",
    "ProcessDied",
    "StoreReader",
    "StoreSpec",
    "child",
    "delete_folder",
    "has_conditions",
    "has_secret",
    "home_expanded",
    "inside",
    "is_hidden",
    "is_secret_setting",
    "is_temp",
    "is_there",
    "open_store",
    "open_warehouse",
    "parse_location",
    "read_all",
    "with_storage",
]
