"""ALTER TABLE: compute the next version of a schema from the latest one and a list of changes.

Rule: field ids are never reused. An added field gets the next id, and files are read by id.
Source: docs/semantics/tables.md#schema-changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, near_hint, shown
from lakehouse_core.format.cast_rules import can_cast
from lakehouse_core.format.data_types import (
    STRING_ROOTS,
    UNASSIGNED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    assign_field_ids,
    parse_type,
    type_to_sql,
    with_nullable,
)
from lakehouse_core.planning.alter.options import (
    drop_in_options,
    remove_option,
    rename_in_options,
    rename_nested_in_options,
    set_option,
)
from lakehouse_core.planning.alter.schema_change import (
    AddColumn,
    Column,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from lakehouse_core.table.schema import (
    SCHEMA_VERSION,
    TableSchema,
    check_count,
    check_new_fields,
    check_new_name,
    check_no_twin,
    check_schema,
    write_supported,
)


def apply_changes(
    schema: TableSchema, changes: Sequence[SchemaChange], *, has_snapshots: bool, now_millis: int
) -> TableSchema:
    """Return the next version of the schema, with all changes applied in order.

    Raises InvalidRequest for a change that is not allowed, UnsupportedFeature for one that is not supported yet.
    """
    if schema.foreign_attributes:
        raise UnsupportedFeature(
            f"The schema has attributes that this package does not know ({', '.join(schema.foreign_attributes)}) and "
            "would lose: alter the table with the engine that made them."
        )
    altered = schema
    for change in changes:
        altered = _apply(altered, change, has_snapshots)
    altered = replace(altered, version=SCHEMA_VERSION, id=schema.id + 1, time_millis=now_millis)
    check_schema(altered)
    write_supported(altered)
    return altered


def _apply(schema: TableSchema, change: SchemaChange, has_snapshots: bool) -> TableSchema:
    match change:
        case AddColumn():
            return _add_column(schema, change)
        case DropColumn(name):
            return _drop_column(schema, _path(name))
        case RenameColumn(name, new_name):
            return _rename_column(schema, _path(name), new_name)
        case UpdateColumnType(name, text):
            return _update_type(schema, _path(name), parse_type(text))
        case UpdateColumnNullability(name, nullable):
            return _update_nullability(schema, _path(name), nullable)
        case UpdateColumnComment(name, comment):
            return _edit_field(schema, _path(name), lambda field: replace(field, description=comment))
        case UpdateColumnDefault(name, default):
            return _edit_field(schema, (name,), lambda field: replace(field, default_value=default))
        case MoveColumn():
            return _move_column(schema, change)
        case SetOption(key, value):
            return replace(schema, options=set_option(schema, key, value, has_snapshots=has_snapshots))
        case RemoveOption(key):
            return replace(schema, options=remove_option(schema, key, has_snapshots=has_snapshots))
        case UpdateComment(comment):
            return replace(schema, comment=comment)
    assert_never(change)


def _path(name: Column) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else name


def _named(path: Sequence[str]) -> str:
    return ".".join(path)


# Columns, top-level and nested: the schema is treated as a ROW whose fields are the columns.


def _edit(schema: TableSchema, path: Sequence[str], edit: Callable[[DataType], DataType]) -> TableSchema:
    """Return the schema with the type at the path edited; the empty path is the ROW of all columns."""
    edited = _edit_within(RowType(schema.fields), path, edit, path)
    assert isinstance(edited, RowType)
    return replace(schema, fields=edited.fields)


def _edit_within(
    data_type: DataType, path: Sequence[str], edit: Callable[[DataType], DataType], whole: Sequence[str]
) -> DataType:
    if not path:
        return edit(data_type)
    step, rest = path[0], path[1:]
    match data_type:
        case RowType(fields):
            index = _index(fields, step, whole)
            field = fields[index]
            field = replace(field, type=_edit_within(field.type, rest, edit, whole))
            return replace(data_type, fields=(*fields[:index], field, *fields[index + 1 :]))
        case ArrayType(element) if step == "element":
            return replace(data_type, element=_edit_within(element, rest, edit, whole))
        case MapType(_, value) if step == "value":
            return replace(data_type, value=_edit_within(value, rest, edit, whole))
        case AtomicType() | ArrayType() | MapType() | MultisetType():
            raise InvalidRequest(
                f"{_named(whole)}: {type_to_sql(data_type)} has no part {shown(step)} that can change: expected a "
                "field of a ROW, 'element' of an ARRAY or 'value' of a MAP."
            )


def _edit_row(
    schema: TableSchema, path: Sequence[str], edit: Callable[[tuple[DataField, ...]], Sequence[DataField]]
) -> TableSchema:
    """Return the schema with an edit of the field list that contains the path's last name."""

    def edit_type(data_type: DataType) -> DataType:
        if not isinstance(data_type, RowType):
            raise InvalidRequest(f"{_named(path)}: {type_to_sql(data_type)} has no fields, only a ROW has.")
        return replace(data_type, fields=tuple(edit(data_type.fields)))

    return _edit(schema, path[:-1], edit_type)


