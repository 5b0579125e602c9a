"""Opening: open a store by its address."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.storage.local import LocalStore
from lakehouse_core.storage.memory import MemoryStore
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.storage.remote.azure_settings import AzureSettings
from lakehouse_core.storage.remote.s3_settings import S3Settings
from lakehouse_core.storage.remote.settings import RemoteSettings, with_settings

if TYPE_CHECKING:
    from lakehouse_core.storage.remote.store import RemoteStore


def open_store(spec: StoreSpec) -> ObjectStore:
    """Return the store that `spec` describes. A memory store is found only in the process that made it."""
    match spec.scheme:
        case "file":
            return LocalStore(spec.root, is_table=spec.is_table)
        case "memory":
            name, _, prefix = spec.root.partition("/")
            return MemoryStore(name, prefix=prefix, is_table=spec.is_table)
        case "s3" | "az":
            return _remote_store(spec)
        case _:
            assert_never(spec.scheme)


def open_warehouse(spec: StoreSpec) -> ObjectStore:
    """Return the store at the root of a warehouse, for its writers. Where a database decides which of them wins, they
    are refused unless they ask it.
    """
    if spec.scheme in ("file", "memory"):
        return open_store(spec)
    store = _remote_store(spec)
    from lakehouse_core.storage.remote.store import for_writers  # noqa: PLC0415

    return for_writers(store)


def _remote_store(spec: StoreSpec) -> "RemoteStore":
    """Return the store over a network that `spec` describes. Raises InvalidRequest where its extra is not installed."""
    try:
        if spec.scheme == "s3":
            from lakehouse_core.storage.remote.s3 import s3_store as opened  # noqa: PLC0415
        else:
            from lakehouse_core.storage.remote.azure import azure_store as opened  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        extra = "s3" if spec.scheme == "s3" else "azure"
        raise InvalidRequest(
            f"Warehouse {spec.scheme}://{spec.root}: the package obstore is not installed. Run pip install "
            f"'paimon-lakehouse[{extra}]'."
        ) from error
    return opened(spec)


def with_storage(location: StoreSpec, storage: Mapping[str, str]) -> StoreSpec:
    """Return the location with the settings of `connect(storage=…)`. Raises InvalidRequest."""
    if kind := _REMOTE.get(location.scheme):
        return with_settings(kind, location, storage)
    if storage:
        raise InvalidRequest(
            f"connect: storage has the settings {shown(list(storage))}, but a store of {location.scheme}: takes none. "
            "Leave storage out."
        )
    return location


def inside(root: ObjectStore) -> Callable[[StoreSpec], ObjectStore]:
    """Return the function by which tasks of this process open stores: it returns `root` itself, or `root.at(…)`.

    So properties of `root`, such as injected faults or a virtual clock, hold for tasks, too.
    """

    def opened(spec: StoreSpec) -> ObjectStore:
        whole = root.spec
        if replace(spec, is_table=whole.is_table) == whole:
            return root
        below = f"{whole.root.rstrip('/')}/"
        if spec.scheme != whole.scheme or not spec.root.startswith(below):
            raise InvalidRequest(
                f"{spec.scheme}:{spec.root}: expected a store at or below {whole.scheme}:{whole.root}, which the "
                "engine of this task has. Give the table's catalog an engine of its own store."
            )
        return root.at(spec.root.removeprefix(below), is_table=spec.is_table)

    return opened


def parse_location(text: str) -> StoreSpec:
    """Return the address of a warehouse: a path (relative to the working folder; `~` is a user's home folder), a
    file:// URI, s3://bucket/prefix, or az://container/prefix.

    Percent signs in a URI are not decoded, as in Hadoop's paths. Raises InvalidRequest, or UnsupportedFeature for
    schemes that are not supported yet.
    """
    scheme, colon, rest = text.partition(":")
    if not text.strip() or "\0" in text or "\n" in text:
        raise InvalidRequest(f"Warehouse {shown(text)}: expected {EXPECTED_ADDRESS}.")
    if not (colon and _SCHEME.fullmatch(scheme)):
        return _on_disk(text, os.path.abspath(home_expanded(text)))
    if scheme == "memory":
        return StoreSpec("memory", rest.lstrip("/"))
    if scheme == "s3":
        return StoreSpec("s3", rest.strip("/"))
    if scheme == "az":
        return StoreSpec("az", rest.strip("/"))
    if scheme in _OTHER_SCHEMES:
        raise InvalidRequest(f"Warehouse {shown(text)}: found {scheme}:, expected {_OTHER_SCHEMES[scheme]}.")
    if scheme != "file":
        raise UnsupportedFeature(
            f"Warehouse {shown(text)}: stores of {scheme}: are not supported yet. Use {EXPECTED_ADDRESS}."
        )
    path = rest
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        path = slash + below
        if host not in ("", "localhost"):
            raise InvalidRequest(
                f"Warehouse {shown(text)}: found the host {shown(host)}, expected a file URI without one."
            )
    if not path.startswith("/"):
        raise InvalidRequest(f"Warehouse {shown(text)}: expected an absolute path, as in file:///data/warehouse.")
    return _on_disk(text, os.path.normpath(path))


def has_conditions(spec: StoreSpec) -> bool:
    """Return whether a store takes conditional writes, as its settings say."""
    return dict(spec.settings).get("conditional-writes") != "false"


def home_expanded(path: str) -> str:
    """Return the path with a `~` or `~user` at its beginning replaced by that home folder.

    A folder whose own name begins with `~` is written `./~name`. Raises InvalidRequest for a user that does not exist.
    """
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        user = expanded.partition("/")[0]
        raise InvalidRequest(
            f"Path {shown(path)}: user {shown(user)} does not exist. Write ./ before it for a folder of that name."
        )
    return expanded


def is_there(spec: StoreSpec) -> bool:
    """Return whether the store at `spec` exists: its first object creates it."""
    return spec.scheme != "file" or os.path.isdir(spec.root)


def _on_disk(text: str, path: str) -> StoreSpec:
    existing = path
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if os.path.exists(existing) and not os.path.isdir(existing):
        raise InvalidRequest(
            f"Warehouse {shown(text)}: {existing} is a file. Expected a folder, which need not exist yet."
        )
    return StoreSpec("file", path)


# What an address may be.
EXPECTED_ADDRESS: Final = "a path, a file:// URI, s3://bucket/prefix or az://container/prefix"
_REMOTE: Final[dict[str, type[RemoteSettings]]] = {"s3": S3Settings, "az": AzureSettings}
# What Hadoop's connectors call the same stores.
_OTHER_SCHEMES: Final = {
    "s3a": "s3://bucket/prefix",
    "s3n": "s3://bucket/prefix",
    "abfs": "az://container/prefix",
    "abfss": "az://container/prefix",
    "wasb": "az://container/prefix",
    "wasbs": "az://container/prefix",
}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+")
