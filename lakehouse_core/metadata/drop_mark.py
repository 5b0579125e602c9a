"""Drop mark: an object that a call holds while it removes a table's objects, in a store whose folders do not move.

Its content is the token of the call and a number that each renewal raises; it is empty if the call ended with an error.
Source: docs/reliability/deletion.md#tables.
"""

from typing import Final

from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import DROP_MARK

# A call that has not renewed its mark for so long was killed. A request ends sooner.
HELD_MILLIS: Final = 300_000
# The content that a call leaves after an error; earlier versions of this package wrote no other.
LEFT: Final = b""


def is_held(store: ObjectStore, content: bytes) -> bool:
    """Return whether a call holds the mark, which has this content."""
    if content == LEFT:
        return False
    info = store.infos([DROP_MARK]).get(DROP_MARK)
    return info is not None and store.now_millis() - info.modified_millis < HELD_MILLIS
