"""Used names: every name that a branch of the table has had here; the mark is made first and never removed.

Rule: a name is used once. A verb that still works on a former branch writes and deletes objects by their keys, and no
store compares one object while it deletes another; so nothing could keep that verb from a later branch of the name.
Source: docs/reliability/deletion.md#branches.
"""

from typing import Final

from lakehouse_core.errors import StorageUnavailable
from lakehouse_core.retry import Retry
from lakehouse_core.storage.object_store import ObjectStore, StoreReader
from lakehouse_core.storage.outcomes import created, replaced
from lakehouse_core.table.layout import NAMES_FOLDER, TableLayout
from lakehouse_core.table.used_name import UsedName, parse_used_name, serialize_used_name

_ENDING: Final = Retry()


def used_name(store: StoreReader, layout: TableLayout) -> UsedName | None:
    """Return the mark of the name of a branch, None if it has none, as a branch that Java made. Raises
    CorruptTable.
    """
    found = store.read_found([layout.used_name]).get(layout.used_name)
    return None if found is None else parse_used_name(found, store.uri(layout.used_name))


def use_name(store: ObjectStore, layout: TableLayout, token: str) -> bool:
    """Record that the verb with `token` uses the name; return False if another one has. Safe to repeat."""
    return created(store, layout.used_name, serialize_used_name(UsedName(token=token)))


def end_name(store: ObjectStore, layout: TableLayout, token: str) -> None:
    """Record that the branch has ended. `token`: for a branch whose name has no mark yet.

    REQUIRES: all objects of the branch but its boundary are deleted, or the branch cannot be opened any more.
    """
    key = layout.used_name
    for _ in _ENDING.attempts():
        found = store.read_versioned(key)
        used = UsedName(token=token) if found is None else parse_used_name(found[0], store.uri(key))
        if used.has_ended:
            store.make_last([key])
            return
        ended = serialize_used_name(UsedName(token=used.token, has_ended=True))
        if replaced(store, key, ended, if_version=None if found is None else found[1]):
            return
    raise StorageUnavailable(
        f"{store.uri(key)}: it changed in each of {_ENDING.max_attempts} attempts to change it. Call again."
    )


def forget_name(store: ObjectStore, layout: TableLayout, token: str) -> None:
    """Delete the mark that the verb with `token` made. REQUIRES: no verb has made or will make the branch."""
    used = used_name(store, layout)
    if used is not None and used.token == token:
        store.delete([layout.used_name])


def names_of(store: StoreReader, token: str) -> list[str]:
    """Return the names that the verb with `token` used. Raises CorruptTable."""
    layouts = map(TableLayout, store.children(NAMES_FOLDER).files)
    return [layout.branch or "" for layout in layouts if (used := used_name(store, layout)) and used.token == token]


def is_left_over(store: StoreReader, layout: TableLayout) -> bool:
    """Return whether all that is in the folder of a branch was written late, for one that had ended.

    A branch that another engine made since has the first schema.
    """
    found = store.read_found([layout.used_name, layout.schema(0)])
    if layout.schema(0) in found or layout.used_name not in found:
        return False
    return parse_used_name(found[layout.used_name], store.uri(layout.used_name)).has_ended
