"""Outcomes: resolve lost answers by reading, and delete files that no snapshot names.

Rule: an effect that was found by reading is made durable before the caller relies on it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, TableDropped, WriteOutcomeUnknown
from lakehouse_core.storage.object_store import ObjectStore, StoreReader
from lakehouse_core.storage.overlap import Sinks


def created(
    store: ObjectStore, key: str, data: bytes, *, by: Callable[[ObjectStore, str, bytes], bool] | None = None
) -> bool:
    """Create an object that is never changed; return False if an object with other bytes has `key`. Equal bytes count
    as ours.

    `by` creates it where more than the store decides which writer wins. Raises WriteOutcomeUnknown when the store does
    not answer.
    """
    lost = None
    try:
        if store.create_new(key, data) if by is None else by(store, key, data):
            return True
    except WriteOutcomeUnknown as error:
        lost = error
    # Some file systems repeat a request and report the effect of the first one as "it exists", so the bytes decide.
    with _unresolved(lost):
        found = _content(store, key)
    if found is None and lost is not None:
        # The first request may still take effect, so it is not sent again.
        raise lost
    if found != data:
        return False
    store.make_last([key])
    return True


def replaced(store: ObjectStore, key: str, data: bytes, *, if_version: str | None) -> bool:
    """Compare-and-set; False when another version is there. An object with these very bytes counts as done.

    Raises WriteOutcomeUnknown when the store does not answer.
    """
    try:
        return store.replace(key, data, if_version=if_version)
    except WriteOutcomeUnknown as lost:
        with _unresolved(lost):
            found = store.read_versioned(key)
        if found is not None and found[0] == data:
            store.make_last([key])
            return True
        if (None if found is None else found[1]) != if_version:
            return False
        raise


def moved(store: ObjectStore, source: str, target: str, *, witness: str) -> bool:
    """Move a folder; False when `target` exists. `witness`: an object in it by which it is known, whatever its name.

    Raises NotFound, WriteOutcomeUnknown when the store does not answer. REQUIRES: the store has folders.
    """
    assert store.folders is not None, "its folders move"
    content = store.read(f"{source}/{witness}")
    try:
        return store.folders.rename(source, target)
    except WriteOutcomeUnknown as lost:
        with _unresolved(lost):
            is_moved = (
                _content(store, f"{source}/{witness}") is None and _content(store, f"{target}/{witness}") == content
            )
        if is_moved:
            store.make_last([source, target])
            return True
        raise


def delete_own(store: ObjectStore, objects: Mapping[str, bytes]) -> Sequence[str]:
    """Delete objects that have this content; return the keys that could not be deleted. Another writer may have used
    the same keys since.
    """
    found = store.read_found(objects)
    return store.delete([key for key, data in found.items() if data == objects[key]])


def clear_away(store: ObjectStore | Sinks, keys: Iterable[str]) -> None:
    """Delete objects that no snapshot names; what cannot be deleted stays, for the caller has an error to raise."""
    with suppress(StorageUnavailable, InvalidRequest, TableDropped):
        store.delete(keys)


@contextmanager
def named_by_nobody() -> Iterator[None]:
    """Files written inside are named by no snapshot yet, so nothing is applied even if they were written.

    Raises StorageUnavailable for WriteOutcomeUnknown.
    """
    try:
        yield
    except WriteOutcomeUnknown as error:
        raise StorageUnavailable(
            f"{error} No snapshot names the file, so nothing was committed. Call again."
        ) from error


@contextmanager
def begun(rest: str) -> Iterator[None]:
    """The work inside has several steps, so after an error some may be done. `rest`: a sentence on what is left to do.

    Raises WriteOutcomeUnknown for StorageUnavailable and TableDropped.
    """
    try:
        yield
    except (StorageUnavailable, TableDropped) as error:
        raise WriteOutcomeUnknown(f"{error} {rest}") from error


@contextmanager
def _unresolved(lost: WriteOutcomeUnknown | None) -> Iterator[None]:
    """The block reads what became of a request. Raises WriteOutcomeUnknown, `lost` if there is one, for
    StorageUnavailable.
    """
    try:
        yield
    except StorageUnavailable as error:
        raise (lost or WriteOutcomeUnknown(str(error))) from error


def _content(store: StoreReader, key: str) -> bytes | None:
    try:
        return store.read(key)
    except NotFound:
        return None
