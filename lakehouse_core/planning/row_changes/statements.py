"""Statements: row changes as values: which rows, and what becomes of them.

Source: docs/semantics/row-changes.md#methods.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lakehouse_core.planning.row_changes.expressions import Expression
from lakehouse_core.planning.row_changes.merge_clauses import MergeName
from lakehouse_core.table.predicate import Predicate

# `serializable`: rows that a write added after the statement read the table, and that satisfy its condition, are a
# conflict as well; with `snapshot` the write counts as one that came after the statement.
Isolation: TypeAlias = Literal["snapshot", "serializable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the rows that satisfy the bound condition; None: all rows. `operation` is its name in the snapshot.
    `drops_partitions`: it is said of partitions or of the whole table, not of rows, so it leaves no changelog.
    """

    condition: Predicate | None
    operation: Literal["DELETE", "TRUNCATE"] = "DELETE"
    drops_partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Give the columns of `assignments` new values, computed from the old row, where the bound condition holds."""

    condition: Predicate | None
    assignments: Mapping[str, Expression]
    operation: Literal["UPDATE"] = "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMerge:
    """Change the rows that a source matches, and insert those that it has in addition. `condition`: what the rows that
    it reads satisfy; None: all. A DELETE or UPDATE whose expressions an engine computes is one too.
    """

    condition: Predicate | None
    operation: MergeName = "MERGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Delete the rows that satisfy the bound condition, and add given ones, which satisfy it too; None: all rows."""

    condition: Predicate | None
    operation: Literal["OVERWRITE"] = "OVERWRITE"


Statement: TypeAlias = Delete | Update | SourceMerge | Replacement
