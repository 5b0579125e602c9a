"""The first schema of a table, from what a user declares. Source: Paimon semantics A.6, schema normalisation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import (
    UNASSIGNED,
    DataField,
    DataType,
    assign_field_ids,
    field_from_arrow,
    parse_type,
    with_nullable,
)
from lakehouse_core.options import check_known, current_options, parse_names
from lakehouse_core.table.schema.record import TableSchema
from lakehouse_core.table.schema.rules import check_columns, check_no_twin, check_schema
from lakehouse_core.table.schema.support import check_new

ColumnDeclarations: TypeAlias = Mapping[str, str] | pa.Schema | Sequence[DataField]


def new_schema(
    fields: ColumnDeclarations,
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    now_millis: int,
) -> TableSchema:
    """Return the schema 0 of a new table.

    `fields` maps column names to SQL types, or is an Arrow schema, or fields whose ids are assigned anew. Primary-key
    columns become NOT NULL. Raises InvalidRequest for what no table may be, UnsupportedFeature for what is not
    supported yet, naming the column or the option.
    """
    columns = _columns(fields)
    if not isinstance(options or {}, Mapping):
        raise InvalidRequest(f"options={shown(options)}: expected a dict from names to texts.")
    if comment is not None and not isinstance(comment, str):
        raise InvalidRequest(f"comment={shown(comment)}: expected text.")
    check_columns(columns)
    names = [column.name for column in columns]
    for index, name in enumerate(names):
        check_no_twin(name, names[:index])
    check_known(options or {}, names)
    given = current_options(options or {})
    primary_keys = _key("primary-key", primary_keys, given)
    partition_keys = _key("partition", partition_keys, given)
    columns = [
        replace(column, type=with_nullable(column.type, False)) if column.name in primary_keys else column
        for column in columns
    ]
    numbered, next_id = assign_field_ids(columns, 0)
    schema = TableSchema(
        id=0,
        fields=numbered,
        highest_field_id=next_id - 1,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=given,
        comment=comment,
        time_millis=now_millis,
    )
    check_schema(schema)
    check_new(schema)
    if schema.is_cross_partition:
        raise InvalidRequest(
            f"The primary key ({', '.join(primary_keys)}) lacks a partition column of ({', '.join(partition_keys)}): "
            "each partition would have rows of the same key. Add the partition columns to the primary key."
        )
    return schema


def _columns(fields: ColumnDeclarations) -> list[DataField]:
    if isinstance(fields, pa.Schema):
        return [field_from_arrow(field) for field in fields]
    if isinstance(fields, Mapping):
        return [DataField(UNASSIGNED, name, _declared(name, text)) for name, text in fields.items()]
    if isinstance(fields, Sequence) and all(isinstance(field, DataField) for field in fields):
        return list(fields)
    raise InvalidRequest(
        f"schema={shown(fields)}: expected a dict from column names to SQL types, a pyarrow Schema or a Spark "
        "StructType."
    )


def _declared(name: str, text: str) -> DataType:
    try:
        return parse_type(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"Column {name}: {error}") from error


def _key(option: str, names: Sequence[str], options: dict[str, str]) -> tuple[str, ...]:
    """Take the key from the declaration or, removing it there, from the option of that name."""
    if isinstance(names, str):
        raise InvalidRequest(f"The {option} is the text {shown(names)}: give a list of column names.")
    if option not in options:
        return tuple(names)
    if names:
        raise InvalidRequest(f"The {option} is declared and also given as an option: give it once.")
    return parse_names(options.pop(option))
