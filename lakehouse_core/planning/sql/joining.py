"""Queries over relations that are named in the text, not in a catalog: the join of a MERGE.

A name in backquotes with blanks is that of a relation: no table, and no data of a call, has such a name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol

from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.sql.pushing import AnalysedQuery, QueryTable, analyse
from lakehouse_core.planning.sql.query import Query, TableReference, parse_query
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import SqlText

_NUMBERS: Final = count()


class NamedColumns(Protocol):
    """The columns of what a name means; `prunes`: a scan of it takes columns and a condition."""

    @property
    def fields(self) -> tuple[DataField, ...]: ...
    @property
    def prunes(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinQuery:
    """A query over relations. `views`: by relation, the name that the engine knows it by, which nothing in the text
    has. `others`: by place, what else the text names, as its queries inside a condition do.
    """

    query: Query
    tables: Mapping[int, QueryTable]
    analysed: AnalysedQuery
    views: Mapping[str, str]
    others: Mapping[int, TableReference]


def query_over(
    text: str,
    relations: Mapping[str, Sequence[DataField]],
    parameters: Mapping[str, Any],
    *,
    in_utc: bool,
    named: Callable[[TableReference], NamedColumns] | None = None,
) -> JoinQuery:
    """Return the query of a text over relations with these columns. `named`: what other names in it mean."""
    query = parse_query(QueryText(SqlText(text), 0, 0), parameters)
    folded = text.casefold()

    def view(name: str) -> str:
        return next(one for number in _NUMBERS if (one := f"{name.replace(' ', '_')}_{number}") not in folded)

    views = {name: view(name) for name in relations}
    tables, others = {}, {}
    for start, reference in query.references.items():
        name = str(reference.name)
        if name in views:
            tables[start] = QueryTable(view=views[name], fields=tuple(relations[name]), prunes=False)
            continue
        assert named is not None
        others[start], found = reference, named(reference)
        tables[start] = QueryTable(view=view("lakehouse_other"), fields=found.fields, prunes=found.prunes)
    return JoinQuery(
        query=query,
        tables=tables,
        analysed=analyse(query, tables, in_utc=in_utc),
        views=views,
        others=others,
    )
