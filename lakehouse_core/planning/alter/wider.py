"""The changes of a schema that rows with more or wider columns need: `write.merge-schema`.

Rule: columns are matched by name, none is dropped, and a number only gets a type that holds each of its values.
Source: docs/sql.md#rows-with-new-columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from lakehouse_core.errors import InvalidRequest
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
from lakehouse_core.table.schema import TableSchema

# By type, the other types that hold each of its values.
_HELD_BY: Final = {
    TypeRoot.TINYINT: (TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.SMALLINT: (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE),
    TypeRoot.INT: (TypeRoot.BIGINT, TypeRoot.DOUBLE),
    TypeRoot.FLOAT: (TypeRoot.DOUBLE,),
}


def wider_changes(schema: TableSchema, given: Sequence[DataField], *, widens: bool) -> tuple[SchemaChange, ...]:
    """Return what makes the table take rows of the columns `given`: a new column where no name is alike without case,
    also in a ROW; with `widens`, a wider type of a number that places no row. Raises InvalidRequest for new columns
    whose names differ by case alone.
    """
    fixed = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
    return tuple(
        change
        for change in _changes(schema.fields, given, ())
        if isinstance(change, AddColumn) or (widens and change.name[0] not in fixed)
    )


def _changes(
    known: Sequence[DataField], given: Sequence[DataField], path: tuple[str, ...]
) -> Iterator[AddColumn | UpdateColumnType]:
    by_name = {field.name.casefold(): field for field in known}
    added: dict[str, str] = {}
    for field in given:
        name = field.name.casefold()
        found = by_name.get(name)
        if found is None:
            if (twin := added.setdefault(name, field.name)) != field.name:
                names = (".".join((*path, each)) for each in (twin, field.name))
                raise InvalidRequest(f"The new columns {' and '.join(names)} differ by case alone. Rename one.")
            yield AddColumn((*path, field.name), type_to_sql(with_nullable(field.type, nullable=True)))
        elif isinstance(found.type, RowType) and isinstance(field.type, RowType):
            yield from _changes(found.type.fields, field.type.fields, (*path, found.name))
        elif (wider := _wider(found.type, field.type)) is not None:
            yield UpdateColumnType((*path, found.name), type_to_sql(with_nullable(wider, nullable=True)))


def _wider(known: DataType, given: DataType) -> DataType | None:
    """Return the type of numbers that holds the values of both, if it is not the known one."""
    if not (isinstance(known, AtomicType) and isinstance(given, AtomicType)):
        return None
    if known.root is not given.root:
        return given if given.root in _HELD_BY.get(known.root, ()) else None
    if known.root is not TypeRoot.DECIMAL or known.scale != given.scale:
        return None
    return replace(known, precision=given.precision) if (given.precision or 0) > (known.precision or 0) else None
