"""Queries over relations that are named in the text, not in a catalog: the join of a MERGE.

A name in backquotes with blanks is that of a relation: no table, and no data of a call, has such a name.
Source: docs/sql.md#queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.sql.pushing import AnalysedQuery, QueryTable, analyse
from lakehouse_core.planning.sql.query import Query, parse_query
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import SqlText


class NamedColumns(Protocol):
    """The columns of what a name means; `prunes`: a scan of it takes columns and a condition."""

    @property
    def fields(self) -> tuple[DataField, ...]: ...
    @property
    def prunes(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinQuery:
    """A query over relations. `views`: by relation, the name that the engine knows it by, which nothing in the text
    has.
    """

    query: Query
    tables: Mapping[int, QueryTable]
    analysed: AnalysedQuery
    views: Mapping[str, str]


def parse_join(text: str, parameters: Mapping[str, Any]) -> Query:
    """Return the query of a text. Raises as `parse_query` does."""
    return parse_query(QueryText(SqlText(text), 0, 0), parameters)


def query_over(
    query: Query, relations: Mapping[str, Sequence[DataField]], others: Mapping[int, NamedColumns], *, in_utc: bool
) -> JoinQuery:
    """Return a query over relations with these columns. `others`: by place, the columns of what else it names."""
    folded, numbers = query.text.casefold(), count()

    def view(name: str) -> str:
        return next(one for number in numbers if (one := f"{name.replace(' ', '_')}_{number}") not in folded)

    views = {name: view(name) for name in relations}
    tables = {}
    for start, reference in query.references.items():
        if start in others:
            found = others[start]
            tables[start] = QueryTable(view=view("lakehouse_other"), fields=found.fields, prunes=found.prunes)
        else:
            name = str(reference.name)
            tables[start] = QueryTable(view=views[name], fields=tuple(relations[name]), prunes=False)
    return JoinQuery(query=query, tables=tables, analysed=analyse(query, tables, in_utc=in_utc), views=views)
