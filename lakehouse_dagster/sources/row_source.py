"""Row sources: the origin of a table's rows, as its assets see it.

Rule: each batch is one commit of a stable user with a rising identifier: the ordinal of a feed's batch, or the snapshot
of a changelog. So the table's own commits show how far it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline import StageMode, incarnation

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
    # None: as the specification says.
    rowkind_column: str | None = None
    mode: Callable[[Batch], StageMode] | None = None
    # Each run reads its batches anew, so one that another run has loaded since is read again.
    by_run: bool = False
    # Called with the table after the commits of a step.
    committed: Callable[[lc.Table], None] = lambda _: None
    # Properties of the staged commit of a batch, known once its rows were read.
    properties: Callable[[Batch], Mapping[str, str]] = lambda _: {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """A check of a table that its source makes. `faults` returns a sentence for each fault; it takes the table and the
    resources of the step.

    `passed` is the description without faults, and `count` the name of the figure that is their number.
    """

    name: str
    description: str
    passed: str
    count: str
    faults: Callable[[lc.Table, Any], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What a table has not taken of its source: the names of the batches that wait, oldest first.

    `unit` is the word for one of them, `since` the time when the oldest came (None: the source does not tell), `newest`
    the newest batch of the source, and `taken` the newest that the table has; both are empty without one. `partitions`
    are those that a run can load now, in the order of Dagster (None: the table's assets have none). `fault` says why
    the table cannot take what waits, or why the source cannot be asked.
    """

    source: str
    unit: str
    waiting: tuple[str, ...] = ()
    partitions: Sequence[str] | None = None
    # What the source keeps for the table, in words; empty where it keeps nothing for it.
    held: str = ""
    since: datetime | None = None
    newest: str = ""
    taken: str = ""
    fault: str = ""

    @property
    def text(self) -> str:
        """The number of batches in words, as in `2 snapshots of ops.flights`."""
        count = len(self.waiting)
        return f"{count:,} {self.unit}{'' if count == 1 else 's' if self.unit != 'batch' else 'es'} of {self.source}"


def table_of(catalog: lc.Catalog, key: dg.AssetKey) -> lc.Table:
    """Return the table with asset `key`, whose last two parts are its database and its name."""
    return catalog.table(".".join(key.path[-2:]))


def delivery_user(kind: str, table: lc.Table, key: dg.AssetKey) -> str:
    """Return the commit user of the deliveries of one kind of source. A table that was made again has another one."""
    return f"{kind}@{incarnation(table)}/{'/'.join(key.path)}"


class RowSource(Protocol):
    """The source of a table's rows. A source overrides the defaults that do not fit it."""

    @property
    def key(self) -> dg.AssetKey:
        """The identity of the table that takes the rows."""
        ...

    @property
    def upstream(self) -> dg.AssetKey: ...

    @property
    def label(self) -> str:
        """The name of the source in texts."""
        ...

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        """Return the input of a step. `inputs` are the values of `inputs` in the ingest, none in the commit."""
        ...

    @property
    def inputs(self) -> Mapping[str, dg.AssetIn]:
        """The inputs of the ingest that Dagster loads; without them the ingest only depends on `upstream`."""
        return {}

    @property
    def column_prefix(self) -> str:
        """The text before the names of its columns in the column lineage."""
        return ""

    @property
    def resources(self) -> frozenset[str]:
        """The keys of its resources, without the lakehouse."""
        return frozenset()

    @property
    def batching(self) -> Mapping[str, Any]:
        """The arguments of assets that take its batches; none when a run takes all rows."""
        return {}

    @property
    def checks(self) -> Sequence[SourceCheck]:
        """The checks that only this source can make."""
        return ()

    @property
    def tells_rows(self) -> bool:
        """Whether `expected_rows` has an answer."""
        return False

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        """Return the expected rows of the table after its commits, and the last batch that they include."""
        raise lc.UnsupportedFeature(f"{table.name}: {self.label} does not say how many rows it made.")

    @property
    def tells_news(self) -> bool:
        """Whether `behind` has an answer: whether the source can be asked cheaply, without Spark, for what is new."""
        return False

    def behind(self, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance) -> Behind:
        """Return what the table, None before it is created, has not taken."""
        raise lc.UnsupportedFeature(f"{self.label}: the source does not tell what is new.")

    @property
    def is_derived(self) -> bool:
        """Whether the rows are made of the asset `upstream`: a new version of its data is what the table waits for."""
        return False

    def scheduled_keys(
        self,
        table: lc.Table | None,
        asset: dg.AssetKey,
        resources: Any,
        instance: dg.DagsterInstance,
        *,
        now: datetime,
    ) -> Sequence[str] | None:
        """Return the partitions that a load by a schedule takes where the source does not tell what is new, in their
        order; None for a load without partitions.

        `asset` is the key of the table, which is None before it is created. `now` is the time of the schedule's tick:
        windows that end later are not due.
        """
        return None
