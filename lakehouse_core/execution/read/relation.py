"""Relations: the tables of a query as an engine takes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.format.data_types import DataField
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.planning.sql.joining import JoinQuery, NamedColumns, parse_join, query_over
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


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """The different values of a query, in one column. `rows`: all of them, as a statement takes data by name, until
    `close` is called. `few`: the same in this process, None if they are more than were asked for.
    """

    rows: object
    few: pa.Table | None
    close: Callable[[], object] = lambda: None


class NamedRows(NamedColumns, Protocol):
    """What a name of a statement means, at the point in time that all references of the statement read."""

    def relation(self, view: str, pushed: Pushed | None) -> Relation:
        """Return the rows under a name. `pushed`: what is read of them, None if all is."""
        ...


# What the names in the queries inside a statement mean.
Named: TypeAlias = Callable[[TableReference], NamedRows]


def joined_relations(
    text: str,
    relations: Mapping[str, Sequence[DataField]],
    parameters: Mapping[str, Any],
    named: Named | None,
    *,
    in_utc: bool,
) -> tuple[JoinQuery, list[Relation]]:
    """Return the query of a text over relations with these columns, and what else it reads. `named`: what other names
    in the text mean.
    """
    query = parse_join(text, parameters)
    references = {start: one for start, one in query.references.items() if str(one.name) not in relations}
    assert named is not None or not references
    others = {start: named(one) for start, one in references.items()} if named is not None else {}
    join = query_over(query, relations, others, in_utc=in_utc)
    pushed = join.analysed.pushed
    return join, [one.relation(join.tables[start].view, pushed.get(start)) for start, one in others.items()]
