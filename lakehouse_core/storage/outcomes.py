"""What became of a call whose answer was lost, found out by looking; and files that no snapshot names.

Rule: whoever finds that he did it, without having been told, makes it last before he builds on it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.storage.object_store import ObjectStore


def created(store: ObjectStore, key: str, data: bytes) -> bool:
    """Create an object that nobody ever changes; False when another one has `key`. Whoever wrote the same bytes did it.

    Raises WriteOutcomeUnknown when the store does not tell.
    """
    lost = None
    try:
        if store.create_new(key, data):
            return True
    except WriteOutcomeUnknown as error:
        lost = error
    # Not every file system tells its own repeated request from that of somebody else: bytes do.
    found = _content(store, key)
    if found is None and lost is not None:
        # It may still come, so it is not tried again.
        raise lost
    if found != data:
        return False
    store.make_last([key])
    return True


def replaced(store: ObjectStore, key: str, data: bytes, *, if_version: str | None) -> bool:
    """Compare-and-set; False when another version is there. An object with these very bytes counts as done.

    Raises WriteOutcomeUnknown when the store does not tell.
    """
    try:
        return store.replace(key, data, if_version=if_version)
    except WriteOutcomeUnknown:
        found = store.read_versioned(key)
        if found is not None and found[0] == data:
            store.make_last([key])
            return True
        if (None if found is None else found[1]) != if_version:
            return False
        raise


def moved(store: ObjectStore, source: str, target: str, *, witness: str) -> bool:
    """Move a folder; False when `target` exists. `witness`: an object in it by which it is known, whatever its name.

    Raises NotFound, WriteOutcomeUnknown when the store does not tell.
    """
    content = store.read(f"{source}/{witness}")
    try:
        return store.rename_folder(source, target)
    except WriteOutcomeUnknown:
        if _content(store, f"{source}/{witness}") is None and _content(store, f"{target}/{witness}") == content:
            store.make_last([source, target])
            return True
        raise


def clear_away(store: ObjectStore, keys: Iterable[str]) -> None:
    """Delete objects that nobody names. What cannot be deleted is left to cleaning: the caller has more to tell."""
    with suppress(StorageUnavailable, InvalidRequest):
        store.delete(keys)


@contextmanager
def named_by_nobody() -> Iterator[None]:
    """What is written inside is named by no snapshot yet, so whatever became of it, nothing was applied.

    Raises StorageUnavailable for WriteOutcomeUnknown.
    """
    try:
        yield
    except WriteOutcomeUnknown as error:
        raise StorageUnavailable(f"{error} No snapshot names it: nothing was committed, do it again.") from error


@contextmanager
def begun(rest: str) -> Iterator[None]:
    """What is done inside is done in steps, so an error does not say that nothing was applied. `rest`: what is left.

    Raises WriteOutcomeUnknown for StorageUnavailable.
    """
    try:
        yield
    except StorageUnavailable as error:
        raise WriteOutcomeUnknown(f"{error} {rest}") from error


def _content(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.read(key)
    except NotFound:
        return None
