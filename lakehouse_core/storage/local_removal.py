"""Local removal: remove files and folders of a local disk.

Rule: no symbolic link is followed; the link itself is removed. Each folder is opened from its parent's descriptor,
refusing links, and names are removed from open folders, so a link that replaces a folder meanwhile has no effect.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.storage import system_calls
from lakehouse_core.storage.local_files import finishing, sync_names, translated

# The errors that keep an empty folder: it has new content, or another process removed it.
_KEPT = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY, errno.ENOTDIR}


def remove_names(root: str, parts: Sequence[str], names: Sequence[str]) -> list[str] | None:
    """Remove files of the folder `parts` below `root`, durably; ignore missing ones. Return the names that could not be
    removed, None if there is no such folder.

    Raises InvalidRequest when the folder lies behind a symbolic link, StorageUnavailable, WriteOutcomeUnknown.
    """
    left = []
    with _opened(root, parts) as folder:
        if folder is None:
            return None
        for name in names:
            try:
                with suppress(FileNotFoundError):
                    system_calls.unlink(name, inside=folder)
            except OSError:
                left.append(name)
        # The folder is synced, because a name that reappears after a power cut would name files that were deleted
        # later. It is synced for missing names too: the process that removed them may have been killed before its sync.
        with finishing("/".join([root, *parts])):
            sync_names(folder)
    return left


def remove_empty_folders(root: str, parts: Sequence[str]) -> None:
    """Remove the folders at and below `parts` that hold nothing. Raises as `remove_names` does."""
    with _opened(root, parts) as top:
        if top is None:
            return
        for _, names, _, folder in os.fwalk(".", topdown=False, dir_fd=top):
            for name in names:
                _remove_if_empty(name, folder)
    if parts:
        with _opened(root, parts[:-1]) as above:
            if above is not None:
                _remove_if_empty(parts[-1], above)


def remove_folder(root: str, parts: Sequence[str]) -> list[str]:
    """Remove the folder `parts` with its content, or a link without its target. Return the remaining paths below
    `root`.

    Raises as `remove_names` does.
    """
    with _opened(root, parts[:-1]) as above:
        if above is None:
            return []
        left = _emptied(parts, above)
        if not _is_removed(parts[-1], above):
            left.append("/".join(parts))
    return left


def refuse_links(root: str, parts: Sequence[str]) -> None:
    """Raise InvalidRequest if `parts` or a folder above it is a symbolic link."""
    with _opened(root, parts):
        pass


def _emptied(parts: Sequence[str], above: int) -> list[str]:
    """Remove the content of a folder and return the remaining paths; the target of a link is not changed."""
    try:
        top = system_calls.open_folder(parts[-1], inside=above)
    except OSError:
        return []
    try:
        return [
            "/".join([*parts, *path.split("/")[1:], name])
            for path, folders, files, folder in os.fwalk(".", topdown=False, dir_fd=top)
            for name in (*files, *folders)
            if not _is_removed(name, folder)
        ]
    finally:
        _close(top)


@contextmanager
def _opened(root: str, parts: Sequence[str]) -> Iterator[int | None]:
    """Yield the descriptor of the folder `parts` below `root`, None if it does not exist."""
    descriptor = _open(root, parts)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            _close(descriptor)


def _open(root: str, parts: Sequence[str]) -> int | None:
    path = root
    descriptor = None
    try:
        descriptor = system_calls.open_folder(root)
        for part in parts:
            path = f"{path}/{part}"
            above, descriptor = descriptor, system_calls.open_folder(part, inside=descriptor)
            _close(above)
    except OSError as error:
        if descriptor is not None:
            _close(descriptor)
        if os.path.islink(path):
            raise InvalidRequest(
                f"Path {path!r} is a symbolic link to {os.path.realpath(path)!r}, whose target is never moved or "
                "deleted. Put the folder itself into its place."
            ) from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise translated(error, path) from error
    return descriptor


def _is_removed(name: str, folder: int) -> bool:
    with suppress(OSError):
        system_calls.unlink(name, inside=folder)
        return True
    try:
        # The folder is empty now.
        with suppress(FileNotFoundError):
            system_calls.rmdir(name, inside=folder)
    except OSError:
        return False
    return True


def _remove_if_empty(name: str, folder: int) -> None:
    try:
        system_calls.rmdir(name, inside=folder)
    except OSError as error:
        if error.errno not in _KEPT:
            raise translated(error, name) from error


def _close(descriptor: int) -> None:
    with suppress(OSError):
        system_calls.close(descriptor)
