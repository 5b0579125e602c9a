"""Clauses of a MERGE: what becomes of the rows of the table and of the source, as callers say it.

Rule: of the clauses for one kind of row, the first one whose condition is true counts.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from lakehouse_core.calls import checks_arguments

# `update="*"`, `insert="*"`: each column of the table from the column of the source with the same name.
ALL: Final = "*"
MergeName: TypeAlias = Literal["MERGE", "DELETE", "UPDATE"]
Values: TypeAlias = Mapping[str, Any] | Literal["*"]


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class WhenMatched:
    """What becomes of a row that has a row of the source: an update, or a delete.

    `update`: the new value by column, or `"*"` for the values of the source. A text is SQL over the columns `t.a` of
    the table and `s.a` of the source; any other value stands for itself. `where`: SQL text, None for all rows.
    """

    update: Values | None = None
    delete: bool = False
    where: Any = None


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class WhenNotMatched:
    """What becomes of a row of the source that has no row in the table: it is inserted.

    `insert`: the value by column, over the columns `s.a` of the source, or `"*"`. A column that is left out gets its
    default.
    """

    insert: Values
    where: Any = None


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class WhenNotMatchedBySource:
    """What becomes of a row of the table that has no row in the source. Its texts are over the columns `t.a` alone."""

    update: Mapping[str, Any] | None = None
    delete: bool = False
    where: Any = None


Clause: TypeAlias = WhenMatched | WhenNotMatched | WhenNotMatchedBySource


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A MERGE as the caller gave it. `target` and `source` are the names of both in its texts. `operation`: the
    statement that it carries out; `in_sql`: its values are stored as a statement of SQL stores them.
    """

    on: Any
    clauses: tuple[Clause, ...]
    target: str = "t"
    source: str = "s"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    operation: MergeName = "MERGE"
    in_sql: bool = False

    @property
    def takes_all(self) -> bool:
        """Whether a clause takes all columns of the source."""
        return any(
            (isinstance(one, WhenMatched) and one.update == ALL)
            or (isinstance(one, WhenNotMatched) and one.insert == ALL)
            for one in self.clauses
        )
