"""Lookups as users hold them: a snapshot planned once, keys asked for as often as they like."""

from types import TracebackType
from typing import Any

import pyarrow as pa

from lakehouse_core.api.arguments import checks_flags
from lakehouse_core.api.error_context import names_table
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.lookup.lookup import TableLookup


@checks_flags
class Lookups:
    """Rows of a table by their primary key, from one snapshot until `refresh`. A context manager; for one thread.

    Data files are copied to local lookup files as far as they are asked for, and these answer from then on.
    """

    def __init__(self, lookup: TableLookup, *, table: str) -> None:
        self.name = table
        self._lookup: TableLookup | None = lookup

    def __repr__(self) -> str:
        return f"Lookups({self.name!r}, {'closed' if self._lookup is None else f'snapshot {self.snapshot_id}'})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidRequest(f"{self.name}: lookups are not pickled: open them where they are used, with lookups().")

    def __enter__(self) -> "Lookups":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    @names_table
    def snapshot_id(self) -> int | None:
        """The snapshot whose rows are found; None where the table has none yet."""
        return self._opened.snapshot_id

    @names_table
    def get(self, keys: object, *, aligned: bool = False) -> pa.Table:
        """Return the rows of `keys`, as `Table.lookup` does. Nothing is planned.

        Raises InvalidRequest for keys that do not fit; SnapshotExpired where the snapshot has gone and a data file is
        needed: call `refresh`.
        """
        return self._opened.rows(keys, aligned=aligned)

    @names_table
    def refresh(self) -> int | None:
        """Move on to the newest snapshot (or what `at` means now) and return its id. Reads metadata only.

        Files that both snapshots have stay as they are, for data files never change; local files of others are removed.
        """
        self._opened.refresh()
        return self._opened.snapshot_id

    def close(self) -> None:
        """Let go of the local files, which stay in their directory."""
        self._lookup = None

    @property
    def _opened(self) -> TableLookup:
        if self._lookup is None:
            raise InvalidRequest("these lookups are closed: open others with lookups().")
        return self._lookup
