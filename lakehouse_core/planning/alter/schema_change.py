"""What ALTER TABLE may ask for: each change of a schema as a value.

Each argument is looked at when the value is made, so that what is in it can be stored.
Source: docs/semantics/tables.md#schema-changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.stored import check_text

# A column by its name, or a path to a nested field: names of fields, `element` of an array, `value` of a map.
Column: TypeAlias = str | tuple[str, ...]


def _check_column(what: str, value: object) -> None:
    if isinstance(value, str):
        check_text(what, value)
        return
    if not isinstance(value, tuple) or not value:
        raise InvalidRequest(
            f"{what} is {shown(value)}: give a column's name, or a tuple of names that leads to a nested field."
        )
    for part in value:
        check_text(what, part)


def _check_text_or_none(what: str, value: object) -> None:
    if value is not None:
        check_text(what, value)


def _check_flag(what: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{what} is {shown(value)}: expected True or False.")


_CHECKS: Final[Mapping[Any, Callable[[str, object], None]]] = {
    Column: _check_column,
    str: check_text,
    str | None: _check_text_or_none,
    bool: _check_flag,
}


class _Change:
    """Arguments of the declared types, texts that can be stored. Raises InvalidRequest naming the argument."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            _CHECKS[each.type](f"{type(self).__name__}: {each.name}", getattr(self, each.name))


@dataclass(frozen=True, slots=True)
class AddColumn(_Change):
    """Add a nullable column; without a place, at the end. `type` is SQL text."""

    name: Column
    type: str
    comment: str | None = None
    first: bool = False
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class DropColumn(_Change):
    """Leave a column out from now on; files keep it. Key columns and the last column stay."""

    name: Column


@dataclass(frozen=True, slots=True)
class RenameColumn(_Change):
    """Give a column another name; keys and options that name it follow."""

    name: Column
    new_name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnType(_Change):
    """Read and write the column as another type from now on. Nullability stays unless the text says NOT NULL."""

    name: Column
    type: str


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability(_Change):
    """Let a column hold nulls, or no longer; the latter needs an option that says so. Key columns stay NOT NULL."""

    name: Column
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment(_Change):
    """Change the comment of a column; None removes it."""

    name: Column
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault(_Change):
    """Fill nulls of later writes with the value that the text stands for; None ends that. Stored rows stay."""

    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn(_Change):
    """Give a column another place: exactly one of the four."""

    name: str
    first: bool = False
    after: str | None = None
    before: str | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class SetOption(_Change):
    """Set a table option; both are text, with units where Paimon has them (`128 mb`, `1 h`)."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption(_Change):
    """Give a table option its default again."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment(_Change):
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
