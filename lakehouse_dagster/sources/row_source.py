"""Row sources: the origin of a table's rows, as its assets see it.

Rule: each batch is one commit of a stable user with a rising identifier: the ordinal of a feed's batch, or the snapshot
of a changelog. So the table's own commits show how far it is.
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
    """The input of one step: the commit user, the batches, and the function that reads the rows of a batch.

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
    """The source of a table's rows. `label` is its name in texts, `column_prefix` the prefix of its columns."""

    @property
    def upstream(self) -> dg.AssetKey: ...

    @property
    def label(self) -> str: ...

    @property
    def column_prefix(self) -> str: ...

    @property
    def resources(self) -> frozenset[str]:
        """The keys of its resources, without the lakehouse."""
        ...

    @property
    def tells_rows(self) -> bool:
        """Whether `expected_rows` has an answer."""
        ...

    @property
    def batching(self) -> Mapping[str, Any]:
        """The arguments of assets that take its batches; none when a run takes all rows."""
        ...

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool) -> Delivery: ...

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        """Return the expected rows of the table after its commits, and the last batch that they include."""
        ...
