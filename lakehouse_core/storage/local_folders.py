"""Local folders: the folders of a local disk, which move as a whole.

Source: docs/reliability/store.md#local-disk.
"""

import os
from collections.abc import Sequence

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.storage.keys import child, key_parts
from lakehouse_core.storage.local_files import finishing, make_folders, reading, rename_folder_new, sync_folder, writing
from lakehouse_core.storage.local_removal import refuse_links, remove_empty_folders, remove_folder


class LocalFolders:
    """The folders of a LocalStore, below its root."""

    def __init__(self, root: str) -> None:
        self._root = root

    def delete(self, prefix: str) -> Sequence[str]:
        return remove_folder(self._root, deletable_parts(prefix))

    def delete_empty(self, prefix: str) -> None:
        remove_empty_folders(self._root, key_parts(prefix))

    def rename(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        for key in (source, target):
            refuse_links(self._root, key_parts(key)[:-1])
        if os.path.islink(old) and os.path.dirname(old) != os.path.dirname(new):
            raise InvalidRequest(
                f"Path {old!r} is a symbolic link to {os.path.realpath(old)!r}, which may lead elsewhere from "
                "another folder. Move its target."
            )
        with writing(new):
            make_folders([os.path.dirname(new)])
            if not rename_folder_new(old, new):
                return False
        with finishing(new):
            for folder in {os.path.dirname(old), os.path.dirname(new)}:
                sync_folder(folder)
        return True

    def _path(self, key: str) -> str:
        with reading(key):
            return child(self._root, key)


def deletable_parts(key: str) -> list[str]:
    """Return the parts of a key. Raises InvalidRequest for the root."""
    parts = key_parts(key)
    if not parts:
        raise InvalidRequest("Key '': the root of the store cannot be deleted. Name an object or a folder.")
    return parts
