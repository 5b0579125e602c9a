"""Queries: resolve the tables, pin and plan them, and hand the query to Spark or to DuckDB."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakehouse_core.api.answer import Answer
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.prepared import PreparedQuery, PreparingQuery
from lakehouse_core.catalog.statements.sources import Sources, session_of
from lakehouse_core.errors import InvalidRequest, LakehouseError, TaskFailed, UnsupportedFeature
from lakehouse_core.execution.read.relation import DistinctRows, Relation
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.execution.row_changes.change_base import ReadAt
from lakehouse_core.interchange.arrow_rows import ArrowRows, RowsInMemory
from lakehouse_core.planning.sql.error_places import has_no_place, place_first, with_place
from lakehouse_core.planning.sql.query import TableReference, parse_query
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.table.predicate import And, Compare, In, IsNull, Not, Or, StartsWith


class EngineQuery(Protocol):
    """A query that an engine has accepted. `reader`: the name of the engine as people write it. `frame`: on Spark."""

    reader: str

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def distinct(self, most: int) -> DistinctRows | None:
        """Return the different values of the only column; the query runs once. None if they are too many to hold."""
        ...

    def native_count(self, relation: Relation) -> int:
        """Return how many splits of a table of the catalog the engine reads by itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """A query with pinned and planned tables, by the place of the reference. `engine`: spark or duckdb."""

    text: QueryText
    prepared: PreparedQuery
    references: Mapping[int, TableReference]
    relations: Mapping[int, Relation]
    session: Any = None

    @property
    def engine(self) -> str:
        return "duckdb" if self.session is None else "spark"


def select(call: StatementCall, text: QueryText) -> Answer:
    """Return the answer of a query, whose rows are read when they are asked for."""
    found = engine_query(plan_query(call, text), call)

    def batches() -> Iterator[pa.RecordBatch]:
        with placed_errors(call, lambda: query_tree(call, text)):
            yield from found.batches()

    return Answer(call.sql.text, found.schema, batches, frame=getattr(found, "frame", None))


@contextmanager
def placed_errors(call: StatementCall, tree: Callable[[], Any]) -> Iterator[None]:
    """Give what an engine refuses the place of the part of the statement that it means, if its tree shows which."""
    try:
        yield
    except (InvalidRequest, UnsupportedFeature) as error:
        message = place_first(str(error))
        # A tree of another shape than expected must not hide the error.
        with suppress(Exception):
            if has_no_place(message) and (found := tree()) is not None:
                message = with_place(message, call.sql, found)
        if len(error.args) == 1:
            error.args = (message,)
        raise


def query_tree(call: StatementCall, text: QueryText) -> Any:
    """Return the tree of a query; None if the text has parts that are not those of a query."""
    try:
        return parse_query(text, call.parameters).tree
    except LakehouseError:
        return None


def query_lines(planned: PlannedQuery, found: EngineQuery) -> Iterator[str]:
    """Yield what a query that its engine has accepted would read, for people."""
    yield f"engine: {planned.engine}"
    for start in planned.references:
        yield from _explained(start, planned, found)
    yield f"query: {planned.prepared.text}"


def plan_query(call: StatementCall, text: QueryText, sources: Sources | None = None) -> PlannedQuery:
    """Resolve, analyse and plan a query. `sources`: what names of its statement mean already. Raises NotFound
    with the place of a name, InvalidRequest, UnsupportedFeature, and the errors of scans.
    """
    session, sources = session_of(call), Sources() if sources is None else sources
    query = PreparingQuery(text, call.parameters, session)
    resolved = {start: sources.of(call, reference) for start, reference in query.references.items()}
    prepared = query.prepared(
        {start: source.fields for start, source in resolved.items()},
        {start: source.prunes for start, source in resolved.items()},
    )
    relations = {}
    for start, source in resolved.items():
        with call.placed(query.references[start].name):
            relations[start] = source.relation(
                prepared.views[start], prepared.pushed.get(start), takes_first_rows=prepared.takes_first_rows
            )
    return PlannedQuery(text=text, prepared=prepared, references=query.references, relations=relations, session=session)