def _edit_field(schema: TableSchema, path: Sequence[str], edit: Callable[[DataField], DataField]) -> TableSchema:
    def edit_fields(fields: tuple[DataField, ...]) -> list[DataField]:
        index = _index(fields, path[-1], path)
        return [edit(field) if position == index else field for position, field in enumerate(fields)]

    return _edit_row(schema, path, edit_fields)


def _index(fields: Sequence[DataField], name: str, path: Sequence[str]) -> int:
    names = [field.name for field in fields]
    if name not in names:
        hint = near_hint(name, names, f"Columns: {', '.join(names)}.", most=1)
        raise InvalidRequest(f"There is no column {_named((*path[:-1], name))}. {hint}")
    return names.index(name)


def _add_column(schema: TableSchema, change: AddColumn) -> TableSchema:
    path = _path(change.name)
    data_type = parse_type(change.type)
    if not data_type.nullable:
        raise InvalidRequest(
            f"Column {_named(path)}: a new column is NULL in existing rows, so it cannot be NOT NULL. Leave NOT "
            "NULL out."
        )
    declared = DataField(UNASSIGNED, path[-1], data_type, change.comment)
    check_new_fields([declared])
    (field,), next_id = assign_field_ids([declared], schema.highest_field_id + 1)
    before = change.before
    anywhere = not change.first and change.after is None and before is None
    if len(path) == 1 and anywhere and schema.table_options.add_column_before_partition and schema.partition_keys:
        before = next(name for name in schema.column_names if name in schema.partition_keys)

    def insert(fields: tuple[DataField, ...]) -> list[DataField]:
        if any(other.name == field.name for other in fields):
            raise InvalidRequest(f"Column {_named(path)} exists already: choose another name.")
        if len(path) == 1:
            check_no_twin(field.name, (other.name for other in fields))
        others = list(fields)
        others.insert(_place(others, path, change.first, change.after, before), field)
        return others

    widened = replace(_edit_row(schema, path, insert), highest_field_id=next_id - 1)
    check_count(widened.fields)
    return widened


def _place(others: Sequence[DataField], path: Sequence[str], first: bool, after: str | None, before: str | None) -> int:
    """Return the index among the other fields; the end when no place is given."""
    if sum((first, after is not None, before is not None)) > 1:
        raise InvalidRequest(f"Column {_named(path)}: give one of first, after and before.")
    if first:
        return 0
    if after is not None:
        return _index(others, after, (*path[:-1], after)) + 1
    return len(others) if before is None else _index(others, before, (*path[:-1], before))


def _drop_column(schema: TableSchema, path: tuple[str, ...]) -> TableSchema:
    for what, keys in (("partition", schema.partition_keys), ("primary", schema.primary_keys)):
        if len(path) == 1 and path[0] in keys:
            raise InvalidRequest(
                f"Column {path[0]} is part of the {what} key: it cannot be dropped. Create a new table without it."
            )

    def drop(fields: tuple[DataField, ...]) -> list[DataField]:
        index = _index(fields, path[-1], path)
        if len(fields) == 1:
            raise InvalidRequest(
                f"Column {_named(path)} is the last one: a table or a ROW needs at least one. Add another column first."
            )
        return [field for position, field in enumerate(fields) if position != index]

    dropped = _edit_row(schema, path, drop)
    return replace(dropped, options=drop_in_options(schema.options, path[0])) if len(path) == 1 else dropped


