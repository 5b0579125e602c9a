"""Opening: open a store by its address."""

import os
import re
from collections.abc import Callable
from typing import assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.storage.local import LocalStore
from lakehouse_core.storage.memory import MemoryStore
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec


def open_store(spec: StoreSpec) -> ObjectStore:
    """Return the store that `spec` describes. A memory store is found only in the process that made it."""
    match spec.scheme:
        case "file":
            return LocalStore(spec.root)
        case "memory":
            name, _, prefix = spec.root.partition("/")
            return MemoryStore(name, prefix=prefix)
        case "s3":
            return s3_store(spec)
        case _:
            assert_never(spec.scheme)


def s3_store(spec: StoreSpec) -> ObjectStore:
    """Return the S3 store that `spec` describes. Raises InvalidRequest where the extra `s3` is not installed."""
    try:
        from lakehouse_core.storage.s3 import S3Store  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise InvalidRequest(
            f"Warehouse s3://{spec.root}: the package obstore is not installed. Run pip install 'paimon-lakehouse[s3]'."
        ) from error
    return S3Store(spec)


def inside(root: ObjectStore) -> Callable[[StoreSpec], ObjectStore]:
    """Return the function by which tasks of this process open stores: it returns `root` itself, or `root.at(…)`.

    So properties of `root`, such as injected faults or a virtual clock, hold for tasks, too.
    """

    def opened(spec: StoreSpec) -> ObjectStore:
        whole = root.spec
        if spec == whole:
            return root
        below = f"{whole.root.rstrip('/')}/"
        if spec.scheme != whole.scheme or not spec.root.startswith(below):
            raise InvalidRequest(
                f"{spec.scheme}:{spec.root}: expected a store at or below {whole.scheme}:{whole.root}, which the "
                "engine of this task has. Give the table's catalog an engine of its own store."
            )
        return root.at(spec.root.removeprefix(below))

    return opened


def parse_location(text: str) -> StoreSpec:
    """Return the address of a warehouse: a path (relative to the working folder; `~` is a user's home folder), a
    file:// URI, or s3://bucket/prefix.

    Percent signs in a URI are not decoded, as in Hadoop's paths. Raises InvalidRequest, or UnsupportedFeature for
    schemes that are not supported yet.
    """
    scheme, colon, rest = text.partition(":")
    if not text.strip() or "\0" in text or "\n" in text:
        raise InvalidRequest(f"Warehouse {shown(text)}: expected a path, a file:// URI or s3://bucket/prefix.")
    if not (colon and _SCHEME.fullmatch(scheme)):
        return _on_disk(text, os.path.abspath(home_expanded(text)))
    if scheme == "memory":
        return StoreSpec("memory", rest.lstrip("/"))
    if scheme == "s3":
        return StoreSpec("s3", rest.strip("/"))
    if scheme != "file":
        raise UnsupportedFeature(
            f"Warehouse {shown(text)}: stores of {scheme}: are not supported yet. Use a file path, or s3://bucket/prefix."
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


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+")
