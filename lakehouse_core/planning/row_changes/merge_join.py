"""The join of a MERGE, as it is planned: its query, and what becomes of the joined rows.

Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from lakehouse_core.planning.row_changes.expressions import Default
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import RESERVED_PREFIX

# Columns of the joined rows, and of the two relations; no column of a table begins like these.
ADDRESS: Final = f"{RESERVED_PREFIX}ADDRESS"
SOURCE: Final = f"{RESERVED_PREFIX}SOURCE"
ACTION: Final = f"{RESERVED_PREFIX}ACTION"
TARGET_VIEW: Final = "lakehouse merge target"
SOURCE_VIEW: Final = "lakehouse merge source"

Action: TypeAlias = Literal["update", "delete", "insert"]
# The value of a column: a column of the joined rows, the column's default, or what `with_new_values` takes.
Value: TypeAlias = str | Default


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """`values`: by column of the table, its value in the rows of this clause; an update has those it assigns only."""

    action: Action
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainJoin:
    """A join that computes nothing: ON says that columns are equal, no clause has a condition, and each value is a
    column or a default. `matched`, `unmatched`: the clause of rows of the source with and without a row of the table;
    None: there is none. `target_values`, `source_values`: by alias, the columns that clauses take.
    """

    matched: int | None
    unmatched: int | None
    target_values: Mapping[str, str]
    source_values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """`text`: the query of the joined rows, over the relations TARGET_VIEW and SOURCE_VIEW. Its columns are ADDRESS of
    the table's row, SOURCE (true, or null without a row of the source) and ACTION, the number of the clause. Columns of
    the table follow by the names in `kept`, then the values of the clauses.

    `columns`: those of the table that the join reads. `is_pruned`: rows of the table without a match do not matter;
    `condition`: what the others satisfy, None if nothing is known. `equated`: pairs of columns of table and source that
    ON compares. `checks_matches`: a row of the table may have one row of the source only. `keys_are_new`: ON compares
    inserted keys with those of the table. `plain`: the same join without an engine of SQL, if that can be said.
    `places`: by its name, where a value stands in a statement.
    """

    text: str
    clauses: tuple[PlannedClause, ...]
    columns: tuple[str, ...]
    kept: Mapping[str, str]
    condition: Predicate | None
    equated: tuple[tuple[str, str], ...]
    is_pruned: bool
    checks_matches: bool
    keys_are_new: bool
    plain: PlainJoin | None = None
    in_sql: bool = False
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def inserts(self) -> bool:
        return any(one.action == "insert" for one in self.clauses)
