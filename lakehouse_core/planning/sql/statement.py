"""Statements of SQL as values. `parse` makes them; each part of the text is in the value, or is refused.

Source: docs/sql.md#changing-tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.planning.sql.tokens import Name, SqlText


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query inside a statement: from the token `first`, whose place is `start`, to the end of the text."""

    sql: SqlText
    first: int
    start: int


@dataclass(frozen=True, slots=True)
class Part:
    """An expression inside a statement: the text from `start` to `end`."""

    sql: SqlText
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.sql.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Select:
    """A statement that only asks."""

    query: QueryText


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query, or of a statement that writes."""

    statement: "Select | Insert | DeleteRows | UpdateRows | MergeRows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT. `columns` None: those of the table, in order. `partition`: the values of PARTITION (…); a column without
    one is in `dynamic`. `replaced`: the condition of REPLACE WHERE.
    """

    table: Name
    query: QueryText
    overwrites: bool
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: Mapping[str, Any] = field(default_factory=dict)
    dynamic: tuple[str, ...] = ()
    replaced: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRows:
    """DELETE. `condition` None: all rows."""

    table: Name
    alias: str | None = None
    condition: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A column that gets a new value; `column` may have the table's name before it."""

    column: Name
    value: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRows:
    """UPDATE. `condition` None: all rows."""

    table: Name
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    condition: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBranch:
    """A WHEN of MERGE. `rows`: matched, new (in the source alone) or rest (in the table alone). `action`: update,
    insert or delete; `assignments` None with update and insert: all columns.
    """

    rows: str
    action: str
    condition: Part | None = None
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRows:
    """MERGE. `source`: the name of a table, or a query without its parentheses."""

    table: Name
    source: Name | Part
    on: Part
    branches: tuple[MergeBranch, ...]
    alias: str | None = None
    source_alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """TRUNCATE. `partition`: the values of PARTITION (…), empty without it."""

    table: Name
    partition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitions:
    """ALTER TABLE … DROP PARTITION. `missing_ok`: a partition without rows is not an error."""

    table: Name
    partitions: tuple[Mapping[str, Any], ...]
    missing_ok: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    name: Name
    exist_ok: bool
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """Changes of properties; None removes one."""

    name: Name
    properties: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    name: Name
    missing_ok: bool
    cascade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE. `query`: of CREATE TABLE … AS; the columns are then those of the query."""

    name: Name
    exist_ok: bool
    columns: tuple[DataField, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    query: QueryText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    name: Name
    missing_ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE. `known_options`: keys that UNSET without IF EXISTS names, which must be set."""

    name: Name
    changes: tuple[SchemaChange, ...]
    known_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable:
    name: Name
    target: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentColumn:
    """COMMENT ON COLUMN. `name`: that of the table, and of the column or a field inside it behind it."""

    name: Name
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTag:
    """ALTER TABLE … TAG. `action`: create, replace, create or replace, delete or rename. `snapshot` None: the latest;
    `retention` None: the tag is kept.
    """

    table: Name
    action: str
    tag: str
    new_name: str = ""
    exist_ok: bool = False
    missing_ok: bool = False
    snapshot: int | None = None
    retention: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW. `what` is databases, tables, tblproperties, create, columns, partitions or tags."""

    what: str
    name: Name | None = None
    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE. `what` is table, database or history."""

    what: str
    name: Name
    extended: bool = False
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of CALL. `name` None: by position."""

    name: str | None
    value: Any
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProcedure:
    sql: SqlText
    procedure: Name
    arguments: tuple[Argument, ...]


Statement: TypeAlias = (
    Select
    | Explain
    | Insert
    | DeleteRows
    | UpdateRows
    | MergeRows
    | Truncate
    | DropPartitions
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | DropTable
    | AlterTable
    | RenameTable
    | CommentColumn
    | ChangeTag
    | Show
    | Describe
    | CallProcedure
)
