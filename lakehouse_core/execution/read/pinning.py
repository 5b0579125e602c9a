"""Pinning: the state of a table that all references of a statement read.

Rule: references to one table and point in time share a look, so that they read one snapshot and one schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.scan import ReadRequest, ScanPlan, plan_read, read_point
from lakehouse_core.execution.read.state import state_at
from lakehouse_core.metadata.look import Look
from lakehouse_core.planning.read.read_point import AtSnapshot, AtTag, ReadPoint, is_pinned
from lakehouse_core.table.predicate import Predicate, bind
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table at one point in time. `point` None: the state that the table's options name, in `look`.

    `schema`: the one by which rows are read.
    """

    context: TableContext
    look: Look
    point: ReadPoint | None
    options: Mapping[str, str]
    schema: TableSchema

    def plan(self, columns: tuple[str, ...] | None, condition: Predicate | None) -> ScanPlan:
        """Plan a read of these columns. Raises as `plan_read` does."""

        def bound(schema: TableSchema) -> Predicate | None:
            return None if condition is None else bind(condition, schema.fields)

        request = ReadRequest(
            table=self.context.name, point=self.point, options=self.options, columns=columns, condition=bound
        )
        return plan_read(self.context, request, self.look)


def pin(context: TableContext, point: ReadPoint | None, options: Mapping[str, str]) -> PinnedTable:
    """Find the snapshot and the schema that a read gets. Raises NotFound, SnapshotExpired, InvalidRequest."""
    look = context.look()
    schema = context.schemas.latest(look)
    asked = read_point(schema, context.name, point, options)
    if is_pinned(asked):
        state = state_at(context, asked, look)
        if state.snapshot is not None:
            named = next(iter(state.tags), None)
            point = AtSnapshot(state.snapshot.id) if named is None else AtTag(named)
            schema, options = context.schemas.schema(state.snapshot.schema_id), {}
    return PinnedTable(context, look, point, options, schema)