def _move_column(schema: TableSchema, change: MoveColumn) -> TableSchema:
    name = change.name
    places = (change.first, change.after is not None, change.before is not None, change.last)
    if sum(places) != 1:
        raise InvalidRequest(f"Column {name}: give exactly one of first, after, before and last.")
    if name in (change.after, change.before):
        raise InvalidRequest(f"Column {name} cannot be moved next to itself.")
    index = _index(schema.fields, name, (name,))
    others = [field for field in schema.fields if field.name != name]
    others.insert(_place(others, (name,), change.first, change.after, change.before), schema.fields[index])
    return replace(schema, fields=tuple(others))


def _update_type(schema: TableSchema, path: tuple[str, ...], target: DataType) -> TableSchema:
    _refuse_key_column(schema, path, "changes its type")
    if len(path) == 1 and path[0] in schema.bucket_keys:
        raise InvalidRequest(
            f"Column {path[0]} decides the bucket of a row: with another type, existing rows would be searched in "
            "the wrong bucket. Add a new column instead."
        )
    return _edit(schema, path, partial(_retyped, schema, path, target))


def _retyped(schema: TableSchema, path: Sequence[str], target: DataType, source: DataType) -> DataType:
    if not isinstance(target, AtomicType) or (not isinstance(source, AtomicType) and target.root not in STRING_ROOTS):
        raise InvalidRequest(
            f"Column {_named(path)}: {type_to_sql(source)} cannot become {type_to_sql(target)}; change the parts of a "
            "type one by one, by a path such as ('column', 'element')."
        )
    is_explicit = can_cast(source, target, explicit=True) and not can_cast(source, target)
    if is_explicit and schema.table_options.explicit_casts_disabled:
        raise InvalidRequest(
            f"Column {_named(path)}: {type_to_sql(source)} becomes {type_to_sql(target)} by an explicit cast only, and "
            "disable-explicit-type-casting is true: set it to false, or add a new column."
        )
    if is_explicit or can_cast(source, target):
        if not target.nullable:
            _check_not_null(schema, path, source)
        return with_nullable(target, source.nullable and target.nullable)
    raise InvalidRequest(
        f"Column {_named(path)}: {type_to_sql(source)} cannot become {type_to_sql(target)}: values could not be read."
    )


def _update_nullability(schema: TableSchema, path: tuple[str, ...], nullable: bool) -> TableSchema:
    if nullable and len(path) == 1 and path[0] in schema.primary_keys:
        raise InvalidRequest(f"Column {path[0]} is part of the primary key: it stays NOT NULL.")

    def change(data_type: DataType) -> DataType:
        if not nullable:
            _check_not_null(schema, path, data_type)
        return with_nullable(data_type, nullable)

    return _edit(schema, path, change)


def _check_not_null(schema: TableSchema, path: Sequence[str], source: DataType) -> None:
    if source.nullable and schema.table_options.null_to_not_null_disabled:
        raise InvalidRequest(
            f"Column {_named(path)} may hold nulls, so it stays nullable. If it holds none, set the option "
            "alter-column-null-to-not-null.disabled to false, and alter it again."
        )


def _refuse_key_column(schema: TableSchema, path: Sequence[str], what: str) -> None:
    for key, names in (("partition", schema.partition_keys), ("primary", schema.primary_keys)):
        if len(path) == 1 and path[0] in names:
            raise InvalidRequest(f"Column {path[0]} is part of the {key} key: it never {what}. Create a new table.")


def _rename_column(schema: TableSchema, path: tuple[str, ...], new_name: str) -> TableSchema:
    if len(path) == 1 and path[0] in schema.partition_keys:
        raise InvalidRequest(
            f"Column {path[0]} is part of the partition key: folder names contain its name, so it cannot change. "
            "Create a new table."
        )

    check_new_name(new_name)

    def rename(fields: tuple[DataField, ...]) -> list[DataField]:
        index = _index(fields, path[-1], path)
        if any(field.name == new_name for field in fields):
            raise InvalidRequest(f"Column {_named((*path[:-1], new_name))} exists already: choose another name.")
        if len(path) == 1:
            check_no_twin(new_name, (other.name for other in fields if other.name != path[0]))
        return [replace(field, name=new_name) if position == index else field for position, field in enumerate(fields)]

    renamed = _edit_row(schema, path, rename)
    if len(path) > 1:
        return replace(renamed, options=rename_nested_in_options(schema.options, path, new_name))
    old_name = path[0]
    return replace(
        renamed,
        primary_keys=tuple(new_name if name == old_name else name for name in schema.primary_keys),
        options=rename_in_options(schema.options, old_name, new_name),
    )
