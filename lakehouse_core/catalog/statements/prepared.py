"""Prepared queries: what the text of a query means, which is found out once for each text.

Rule: what is remembered follows from the text, the values of its parameters and the columns of its tables alone. It is
never a snapshot or a file. Text for Spark is not remembered: what it means depends on the time zone of the session.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.sql.conditions import is_utc
from lakehouse_core.planning.sql.pushing import Pushed, QueryTable, analyse, stops_early, with_excepted
from lakehouse_core.planning.sql.query import Query, TableReference, check_without_spark, parse_query
from lakehouse_core.planning.sql.spark_text import spark_query
from lakehouse_core.planning.sql.statement import QueryText

_VIEW: Final = "lakehouse_sql"
# At most some 20 MB: a statement with the columns of its tables takes 50 KB.
_REMEMBERED: Final = 256
_LONGEST: Final = 8192
_VALUES: Final = frozenset({type(None), bool, int, float, Decimal, str, bytes, date, datetime})


@dataclass(slots=True, kw_only=True)
class PreparedQuery:
    """A query whose columns are resolved. `text`: what the engine gets; `views` and `pushed` by the place of the
    reference, where `pushed` has what a scan of a table reads; `takes_first_rows`: some first rows of a table are
    enough. `schema`: of the answer, None before an engine has told it.
    """

    text: str
    names: tuple[str, ...]
    views: Mapping[int, str]
    pushed: Mapping[int, Pushed]
    takes_first_rows: bool
    schema: pa.Schema | None = None


@dataclass(slots=True)
class _Place:
    """A place for what is remembered under a key; None before it is known."""

    value: Any = field(default=None)


class PreparingQuery:
    """The text of a query with the values of its parameters. `session` None: it runs in DuckDB.

    Raises InvalidRequest, UnsupportedFeature, as `parse_query` and `analyse` do.
    """

    def __init__(self, text: QueryText, parameters: Mapping[str, Any], session: Any) -> None:
        self._text = text
        self._parameters = parameters
        self._session = session
        self._parsed: Query | None = None
        self._key = None if session is not None else _key(text, parameters)
        place = _place(self._key)
        if place.value is None:
            place.value = self._query().references
        # Where a query names tables, and at which points in time.
        self.references: Mapping[int, TableReference] = place.value

    def prepared(self, fields: Mapping[int, tuple[DataField, ...]], prunes: Mapping[int, bool]) -> PreparedQuery:
        """Return the query over tables with these columns. `prunes`: a scan of the table takes columns and a condition.
        Both by the place of the reference.
        """
        place = _place(self._key and (self._key, tuple(fields.items()), tuple(prunes.items())))
        if place.value is None:
            place.value = self._prepared(
                {
                    start: QueryTable(view=self._view(number), fields=fields[start], prunes=prunes[start])
                    for number, start in enumerate(fields)
                }
            )
        found: PreparedQuery = place.value
        return found

    def _prepared(self, tables: Mapping[int, QueryTable]) -> PreparedQuery:
        query = self._query()
        if self._session is None:
            check_without_spark(query)
        analysed = analyse(query, tables, in_utc=is_in_utc(self._session))
        pushed = analysed.pushed
        if self._session is not None:
            text, pushed = spark_query(query, tables), with_excepted(query, tables, pushed)
        else:
            from lakehouse_core.planning.sql.duckdb.translate import duckdb_text  # noqa: PLC0415

            text = duckdb_text(analysed.tree, analysed.schema, query.sql)
        return PreparedQuery(
            text=text,
            names=analysed.names,
            views={start: table.view for start, table in tables.items()},
            pushed=pushed,
            takes_first_rows=stops_early(analysed.tree),
        )

    def _query(self) -> Query:
        if self._parsed is None:
            self._parsed = parse_query(self._text, self._parameters)
        return self._parsed

    def _view(self, number: int) -> str:
        """Return the name of a view that nothing in the text has."""
        name, text = _VIEW, self._text.sql.text.casefold()
        while name in text:
            name += "_"
        return f"{name}_{number}"


def is_in_utc(session: Any) -> bool:
    """Return whether a Spark session takes times without a zone for UTC, as DuckDB does."""
    return session is None or is_utc(session.conf.get("spark.sql.session.timeZone"))


def _key(text: QueryText, parameters: Mapping[str, Any]) -> Hashable | None:
    """Return what tells a query from others, None for a query that is not remembered."""
    if any(type(value) not in _VALUES for value in parameters.values()):
        return None
    values = [(name, type(one).__name__, _written(one)) for name, one in sorted(parameters.items())]
    if len(text.sql.text) + sum(len(written) for _, _, written in values) > _LONGEST:
        return None
    return text.sql.text, text.first, text.start, tuple(values)


def _written(value: Any) -> str:
    # The representation of a zone need not tell its offset.
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _place(key: Hashable | None) -> _Place:
    """Return the place of a key, which all queries with an equal key share; a new one for None."""
    return _Place() if key is None else _shared_place(key)


@lru_cache(maxsize=2 * _REMEMBERED)
def _shared_place(key: Hashable) -> _Place:
    return _Place()
