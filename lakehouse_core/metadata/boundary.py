"""Boundary: the smallest snapshot id that has not expired. Expiry raises it before it deletes.

Rule: the boundary never goes down. An id below it has expired; a file of such an id is ignored. While a verb works on a
whole branch, the boundary of the branch says so, and no expiry raises it.
Source: docs/reliability/commit.md#why-the-boundary.
"""

from collections.abc import Callable, Mapping
from typing import Final

from lakehouse_core.errors import CommitConflict, NotFound, StorageUnavailable
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.retry import Retry
from lakehouse_core.storage.object_store import ObjectStore, StoreReader
from lakehouse_core.storage.outcomes import replaced
from lakehouse_core.table.boundary import NO_MARK, BoundaryMark, parse_mark, serialize_boundary, serialize_mark
from lakehouse_core.table.layout import TableLayout, layout_at

_RAISING: Final = Retry()


class Boundary:
    """The boundary of one branch. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout
        self._key = layout.boundary

    @property
    def key(self) -> str:
        """The key of the boundary's file."""
        return self._key

    def first_id(self, look: Look | None = None) -> int:
        """Return the smallest id that has not expired; 0 if no boundary is set. Raises CorruptTable, NotFound if the
        branch is being created, deleted or renamed.

        `look`: the look that answers; None reads now.
        """
        mark = self.mark(look)
        if mark.is_closed:
            raise NotFound(
                f"{self._store.uri(self._layout.folder)}: the branch is closed: a verb is {mark.work} it, "
                f"or was interrupted. Wait until the verb has ended. If it was interrupted, {mark.advice}."
            )
        return mark.first_kept_id

    def mark(self, look: Look | None = None) -> BoundaryMark:
        """Return what the boundary says, also of a branch that a verb has closed. Raises CorruptTable."""
        return boundary_mark(self._store, self._layout, look)

    def advance(self, first_kept_id: int, check: Callable[[], None] = lambda: None) -> int:
        """Raise the boundary to `first_kept_id`, durably; return the boundary, which may be higher already. `check`:
        called before, to raise if the boundary may be that of another table.

        Raises CommitConflict while a verb works on the whole branch.
        """
        for _ in _RAISING.attempts():
            read, at_once = lambda: self._store.read_versioned(self._key), self._store.requests_at_once
            found = both(read, check, at_once=at_once)[0]
            mark = NO_MARK if found is None else parse_mark(found[0], self._store.uri(self._key))
            if mark.work is not None:
                raise CommitConflict(
                    f"{self._store.uri(self._key)}: a verb is {mark.work} the branch, or was interrupted. Nothing "
                    "expired. Expire again when the verb has ended, or call the verb again if it was interrupted."
                )
            if found is not None and mark.first_kept_id >= first_kept_id:
                self._store.make_last([self._key])
                return mark.first_kept_id
            version = None if found is None else found[1]
            if replaced(self._store, self._key, serialize_boundary(first_kept_id), if_version=version):
                self._check_branch()
                return first_kept_id
        raise StorageUnavailable(
            f"{self._store.uri('')}: the boundary changed in each of {_RAISING.max_attempts} attempts to raise it. "
            "Try again."
        )

    def _check_branch(self) -> None:
        """Remove the boundary and raise NotFound if its branch was deleted before it was written."""
        if self._layout.branch is not None and not self._store.children(self._layout.folders.schemas).files:
            self._store.delete([self._key])
            raise NotFound(
                f"{self._store.uri(self._layout.folder)}: the branch was deleted or renamed meanwhile. Check its name."
            )

    def read_versioned(self) -> tuple[BoundaryMark, str | None]:
        """Return what the boundary says and its version, for `change`."""
        found = self._store.read_versioned(self._key)
        return (NO_MARK, None) if found is None else (parse_mark(found[0], self._store.uri(self._key)), found[1])

    def change(self, mark: BoundaryMark, *, if_version: str | None) -> bool:
        """Write `mark`, durably, if the boundary still has this version (None: does not exist); else return False."""
        return replaced(self._store, self._key, serialize_mark(mark), if_version=if_version)


class Boundaries:
    """The boundaries of a table's branches, by the prefix of their keys; each is read once, those `given` never."""

    def __init__(self, store: StoreReader, given: Mapping[str, int]) -> None:
        self._store = store
        self._known = {prefix: BoundaryMark(first_kept_id=first_id) for prefix, first_id in given.items()}

    def of(self, prefix: str) -> BoundaryMark:
        """Return what the boundary of a branch says. Raises CorruptTable."""
        if prefix not in self._known:
            self._known[prefix] = boundary_mark(self._store, layout_at(prefix))
        return self._known[prefix]

    def read_again(self, prefix: str) -> BoundaryMark:
        """Return what the boundary of a branch says now. Raises CorruptTable."""
        self._known[prefix] = boundary_mark(self._store, layout_at(prefix))
        return self._known[prefix]

    def first_root_id(self, prefix: str) -> int:
        """Return the smallest id that is a root. In a branch that is created, deleted or renamed every file is one."""
        mark = self.of(prefix)
        return 0 if mark.is_closed else mark.first_kept_id


def boundary_mark(store: StoreReader, layout: TableLayout, look: Look | None = None) -> BoundaryMark:
    """Return what the boundary of a branch says. Raises CorruptTable."""
    data = (look or Look(store)).get(layout.boundary)
    return NO_MARK if data is None else parse_mark(data, store.uri(layout.boundary))
