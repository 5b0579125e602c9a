"""The changes of a schema that rows with more or wider columns need: `write.merge-schema`.

Rule: columns are matched by name, none is dropped, and a type only grows: every stored value stays what it is.
Source: docs/sql.md#rows-with-new-columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from lakehouse_core.format.data_types import (
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    type_to_sql,
    with_nullable,
)
from lakehouse_core.planning.alter.schema_change import AddColumn, SchemaChange, UpdateColumnType

# By type, the other types that hold each of its values.
_HELD_BY: Final = {
    TypeRoot.TINYINT: (TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.SMALLINT: (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.INT: (TypeRoot.BIGINT, TypeRoot.DOUBLE),
    TypeRoot.FLOAT: (TypeRoot.DOUBLE,),
    TypeRoot.CHAR: (TypeRoot.VARCHAR,),
    TypeRoot.BINARY: (TypeRoot.VARBINARY,),
}


def wider_changes(
    known: Sequence[DataField], given: Sequence[DataField], *, widens: bool, path: tuple[str, ...] = ()
) -> Iterator[SchemaChange]:
    """Yield what makes the columns `known` take rows of the columns `given`: a new column where no name is alike
    without case, also in a ROW; with `widens`, a wider type. `path`: of the ROW that has these columns.
    """
    by_name = {field.name.casefold(): field for field in known}
    for field in given:
        found = by_name.get(field.name.casefold())
        if found is None:
            yield AddColumn((*path, field.name), _text(field.type))
        elif isinstance(found.type, RowType) and isinstance(field.type, RowType):
            yield from wider_changes(found.type.fields, field.type.fields, widens=widens, path=(*path, found.name))
        elif widens and (wider := _wider(found.type, field.type)) is not None:
            yield UpdateColumnType((*path, found.name), _text(wider))


def _text(data_type: DataType) -> str:
    return type_to_sql(with_nullable(data_type, nullable=True))


def _wider(known: DataType, given: DataType) -> DataType | None:
    """Return the type that holds the values of both, if it is not the known one."""
    if not (isinstance(known, AtomicType) and isinstance(given, AtomicType)):
        return None
    if known.root is not given.root:
        return given if given.root in _HELD_BY.get(known.root, ()) and _length(given) >= _length(known) else None
    if known.root is TypeRoot.DECIMAL:
        grows = known.scale == given.scale and (given.precision or 0) > (known.precision or 0)
        return replace(known, precision=given.precision) if grows else None
    return given if known.root is not TypeRoot.TIME and _length(given) > _length(known) else None


def _length(data_type: AtomicType) -> int:
    """Return the length of texts and bytes, the digits of a time; 0 for a type that has neither."""
    return data_type.length or data_type.precision or 0
