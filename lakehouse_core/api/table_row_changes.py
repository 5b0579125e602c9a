"""Row changes of `Table`: delete, update, truncate, drop_partitions.

Rule: a wrong argument is refused before the verb reads a row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakehouse_core.api.arguments import CallOptions, Condition, bound_condition, checked_isolation, mapping_of
from lakehouse_core.api.error_context import names_table
from lakehouse_core.api.report_building import row_change_report
from lakehouse_core.api.reports import RowChangeReport, timed
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.change import change_rows
from lakehouse_core.planning.partitions import partition_condition
from lakehouse_core.planning.row_changes.assignments import checked_assignments
from lakehouse_core.planning.row_changes.statements import Delete, Isolation, Statement, Update
from lakehouse_core.progress import Watch
from lakehouse_core.table.predicate import Or
from lakehouse_core.table.schema import TableSchema


@names_table
@timed
def delete(table: TableContext, where: Condition, call: CallOptions, *, isolation: Isolation) -> RowChangeReport:
    condition = bound_condition(where)

    def make(schema: TableSchema) -> Statement:
        return Delete(condition=condition(schema))

    return _change(table, make, call, call.watch("delete", table.name), isolation)


@names_table
@timed
def update(
    table: TableContext,
    assignments: Mapping[str, Any],
    where: Condition,
    call: CallOptions,
    *,
    isolation: Isolation,
) -> RowChangeReport:
    condition = bound_condition(where)
    given = mapping_of("assignments", assignments)

    def make(schema: TableSchema) -> Statement:
        return Update(condition=condition(schema), assignments=checked_assignments(given, schema))

    return _change(table, make, call, call.watch("update", table.name), isolation)


@names_table
@timed
def truncate(table: TableContext, call: CallOptions) -> RowChangeReport:
    def make(schema: TableSchema) -> Statement:
        return Delete(condition=None, operation="TRUNCATE")

    return _change(table, make, call, call.watch("truncate", table.name))


@names_table
@timed
def drop_partitions(
    table: TableContext, partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]], call: CallOptions
) -> RowChangeReport:
    given = [partitions] if isinstance(partitions, Mapping) else partitions
    if not isinstance(given, list | tuple) or not given or not all(isinstance(one, Mapping) and one for one in given):
        raise InvalidRequest(
            f"partitions={shown(partitions)}: expected a dict from partition columns to values, or a list of these. To "
            "delete all rows, call truncate."
        )

    def make(schema: TableSchema) -> Statement:
        conditions = tuple(condition for one in given if (condition := partition_condition(one, schema)) is not None)
        return Delete(condition=conditions[0] if len(conditions) == 1 else Or(conditions))

    return _change(table, make, call, call.watch("drop_partitions", table.name))


def _change(
    table: TableContext,
    make: Callable[[TableSchema], Statement],
    call: CallOptions,
    watch: Watch,
    isolation: Isolation = "snapshot",
) -> RowChangeReport:
    result = change_rows(
        table,
        make,
        isolation=checked_isolation(isolation),
        dry_run=call.dry_run,
        properties=call.checked_properties(),
        watch=watch,
    )
    return row_change_report(result, dry_run=call.dry_run)
