"""Maintenance: when a table is due, by its figures and the limits of its specification.

The core decides what is done.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_dagster.pipeline.table_state import TableState
from lakehouse_dagster.specs import MaintenanceSpec

# In the order in which one run does them: a compaction leaves a manifest more, expiry drops what both replaced.
OPERATIONS = ("compact_full", "compact_manifests", "expire")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure against its limit; `operation` is due when the limit is exceeded. `needs_full`: so is a compaction
    that rewrites all files, else one that moves what waits is enough.
    """

    operation: str
    what: str
    found: int
    limit: int
    needs_full: bool = True

    @property
    def is_due(self) -> bool:
        return self.found > self.limit

    @property
    def excess(self) -> float:
        """How many times the limit was reached; orders tables, worst first."""
        return self.found / max(self.limit, 1)

    def __str__(self) -> str:
        return f"{self.found} {self.what} {'>' if self.is_due else '<='} {self.limit}"


def figures(state: TableState, limits: MaintenanceSpec) -> tuple[Figure, ...]:
    """Return every figure with its limit, exceeded or not."""
    return (
        Figure(operation="compact_full", what="small files", found=state.small_files, limit=limits.max_small_files),
        Figure(operation="compact_full", what="sorted runs", found=state.sorted_runs, limit=limits.max_sorted_runs),
        Figure(
            operation="compact_manifests", what="manifests", found=state.manifests_total, limit=limits.max_manifests
        ),
        Figure(operation="expire", what="snapshots", found=state.snapshots_retained, limit=limits.max_snapshots),
        *_waiting(state, limits),
    )


def settings(operation: str, due: Iterable[Figure]) -> Mapping[str, Any]:
    """Return what a run of the operation is told about what is due, in the settings of its asset."""
    own = [figure for figure in due if figure.operation == operation]
    return {"full": False} if own and not any(figure.needs_full for figure in own) else {}


def _waiting(state: TableState, limits: MaintenanceSpec) -> Iterator[Figure]:
    """Yield the figure of rows that wait for their buckets, where there are any: no other table has such rows."""
    if state.waiting_rows:
        most = limits.max_waiting_rows
        yield Figure(
            operation="compact_full", what="waiting rows", found=state.waiting_rows, limit=most, needs_full=False
        )
