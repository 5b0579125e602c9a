"""Row changes of `Table`: delete, update, merge, truncate, drop_partitions, overwrite by a condition.

Rule: a wrong argument is refused before the verb reads a row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from lakehouse_core.api.arguments import (
    CallOptions,
    Condition,
    GivenRows,
    bound_condition,
    checked_isolation,
    checked_missing,
    mapping_of,
    partition_list,
)
from lakehouse_core.api.report_building import row_change_report
from lakehouse_core.api.reports import RowChangeReport
from lakehouse_core.api.scan import Scan, is_of_latest, planned_anew
from lakehouse_core.api.tagging import tagging
from lakehouse_core.api.verb import reported
from lakehouse_core.errors import CommitConflict, InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.change import change_rows
from lakehouse_core.execution.row_changes.change_base import ReadAt, SourceRows
from lakehouse_core.execution.row_changes.replace import replace_rows
from lakehouse_core.planning.partitions import partition_condition
from lakehouse_core.planning.row_changes.assignments import checked_assignments
from lakehouse_core.planning.row_changes.merge_clauses import (
    MergeRequest,
    WhenMatched,
    WhenNotMatched,
    WhenNotMatchedBySource,
)
from lakehouse_core.planning.row_changes.statements import Delete, Isolation, Statement, Update
from lakehouse_core.progress import Watch
from lakehouse_core.row_files.files import RowFiles
from lakehouse_core.table.commit_message import Missing
from lakehouse_core.table.predicate import Or, Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.input import can_be_read_again, source_rows

if TYPE_CHECKING:
    from lakehouse_core.execution.row_changes.merge import MergeSide


@reported
@tagging
def delete(table: TableContext, where: Condition, call: CallOptions, *, isolation: Isolation) -> RowChangeReport:
    condition = bound_condition(where)

    def make(schema: TableSchema) -> Statement:
        return Delete(condition=condition(schema))

    return _change(table, make, call, call.watch("delete", table.name), isolation)


@reported
@tagging
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


@reported
def truncate(table: TableContext, call: CallOptions) -> RowChangeReport:
    def make(schema: TableSchema) -> Statement:
        return Delete(condition=None, operation="TRUNCATE", drops_partitions=True)

    return _change(table, make, call, call.watch("truncate", table.name))


@reported
def drop_partitions(
    table: TableContext, partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]], call: CallOptions
) -> RowChangeReport:
    given = partition_list(partitions, " To delete all rows, call truncate.")

    def make(schema: TableSchema) -> Statement:
        conditions = tuple(condition for one in given if (condition := partition_condition(one, schema)) is not None)
        return Delete(condition=conditions[0] if len(conditions) == 1 else Or(conditions), drops_partitions=True)

    return _change(table, make, call, call.watch("drop_partitions", table.name))


@reported
@tagging
def overwrite_where(
    table: TableContext, rows: GivenRows, where: Condition, call: CallOptions, *, isolation: Isolation
) -> RowChangeReport:
    return _replace_by(table, bound_condition(where), rows, call, isolation=isolation)


def overwrite_by_itself(
    table: TableContext, rows: GivenRows, partition: Mapping[str, Any] | None, call: CallOptions
) -> RowChangeReport:
    """Replace all rows, or those of a partition, by rows of the table itself. It begins again with rows that are read
    anew if others change any row meanwhile.
    """
    return _replace_by(table, lambda schema: partition_condition(partition or {}, schema), rows, call)


def _replace_by(
    table: TableContext,
    condition: Callable[[TableSchema], Predicate | None],
    rows: GivenRows,
    call: CallOptions,
    *,
    isolation: Isolation = "snapshot",
) -> RowChangeReport:
    missing, runs = checked_missing(rows.missing), 0
    data = rows.data

    def read() -> SourceRows:
        nonlocal runs
        runs += 1
        if runs > 1 and not isinstance(data, RowFiles | Scan) and not can_be_read_again(data):
            raise CommitConflict(
                "Other commits changed rows that the overwrite replaces, and the given rows can be read only once. "
                "Nothing was applied: call it again with rows that are read anew."
            )
        if isinstance(data, RowFiles):
            return SourceRows(data.rows(table.schemas.latest().fields, rowkind_column=None, missing=missing))
        if isinstance(data, Scan) and is_of_latest(data, table):
            # What was planned before is not the latest state any more.
            again = data if runs == 1 else planned_anew(data)
            return SourceRows(again, ReadAt(again.plan().snapshot_id))
        return SourceRows(data)

    return _replace(table, condition, read, call, missing=missing, isolation=isolation)


@reported
@tagging
def overwrite_by(
    table: TableContext,
    condition: Callable[[TableSchema], Predicate | None],
    read: Callable[[], SourceRows],
    call: CallOptions,
    *,
    isolation: Isolation,
) -> RowChangeReport:
    """Replace the rows that satisfy the condition by those that `read` gives, in each run anew."""
    return _replace(table, condition, read, call, missing="null", isolation=isolation)


def _replace(
    table: TableContext,
    condition: Callable[[TableSchema], Predicate | None],
    read: Callable[[], SourceRows],
    call: CallOptions,
    *,
    missing: Missing,
    isolation: Isolation,
) -> RowChangeReport:
    result = replace_rows(
        table,
        condition,
        read,
        missing=missing,
        isolation=checked_isolation(isolation),
        dry_run=call.dry_run,
        properties=call.checked_properties(),
        watch=call.watch("overwrite", table.name),
    )
    return row_change_report(result, dry_run=call.dry_run)


@reported
@tagging
def merge(
    table: TableContext,
    read: Callable[[], SourceRows],
    request: MergeRequest,
    call: CallOptions,
    *,
    isolation: Isolation,
) -> RowChangeReport:
    """Carry out a MERGE. `read` gives the source: once, or in each run if it is read from the table itself."""
    # Programs that merge nothing need not load the parser.
    from lakehouse_core.execution.row_changes.merge import merge_rows  # noqa: PLC0415

    for clause in request.clauses:
        if not isinstance(clause, WhenMatched | WhenNotMatched | WhenNotMatchedBySource):
            raise InvalidRequest(
                f"merge({shown(clause)}): expected WhenMatched(…), WhenNotMatched(…) or WhenNotMatchedBySource(…)."
            )
    with _sides(table, read) as sides:
        result = merge_rows(
            table,
            request,
            sides,
            isolation=checked_isolation(isolation),
            dry_run=call.dry_run,
            properties=call.checked_properties(),
            watch=call.watch("merge", table.name),
        )
    return row_change_report(result, dry_run=call.dry_run)


@contextmanager
def _sides(table: TableContext, read: Callable[[], SourceRows]) -> "Iterator[Callable[[], MergeSide]]":
    """Yield what gives the side of each run: on Spark for a catalog with a session, else in DuckDB."""
    with ExitStack() as open_sides:
        made: list[MergeSide] = []

        def side() -> "MergeSide":
            if not made or made[-1].read_at is not None:
                made.append(_side(table, read(), open_sides))
            return made[-1]

        yield side


def _side(table: TableContext, source: SourceRows, open_sides: ExitStack) -> "MergeSide":
    engine: Any = table.engine()
    open_sides.callback(source.close)
    if engine.is_remote:
        from lakehouse_core.execution.engines.spark.sql.merge import SparkMerge, source_of  # noqa: PLC0415

        remote = SparkMerge(engine.session, source_of(engine.session, source.rows), source)
        open_sides.callback(remote.close)
        return remote
    from lakehouse_core.execution.engines.duckdb.merge import LocalMerge  # noqa: PLC0415

    return LocalMerge(table, source_rows(source.rows), source)


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
