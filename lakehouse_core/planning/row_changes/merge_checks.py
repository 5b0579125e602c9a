"""Checks of a MERGE before its query is made: its clauses, its source, and what a table of the kind takes.

Rule: a clause that would have no effect in the table is refused, never written.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.row_changes.merge_clauses import (
    ALL,
    Clause,
    MergeName,
    MergeRequest,
    WhenMatched,
    WhenNotMatched,
    WhenNotMatchedBySource,
)
from lakehouse_core.planning.row_changes.methods import partition_columns
from lakehouse_core.table.bucketing import moves_keys
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import RESERVED_PREFIX, TableSchema

_WORDS: Final[Mapping[type, str]] = {
    WhenMatched: "WHEN MATCHED",
    WhenNotMatched: "WHEN NOT MATCHED",
    WhenNotMatchedBySource: "WHEN NOT MATCHED BY SOURCE",
}


def words(clause: Clause) -> str:
    """Return what SQL calls the clause."""
    return _WORDS[type(clause)]


def check_source(request: MergeRequest, columns: Sequence[str]) -> None:
    """Raise InvalidRequest unless table and source, and the columns of the source, have names that tell them apart."""
    if request.target.casefold() == request.source.casefold():
        raise InvalidRequest(
            f"MERGE: table and source are both called {shown(request.target)}. Give one of them another name."
        )
    seen: set[str] = set()
    for name in columns:
        if name.startswith(RESERVED_PREFIX):
            raise InvalidRequest(f"MERGE: the source has a column {shown(name)}, a reserved name. Rename it.")
        if name.casefold() in seen:
            raise InvalidRequest(
                f"MERGE: the source has column {shown(name)} more than once. Rename or leave out one of them."
            )
        seen.add(name.casefold())


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Raise InvalidRequest unless each clause can count and says one thing to do."""
    if not clauses:
        raise InvalidRequest(
            "MERGE has no clause. Add WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE "
            "(WhenMatched, WhenNotMatched, WhenNotMatchedBySource)."
        )
    last: dict[type, bool] = {}
    for clause in clauses:
        if last.get(type(clause)):
            raise InvalidRequest(
                f"MERGE: a second {words(clause)} follows one without a condition, so it never counts. "
                "Give the first one a condition, or leave one of them out."
            )
        last[type(clause)] = clause.where is None
        if isinstance(clause, WhenNotMatched):
            _check_values(clause, clause.insert)
            continue
        if (clause.update is None) == (not clause.delete):
            raise InvalidRequest(
                f"MERGE: {words(clause)} has {'both' if clause.delete else 'none'} of update and delete, "
                "expected one of them."
            )
        if clause.update is not None:
            _check_values(clause, clause.update)


def check_takes_deletes(schema: TableSchema, operation: MergeName) -> None:
    """Raise UnsupportedFeature for a table in which a delete record has no effect. `operation`: the caller's."""
    if schema.is_append:
        return
    engine, options = schema.table_options.merge_engine, schema.table_options
    removes = engine is MergeEngine.DEDUPLICATE or (
        engine is not MergeEngine.FIRST_ROW and merge_spec(schema).removes_on_delete
    )
    if removes and not options.ignore_delete:
        return
    why = "ignore-delete = true" if options.ignore_delete else f"merge-engine = {engine}"
    if operation == "DELETE":
        raise UnsupportedFeature(
            f"The table has {why}, which takes no deletes, so its buckets are rewritten. For that, compare "
            "columns with literals in the condition, by =, <, IN, IS NULL and the like."
        )
    raise UnsupportedFeature(
        f"MERGE with DELETE: the table has {why}, which takes no deletes. Delete the rows with delete, which "
        "rewrites the buckets."
    )


def check_takes_updates(schema: TableSchema) -> None:
    """Raise UnsupportedFeature for a table in which the updated row would not be what a reader gets."""
    if schema.is_append:
        return
    engine = schema.table_options.merge_engine
    if engine in (MergeEngine.AGGREGATION, MergeEngine.FIRST_ROW):
        raise UnsupportedFeature(
            f"MERGE with UPDATE: the table has merge-engine = {engine}, which does not replace the "
            "old row of a key by a new one. Insert new rows only, or delete the rows and write them "
            "anew."
        )
    if engine is MergeEngine.PARTIAL_UPDATE and (functions := merge_spec(schema).functions):
        raise UnsupportedFeature(
            f"MERGE with UPDATE: column {shown(next(iter(functions)))} has an aggregate function, so an update "
            "would be combined with the old row. Write the row instead."
        )


def check_leaves_partition(schema: TableSchema, assigned: Collection[str]) -> None:
    """Raise UnsupportedFeature for a new value of a partition column in a table whose rows stay in their partition."""
    moves = moves_keys(schema.bucketing) and schema.table_options.merge_engine is MergeEngine.DEDUPLICATE
    if not moves and (moved := partition_columns(schema, assigned)):
        raise UnsupportedFeature(
            f"MERGE with UPDATE: column {shown(moved[0])} is a partition column, and an update leaves a row in its "
            "partition. Leave the column out; or delete the rows, and write them with their new partition."
        )


def _check_values(clause: Clause, given: object) -> None:
    takes_all = not isinstance(clause, WhenNotMatchedBySource)
    if not (isinstance(given, Mapping) and given) and not (takes_all and given == ALL):
        raise InvalidRequest(
            f"MERGE: {words(clause)} has the values {shown(given)}: expected a dict from columns to values"
            f"{', or *' if takes_all else ''}."
        )
