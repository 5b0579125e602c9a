"""Lookups: the handle that plans a snapshot once and finds rows by key many times."""

from types import TracebackType
from typing import Any

import pyarrow as pa

from lakehouse_core.api.verb import names_table
from lakehouse_core.calls import checks_calls
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.lookup.lookup import TableLookup


@checks_calls
class Lookups:
    """Rows of a table by their primary key, from one snapshot until `refresh`. A context manager for one thread.

    A lookup copies the parts of data files that it needs to local lookup files. Later lookups read the local files.
    """

    def __init__(self, lookup: TableLookup, *, table: str) -> None:
        self.name = table
        self._lookup: TableLookup | None = lookup

    def __repr__(self) -> str:
        return f"Lookups({self.name!r}, {'closed' if self._lookup is None else f'snapshot {self.snapshot_id}'})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidRequest(
            f"{self.name}: a lookup handle cannot be pickled. Call lookups() in the process that uses it."
        )

    def __enter__(self) -> "Lookups":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    @names_table
    def snapshot_id(self) -> int | None:
        """The id of the snapshot in which rows are looked up; None while the table has no snapshot."""
        return self._opened.snapshot_id

    @names_table
    def get(self, keys: object, *, aligned: bool = False) -> pa.Table:
        """Return the rows of `keys`, as `Table.lookup` does, without planning again.

        Raises InvalidRequest for keys that do not fit the table. Raises SnapshotExpired when the snapshot is expired
        and the lookup needs one of its data files; call `refresh` then.
        """
        return self._opened.rows(keys, aligned=aligned)

    @names_table
    def refresh(self) -> int | None:
        """Move to the newest snapshot, or to the one that `at` means now, and return its id. Reads metadata only.

        Local files of data files that both snapshots have stay; the others are removed.
        """
        self._opened.refresh()
        return self._opened.snapshot_id

    def close(self) -> None:
        """Release the local files. They stay in their directory."""
        self._lookup = None

    @property
    def _opened(self) -> TableLookup:
        if self._lookup is None:
            raise InvalidRequest("This lookup handle is closed. Call lookups() for a new one.")
        return self._lookup