def engine_query(planned: PlannedQuery, call: StatementCall) -> Any:
    """Hand the query to its engine. Raises InvalidRequest for a query that the engine refuses."""
    prepared, relations = planned.prepared, list(planned.relations.values())
    if planned.session is not None:
        from lakehouse_core.execution.engines.spark.sql.query import SparkQuery  # noqa: PLC0415

        return SparkQuery(planned.session, prepared.text, relations, call.parameters)
    from lakehouse_core.execution.engines.duckdb.query import DuckdbQuery  # noqa: PLC0415

    found = DuckdbQuery(prepared.text, relations, prepared.names, prepared.schema)
    if all(relation.plan is not None for relation in relations):
        # The columns of tables, unlike those of other rows, have one type in DuckDB.
        prepared.schema = found.schema
    return found


def read_at(planned: PlannedQuery, table: str) -> ReadAt | None:
    """Return the snapshot at which the query reads the latest rows of the table, None if it does not read them."""
    own = {
        relation.plan.snapshot_id
        for start, relation in planned.relations.items()
        if relation.plan is not None and relation.title == table and planned.references[start].point is None
    }
    return ReadAt(own.pop()) if own else None


def rows_at_once(planned: PlannedQuery) -> ArrowRows:
    """Return all rows of a query of DuckDB, which is bound and read in one connection. Raises as `engine_query`."""
    from lakehouse_core.execution.engines.duckdb.query import read_at_once  # noqa: PLC0415

    prepared = planned.prepared
    return RowsInMemory(read_at_once(prepared.text, list(planned.relations.values()), prepared.names))


def _explained(start: int, planned: PlannedQuery, found: EngineQuery) -> Iterator[str]:
    reference, relation = planned.references[start], planned.relations[start]
    alias = "" if reference.alias is None else f" as {reference.alias}"
    plan = relation.plan
    if plan is None:
        yield f"table {relation.title}{alias}: all columns, no condition is pushed"
        return
    native, condition = found.native_count(relation), planned.prepared.pushed[start].condition
    yield f"table {relation.title}{alias}: snapshot {plan.snapshot_id}, schema {plan.schema.id}"
    yield f"  columns: {', '.join(plan.columns)}"
    yield f"  condition: {'none' if condition is None else condition_text(condition)}"
    yield (
        f"  files: {plan.file_count} of {_bytes(plan)} in {len(plan.splits)} splits; {native} splits are read by "
        f"{found.reader} itself, {len(plan.splits) - native} are read here; {plan.manifests_read} of "
        f"{plan.manifests_total} manifests"
    )


def _bytes(plan: ScanPlan) -> str:
    return f"{plan.size_bytes:,} bytes"


def condition_text(condition: Any) -> str:
    """Return a condition as SQL, for people."""
    match condition:
        case Compare(column, comparison, value):
            return f"{column} {comparison} {value!r}" if isinstance(value, str) else f"{column} {comparison} {value}"
        case In(column, values):
            return f"{column} IN ({', '.join(map(repr, values[:10]))}{', …' if len(values) > 10 else ''})"
        case IsNull(column):
            return f"{column} IS NULL"
        case StartsWith(column, prefix):
            return f"{column} LIKE {prefix + '%'!r}"
        case Not(part):
            return f"NOT ({condition_text(part)})"
        case And(parts):
            return " AND ".join(map(condition_text, parts))
        case Or(parts):
            return f"({' OR '.join(map(condition_text, parts))})"
    return str(condition)


def error_of_query(call: StatementCall, error: LakehouseError) -> LakehouseError:
    """Return what the query did wrong if that ended a job of Spark, which wrote or merged its rows; else the error."""
    if not isinstance(error, TaskFailed) or session_of(call) is None:
        return error
    from lakehouse_core.execution.engines.spark.sql.query import query_error  # noqa: PLC0415

    return query_error(error.__cause__) or error
