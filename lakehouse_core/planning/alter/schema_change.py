"""Schema changes: each change that ALTER TABLE can make, as a value.

Rule: each value checks its arguments when it is made, so that a change can be stored.
Source: docs/semantics/tables.md#schema-changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from lakehouse_core.calls import checks_arguments
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.stored import check_text

# A column's name, or the path of a nested field: names of fields, `element` for an array, `value` for a map.
Column: TypeAlias = str | tuple[str, ...]


def _check_column(what: str, value: object) -> None:
    if isinstance(value, str):
        check_text(what, value)
        return
    if not isinstance(value, tuple) or not value:
        raise InvalidRequest(
            f"{what} is {shown(value)}: give a column's name, or the path of a nested field as a tuple of names."
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
    """Checks that arguments have the declared types and that texts can be stored. Raises InvalidRequest naming the
    argument.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            _CHECKS[each.type](f"{type(self).__name__}: {each.name}", getattr(self, each.name))


@checks_arguments
@dataclass(frozen=True, slots=True)
class AddColumn(_Change):
    """Add a nullable column, by default as the last one. `type` is SQL text."""

    name: Column
    type: str
    comment: str | None = None
    first: bool = False
    after: str | None = None
    before: str | None = None


@checks_arguments
@dataclass(frozen=True, slots=True)
class DropColumn(_Change):
    """Drop a column from the schema; existing files keep its values. Key columns and the only column cannot be
    dropped.
    """

    name: Column


@checks_arguments
@dataclass(frozen=True, slots=True)
class RenameColumn(_Change):
    """Rename a column, also in keys and options that name it."""

    name: Column
    new_name: str


@checks_arguments
@dataclass(frozen=True, slots=True)
class UpdateColumnType(_Change):
    """Change the type by which a column is read and written. Nullability stays unless the text says NOT NULL."""

    name: Column
    type: str


@checks_arguments
@dataclass(frozen=True, slots=True)
class UpdateColumnNullability(_Change):
    """Make a column nullable or NOT NULL; NOT NULL needs `alter-column-null-to-not-null.disabled` = false. Key columns
    stay NOT NULL.
    """

    name: Column
    nullable: bool


@checks_arguments
@dataclass(frozen=True, slots=True)
class UpdateColumnComment(_Change):
    """Change the comment of a column; None removes it."""

    name: Column
    comment: str | None


@checks_arguments
@dataclass(frozen=True, slots=True)
class UpdateColumnDefault(_Change):
    """Set the default, as text, that replaces nulls in later writes; None removes it. Stored rows do not change."""

    name: str
    default: str | None


@checks_arguments
@dataclass(frozen=True, slots=True)
class MoveColumn(_Change):
    """Move a column: give exactly one of the four places."""

    name: str
    first: bool = False
    after: str | None = None
    before: str | None = None
    last: bool = False


@checks_arguments
@dataclass(frozen=True, slots=True)
class SetOption(_Change):
    """Set a table option; key and value are text, with units as in Paimon (`128 mb`, `1 h`)."""

    key: str
    value: str


@checks_arguments
@dataclass(frozen=True, slots=True)
class RemoveOption(_Change):
    """Reset a table option to its default."""

    key: str


@checks_arguments
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
