"""Tag log: the tags of a table. Each file that we write holds its tag's name, so that exchanged files are detected.

Other engines rename tags by renaming their files, and write files without a name: neither is damage.
Source: docs/format/snapshot.md#tag-file.
"""

import re
from typing import Final

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import Children, StoreReader, read_all
from lakehouse_core.table.layout import TAG_PREFIX, TableLayout
from lakehouse_core.table.snapshot import Tag, parse_tag

_NAME: Final = re.compile(r"tag-(.+)")
# A ring of exchanged files longer than this is not detected.
_LONGEST_RING: Final = 32


class TagLog:
    """Reads the tags of one branch. `store` is rooted at the table."""

    def __init__(self, store: StoreReader, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout

    def names(self) -> list[str]:
        """Return the names of the tags, sorted."""
        return sorted(tag_names(self._store, self._layout))

    def has(self, name: str) -> bool:
        """Return whether there is a tag of this name."""
        return name in self.names()

    def tag(self, name: str) -> Tag:
        """Return one tag. Raises NotFound naming the existing tags, CorruptTable."""
        try:
            return read_tag(self._store, self._layout.tag(name))
        except NotFound as error:
            raise self._not_found(name) from error

    def tag_among_all(self, name: str) -> Tag:
        """Return one tag that is about to be deleted, replaced or renamed, after all others were read.

        Once its file is gone, a copy of it under another name looks like the tag renamed by another engine.
        Raises NotFound naming the existing tags, CorruptTable for any of them.
        """
        tag = self.all().get(name)
        if tag is None:
            raise self._not_found(name)
        return tag

    def all(self) -> dict[str, Tag]:
        """Return all tags by name, names sorted."""

        def read() -> dict[str, Tag]:
            keys = {name: self._layout.tag(name) for name in self.names()}
            found = read_all(self._store, list(keys.values()))
            return {name: tag_in(self._store, key, data) for (name, key), data in zip(keys.items(), found, strict=True)}

        return LISTING.call(
            read,
            on=(NotFound,),
            exhausted=lambda attempts: StorageUnavailable(
                f"{self._store.uri('')}: a tag vanished in each of {attempts} attempts to read all. Try again."
            ),
        )

    def _not_found(self, name: str) -> NotFound:
        known = ", ".join(self.names())
        others = f"The tags are: {known}." if known else "The table has no tags."
        return NotFound(f"Tag {name!r} does not exist. {others}")


def tag_names(store: StoreReader, layout: TableLayout) -> list[str]:
    """Return the names of the tags of a branch, in no order."""
    return tag_names_in(store.children(layout.folders.tags))


def tag_names_in(tags: Children) -> list[str]:
    """Return the names of the tags in a tag folder, in no order."""
    return [match[1] for match in map(_NAME.fullmatch, tags.files) if match]


def read_tag(store: StoreReader, key: str) -> Tag:
    """Return the tag at `key`, of whichever branch. Raises NotFound, CorruptTable, UnsupportedFeature."""
    return tag_in(store, key, store.read(key))


def tag_in(store: StoreReader, key: str, data: bytes) -> Tag:
    """Return the tag in `data`, which `key` holds. Raises CorruptTable, UnsupportedFeature."""
    tag = parse_tag(data, key)
    folder, _, file_name = key.rpartition("/")
    name = file_name.removeprefix(TAG_PREFIX)
    if tag.name is not None and tag.name != name and _is_misplaced(store, folder, name, tag.name, data):
        raise CorruptTable(
            f"{store.uri(key)}: it is the file of tag {tag.name!r}, which has a file of its own: files were exchanged "
            "or copied. Restore them from a copy of the table, or remove the file and create the tag again."
        )
    return tag


def _is_misplaced(store: StoreReader, folder: str, name: str, recorded: str, data: bytes) -> bool:
    """Return whether the file of `name`, which records another name, is a copy of that tag's file, or part of a ring of
    exchanged files.

    A renamed tag is neither: its former name is free, or belongs to a later tag.
    """
    for _ in range(_LONGEST_RING):
        if recorded == name:
            return True
        try:
            other = store.read(f"{folder}/{TAG_PREFIX}{recorded}")
        except NotFound:
            return False
        if other == data:
            return True
        following = parse_tag(other, f"{folder}/{TAG_PREFIX}{recorded}").name
        if following is None or following == recorded:
            return False
        recorded = following
    return False
