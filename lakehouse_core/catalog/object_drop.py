"""Object drop: remove a table's objects where no folder moves at once, by one call at a time.

Rule: a table that is created after the drop has the same keys again, and no store compares an object while it deletes
it. So a call deletes only while it holds the mark of the drop, and no verb changes a table while a call holds it.
Source: docs/reliability/deletion.md#tables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Final

from lakehouse_core.errors import CommitConflict, LakehouseError, StorageUnavailable, shown
from lakehouse_core.metadata.drop_mark import HELD_MILLIS, LEFT, is_held
from lakehouse_core.retry import Retry
from lakehouse_core.storage import ObjectStore
from lakehouse_core.storage.outcomes import begun, created, replaced
from lakehouse_core.table.layout import DROP_MARK, MAIN

_TAKING: Final = Retry()
# What a store deletes in one request.
_AT_ONCE: Final = 1_000


def drop_objects(store: ObjectStore, name: str, token: str, is_dropped: Callable[[], bool] = lambda: True) -> None:
    """Remove all objects of the table at `store`: the mark first, then schema 0, the other schemas, the rest, the mark.

    `token`: a fresh one. `is_dropped`: asked while no call can create a table; if it says False, nothing is removed.
    Raises CommitConflict while another call drops the table, StorageUnavailable, WriteOutcomeUnknown.
    """
    with _held(store, name, token.encode()) as mark:
        if not is_dropped():
            mark.delete([DROP_MARK])
            return
        try:
            mark.delete([MAIN.schema(0)])
        except StorageUnavailable as error:
            raise type(error)(f"{error} Nothing else of table {shown(name)} was removed: drop it again.") from None
        _delete_rest(mark)


def drop_rest(store: ObjectStore, name: str, token: str) -> bool:
    """Remove the objects that are left of a table without schema 0; return False, without doing that, if a table has
    been created there meanwhile. Raises as `drop_objects` does.
    """
    with _held(store, name, token.encode()) as mark:
        if store.infos([MAIN.schema(0)]):
            # Beside it each commit would look at the mark, too.
            mark.delete([DROP_MARK])
            return False
        _delete_rest(mark)
        return True


def check_deleted(left: Sequence[str]) -> None:
    """Raise StorageUnavailable if objects are left."""
    if left:
        raise StorageUnavailable(f"{left[0]} and {len(left) - 1} others: the store did not delete them.")


def _delete_rest(mark: "_Mark") -> None:
    store, first, schemas = mark.store, MAIN.schema(0), MAIN.folders.schemas
    with begun(f"Table {shown(mark.name)} is dropped, but some of its objects remain. Create or drop it again."):
        others = {f"{schemas}/{file}" for file in store.children(schemas).files}
        mark.delete(sorted(others - {first}))
        mark.delete(found.key for found in store.list("") if found.key not in (DROP_MARK, first))
        mark.delete([DROP_MARK])


@dataclass(frozen=True, slots=True)
class _Mark:
    """The mark of a drop, which the call with `token` holds. Its content is the token and a number, so that each
    renewal has a version of its own.
    """

    store: ObjectStore
    name: str
    token: bytes
    numbers: Iterator[int] = field(default_factory=count)

    def content(self) -> bytes:
        return b"%s %d" % (self.token, next(self.numbers))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, and renew the mark before each request. Raises CommitConflict if another call has taken it,
        StorageUnavailable.
        """
        rest = iter(keys)
        while some := list(islice(rest, _AT_ONCE)):
            version = self._version()
            if version is None or not replaced(self.store, DROP_MARK, self.content(), if_version=version):
                raise _busy(self.name)
            check_deleted(self.store.delete(some))

    def leave(self) -> None:
        """Empty the mark if this call still holds it, so that the next call need not wait."""
        if (version := self._version()) is not None:
            replaced(self.store, DROP_MARK, LEFT, if_version=version)

    def _version(self) -> str | None:
        """Return the version of the mark if this call holds it."""
        found = self.store.read_versioned(DROP_MARK)
        return None if found is None or found[0].partition(b" ")[0] != self.token else found[1]


@contextmanager
def _held(store: ObjectStore, name: str, token: bytes) -> Iterator[_Mark]:
    mark = _Mark(store, name, token)
    _take(mark)
    try:
        yield mark
    except BaseException:
        with suppress(LakehouseError):
            mark.leave()
        raise


def _take(mark: _Mark) -> None:
    store = mark.store
    for _ in _TAKING.attempts():
        if created(store, DROP_MARK, mark.content()):
            return
        found = store.read_versioned(DROP_MARK)
        if found is None:
            continue
        if is_held(store, found[0]):
            raise _busy(mark.name)
        if replaced(store, DROP_MARK, mark.content(), if_version=found[1]):
            return
    raise _busy(mark.name)


def _busy(name: str) -> CommitConflict:
    return CommitConflict(
        f"Table {shown(name)}: another call is dropping it, or was killed while it did so. Call again, if need be "
        f"after {HELD_MILLIS // 60_000} minutes."
    )
