"""Keys and paths. Rule: every path of the core is built here, and no path leaves its root.

Keys come from schemas, manifests and listings, so they are hostile input: a manifest that names `../../other/t/x` must
not make the core read or delete that file.
"""

import os
import stat
from functools import lru_cache

from lakehouse_core.errors import InvalidRequest


def key_parts(key: str) -> list[str]:
    """Return the parts of `key`, none for "". Raises InvalidRequest for a key that is not a plain relative path."""
    if not key:
        return []
    parts = key.split("/")
    for part in parts:
        if part in ("", ".", ".."):
            raise InvalidRequest(f"Key {key!r}: {_fault_of(part)}. Use a relative path of plain names, as 'a/b/c'.")
    if "\0" in key or "\\" in key:
        raise InvalidRequest(f"Key {key!r}: NUL and backslash are not allowed. Use a relative path, as 'a/b/c'.")
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"Key {key!r}: character {error.start} is half of a surrogate pair.") from error
    return parts


@lru_cache(maxsize=4096)
def joined(prefix: str, key: str) -> str:
    """Return the key of `key` below `prefix`; either may be empty. Raises InvalidRequest as `key_parts` does."""
    return "/".join([*key_parts(prefix), *key_parts(key)])


def child(root: str, key: str, folders: set[str] | None = None) -> str:
    """Return the local path of `key` below `root`, which is absolute and free of symbolic links.

    `folders`: paths that earlier calls found to be real folders; they are not looked at again, and new ones are added.
    Raises InvalidRequest when a part is hostile or a symbolic link on the way leaves `root` or leads nowhere, OSError
    when the disk does not answer.
    """
    path = root.rstrip("/")
    looks = True
    for name in key_parts(key):
        path = f"{path}/{name}"
        if not looks or (folders and path in folders):
            continue
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            # No name below a missing one can be a link.
            looks = False
            continue
        if stat.S_ISDIR(mode) and folders is not None:
            folders.add(path)
        if stat.S_ISLNK(mode) and not leads_within(path, root):
            target = os.path.realpath(path)
            if _is_within(target, root):
                raise InvalidRequest(
                    f"Path {path!r}: it is a symbolic link to {target!r}, which does not exist. Remove the link."
                )
            raise InvalidRequest(
                f"Path {path!r} leaves {root!r}: it is a symbolic link to {target!r}. "
                "Move the data below the root, or open its real folder."
            )
    return path or "/"


def leads_within(link: str, root: str) -> bool:
    """Return whether a symbolic link leads to an existing file or folder below `root`."""
    try:
        return _is_within(os.path.realpath(link, strict=True), root)
    except OSError:
        return False


def is_hidden(name: str) -> bool:
    """Return whether readers must ignore the name: temporary files of unfinished writes."""
    return name.startswith(".")


def is_temp(name: str) -> bool:
    """Return whether `temp_name` made the name."""
    return is_hidden(name) and name.endswith(".tmp")


def temp_name(name: str, uuid: str) -> str:
    """Return the hidden name under which `name` is written before it becomes visible, within the limit of name
    lengths.
    """
    return f".{name.encode('utf-8', 'surrogateescape')[:128].decode('utf-8', 'ignore')}.{uuid}.tmp"


def _fault_of(part: str) -> str:
    return "it has an empty part" if not part else f"the part {part!r} is not allowed"


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
