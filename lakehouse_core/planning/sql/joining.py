"""Queries over relations that are named in the text, not in a catalog: the join of a MERGE."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.sql.pushing import AnalysedQuery, QueryTable, analyse
from lakehouse_core.planning.sql.query import Query, parse_query
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import SqlText

_NUMBERS: Final = count()


def query_over(
    text: str, relations: Mapping[str, Sequence[DataField]], parameters: Mapping[str, Any], *, in_utc: bool
) -> tuple[Query, Mapping[int, QueryTable], AnalysedQuery, Mapping[str, str]]:
    """Return the query of a text over relations with these columns, and the name of each relation's view,
    which nothing in the text has.
    """
    query = parse_query(QueryText(SqlText(text), 0, 0), parameters)
    folded = text.casefold()
    views = {
        name: next(view for number in _NUMBERS if (view := f"{name}_{number}") not in folded) for name in relations
    }
    tables = {
        start: QueryTable(view=views[str(reference.name)], fields=tuple(relations[str(reference.name)]), prunes=False)
        for start, reference in query.references.items()
    }
    return query, tables, analyse(query, tables, in_utc=in_utc), views
