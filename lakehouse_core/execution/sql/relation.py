"""Relations: the tables of a query as an engine takes them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.planning.sql.joining import JoinQuery, NamedColumns
from lakehouse_core.planning.sql.pushing import Pushed
from lakehouse_core.planning.sql.query import TableReference

# Named for the reader: this module must not know Spark.
DataFrame: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTable:
    """A table whose files an engine may read by itself; `rows`: those of a plan of what it leaves."""

    plan: ScanPlan
    table: TableContext
    rows: Callable[[ScanPlan], ArrowRows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table of a query under its unique name. `plan` and `native`: of a table of the catalog, None for
    other rows. `frame`: data that is a frame of Spark already.
    """

    view: str
    title: str
    rows: ArrowRows | None
    plan: ScanPlan | None = None
    native: NativeTable | None = None
    frame: DataFrame | None = field(default=None)


class NamedRows(NamedColumns, Protocol):
    """What a name of a statement means, at the point in time that all references of the statement read."""

    def relation(self, view: str, pushed: Pushed | None) -> Relation:
        """Return the rows under a name. `pushed`: what is read of them, None if all is."""
        ...


# What the names in the queries inside a statement mean.
Named: TypeAlias = Callable[[TableReference], NamedRows]


def other_relations(join: JoinQuery, named: Named | None) -> list[Relation]:
    """Return what the queries inside a join read."""
    if named is None:
        return []
    return [
        named(reference).relation(join.tables[start].view, join.analysed.pushed.get(start))
        for start, reference in join.others.items()
    ]
