"""Row sources: where the rows of a table come from, as its assets see it.

Rule: each batch is a commit of its own under a stable user and a rising identifier. Of a feed it is the ordinal of the
batch; of a changelog the snapshot that made the changes, so that a table knows by its own commits how far it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch

Expected: TypeAlias = tuple[int, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one step takes in: who commits, which batches, and how the rows of one are read.

    `batches_to_stage` refuses a table that cannot take them.
    """

    user: str
    version: str
    snapshot_id: int
    batches_to_stage: Callable[[lc.Table], list[Batch]]
    batches_to_commit: Callable[[lc.Table], list[Batch]]
    read: Callable[[Batch], object]
    rowkind_column: str | None = None


class RowSource(Protocol):
    """The source of a table's rows. `label` is how texts call it, `column_prefix` what its columns begin with."""

    @property
    def upstream(self) -> dg.AssetKey: ...

    @property
    def label(self) -> str: ...

    @property
    def column_prefix(self) -> str: ...

    @property
    def resources(self) -> frozenset[str]:
        """The resources that it needs beside the lakehouse."""
        ...

    @property
    def batching(self) -> Mapping[str, Any]:
        """The arguments of assets that take its batches; none where a run takes all that is there."""
        ...

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool) -> Delivery: ...

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        """Return how many rows the table must have after what it has committed, and through which batch that is."""
        ...
