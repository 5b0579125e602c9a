"""Reading tags: each file of ours holds its tag's name, so that one in the place of another shows.

Other engines rename tags by renaming their files, and write files without a name: neither is damage.
"""

from typing import Final

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TAG_PREFIX
from lakehouse_core.table.snapshot import Tag, parse_tag

# Files that hold each other's names in a ring longer than this are not followed.
_LONGEST_RING: Final = 32


def read_tag(store: ObjectStore, key: str) -> Tag:
    """Return the tag at `key`, of whichever branch. Raises NotFound, CorruptTable, UnsupportedFeature."""
    return tag_in(store, key, store.read(key))


def tag_in(store: ObjectStore, key: str, data: bytes) -> Tag:
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


def _is_misplaced(store: ObjectStore, folder: str, name: str, recorded: str, data: bytes) -> bool:
    """Say whether the file of `name`, which records another name, is a copy of that one's, or in a ring of exchanges.

    A tag that was renamed is not: nobody has its former name, or somebody who came later.
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
