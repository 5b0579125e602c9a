"""The join of a MERGE in this process, by DuckDB: the rows of the table are a stream, those of the source a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engines.duckdb.query import read_at_once
from lakehouse_core.execution.read.relation import Relation, joined_relations
from lakehouse_core.execution.row_changes.bounds import FEW_ROWS, arrow_bounds
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.format.data_types import DataField, field_from_arrow
from lakehouse_core.interchange.arrow_rows import ArrowRows, RowsInMemory
from lakehouse_core.planning.row_changes.merge_join import ADDRESS, SOURCE_VIEW, TARGET_VIEW, MergePlan
from lakehouse_core.planning.sql.duckdb.translate import duckdb_text
from lakehouse_core.planning.sql.joining import JoinQuery, parse_join, query_over
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.change_rows.among import Among
from lakehouse_core.tasks.change_rows.target import TargetTask, target_rows, target_schema
from lakehouse_core.tasks.runtime import TaskRuntime, local_runtime

# A pipeline repeats its statements, and translating one takes longer than joining a few thousand rows.
_MOST_JOINS: Final = 64
_MOST_CHARACTERS: Final = 100_000


class LocalMerge:
    """The side of a MERGE whose source is an Arrow table."""

    in_utc: Final = True

    def __init__(self, table: TableContext, source: pa.Table, given: SourceRows) -> None:
        self.read_at = given.read_at
        self.request = given.request
        self._named = given.named
        self._runtime = local_runtime(table.store, table.clock)
        self._source = source
        self.fields: Sequence[DataField] = tuple(field_from_arrow(each) for each in source.schema)

    def few(self, columns: Sequence[str]) -> pa.Table | None:
        return self._source.select(columns) if self._source.num_rows <= FEW_ROWS else None

    def bounds(self, columns: Sequence[str]) -> Mapping[str, tuple[Any, Any]]:
        return arrow_bounds(self._source, columns)

    def matchable(
        self, tasks: Sequence[TargetTask], columns: Sequence[str], schema: TableSchema, among: Among
    ) -> pa.Table:
        made = target_schema(schema, tuple(columns), ADDRESS)
        return pa.Table.from_batches(_TargetRows(tasks, made, self._runtime, among).to_batches(), made)

    def joined(
        self,
        plan: MergePlan,
        tasks: Sequence[TargetTask],
        schema: TableSchema,
        parameters: Mapping[str, Any],
        among: Among | None,
    ) -> pa.Table:
        target = _TargetRows(tasks, target_schema(schema, plan.columns, ADDRESS), self._runtime, among)
        fields = tuple(field_from_arrow(each) for each in target.schema())
        known = None
        if not parameters and len(plan.text) <= _MOST_CHARACTERS:
            known = _known(plan.text, fields, tuple(self.fields))
        others: Sequence[Relation] = ()
        if known is None:
            sides = {TARGET_VIEW: fields, SOURCE_VIEW: self.fields}
            join, others = joined_relations(plan.text, sides, parameters, self._named, in_utc=True)
            known = _translated(join)
        relations = [
            Relation(view=known.target, title="target", rows=target),
            Relation(view=known.source, title="source", rows=RowsInMemory(self._source)),
            *others,
        ]
        return read_at_once(known.text, relations, known.names)


@dataclass(frozen=True, slots=True)
class _Join:
    """A join in DuckDB's SQL, with the names of its columns and those of its relations."""

    text: str
    names: Sequence[str]
    target: str
    source: str


def _translated(join: JoinQuery) -> _Join:
    analysed = join.analysed
    text = duckdb_text(analysed.tree, analysed.schema)
    return _Join(text, analysed.names, join.views[TARGET_VIEW], join.views[SOURCE_VIEW])


@lru_cache(maxsize=_MOST_JOINS)
def _known(text: str, target: tuple[DataField, ...], source: tuple[DataField, ...]) -> _Join | None:
    """Return the join of a text without parameters; None if it reads other relations. Raises as `joined_relations`."""
    query = parse_join(text, {})
    sides = {TARGET_VIEW: target, SOURCE_VIEW: source}
    if any(str(each.name) not in sides for each in query.references.values()):
        return None
    return _translated(query_over(query, sides, {}, in_utc=True))


class _TargetRows(ArrowRows):
    def __init__(
        self, tasks: Sequence[TargetTask], schema: pa.Schema, runtime: TaskRuntime, among: Among | None
    ) -> None:
        self._tasks = tasks
        self._schema = schema
        self._runtime = runtime
        self._among = among

    def schema(self) -> pa.Schema:
        return self._schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from target_rows(self._tasks, self._runtime, self._among)
