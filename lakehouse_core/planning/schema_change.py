"""What ALTER TABLE may ask for: each change of a schema as a value. Source: Paimon semantics A.7."""

from dataclasses import dataclass
from typing import TypeAlias

# A column by its name, or a path to a nested field: names of fields, `element` of an array, `value` of a map.
Column: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a nullable column; without a place, at the end. `type` is SQL text."""

    name: Column
    type: str
    comment: str | None = None
    first: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Leave a column out from now on; files keep it. Key columns and the last column stay."""

    name: Column


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Give a column another name; keys and options that name it follow."""

    name: Column
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Read and write the column as another type from now on. Nullability stays unless the text says NOT NULL."""

    name: Column
    type: str


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Let a column hold nulls, or no longer; the latter needs an option that says so. Key columns stay NOT NULL."""

    name: Column
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """Change the comment of a column; None removes it."""

    name: Column
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """Fill nulls of later writes with the value that the text stands for; None ends that. Stored rows stay."""

    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Give a column another place: exactly one of the four."""

    name: str
    first: bool = False
    after: str | None = None
    before: str | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set a table option; both are text, with units where Paimon has them (`128 mb`, `1 h`)."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """Give a table option its default again."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """Change the comment of the table; None removes it."""

    comment: str | None


SchemaChange: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefault
    | MoveColumn
    | SetOption
    | RemoveOption
    | UpdateComment
)
