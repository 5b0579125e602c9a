"""Schema creation: make the first schema of a table from the user's declaration. Source:
docs/semantics/tables.md#constraints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import (
    UNASSIGNED,
    DataField,
    DataType,
    all_nullable,
    assign_field_ids,
    field_from_arrow,
    parse_type,
    with_nullable,
)
from lakehouse_core.format.stored import check_text
from lakehouse_core.options import check_known, current_options, parse_names
from lakehouse_core.table.bucketing import moves_keys
from lakehouse_core.table.schema.columns import check_columns, check_count, check_new_fields, check_no_twin
from lakehouse_core.table.schema.record import TableSchema
from lakehouse_core.table.schema.rules import check_schema
from lakehouse_core.table.schema.support import check_new

ColumnDeclarations: TypeAlias = Mapping[str, str] | pa.Schema | Sequence[DataField]


def new_schema(
    fields: ColumnDeclarations,
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    nullable: bool = False,
    now_millis: int,
) -> TableSchema:
    """Return the schema 0 of a new table.

    `fields` maps column names to SQL types, or is an Arrow schema, or fields whose ids are assigned anew. Primary-key
    columns become NOT NULL; with `nullable` all others, and what is in them, may be null. Raises InvalidRequest for a
    declaration that breaks a rule, UnsupportedFeature for unsupported types or options, naming the column or the
    option.
    """
    columns = _columns(fields)
    if nullable:
        columns = [replace(column, type=all_nullable(column.type)) for column in columns]
    if options is not None and not isinstance(options, Mapping):
        raise InvalidRequest(f"options={shown(options)}: expected a dict from names to texts.")
    if comment is not None:
        check_text("The comment of the table", comment)
    check_columns(columns)
    check_new_fields(columns)
    check_count(columns)
    names = [column.name for column in columns]
    _check_no_twins(names)
    options = {} if options is None else options
    check_known(options, names)
    for key, value in options.items():
        check_text(f"The name of option {shown(key)}", key)
        check_text(f"Option {shown(key)}", value)
    given = current_options(options)
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
    if schema.is_cross_partition and not moves_keys(schema.bucketing):
        raise InvalidRequest(
            f"The primary key ({', '.join(primary_keys)}) lacks a partition column of ({', '.join(partition_keys)}): "
            "the same key could be in several partitions. Add the partition columns to the primary key, or set "
            "bucket to -1."
        )
    return schema


def _columns(fields: ColumnDeclarations) -> list[DataField]:
    if isinstance(fields, pa.Schema):
        return [field_from_arrow(field) for field in fields]
    if (hint := _SCHEMA_OF.get(_kind(fields))) is not None:
        module, name = _kind(fields)
        raise InvalidRequest(f"schema is a {module} {name}, which has a schema but is not one: pass {hint}.")
    if isinstance(fields, Mapping):
        return [DataField(UNASSIGNED, name, _declared(name, text)) for name, text in fields.items()]
    if isinstance(fields, Sequence) and all(isinstance(field, DataField) for field in fields):
        return list(fields)
    raise InvalidRequest(
        f"schema={shown(fields)}: expected a dict from column names to SQL types, a pyarrow Schema or a Spark "
        "StructType."
    )


# By module and class, objects with a schema, and how to pass the schema. None of the modules is imported for it.
_SCHEMA_OF: Final = {
    ("pandas", "DataFrame"): "pyarrow.Schema.from_pandas(df, preserve_index=False)",
    ("polars", "DataFrame"): "df.to_arrow().schema",
    ("polars", "LazyFrame"): "df.head(0).collect().to_arrow().schema",
    ("polars", "Schema"): "polars.DataFrame(schema=schema).to_arrow().schema",
    ("pyarrow", "Table"): "table.schema",
    ("pyarrow", "RecordBatch"): "batch.schema",
    ("pyarrow", "RecordBatchReader"): "reader.schema",
    ("pyspark", "DataFrame"): "df.schema",
    ("lakehouse_core", "Scan"): "scan.schema()",
    ("lakehouse_core", "Table"): "table.scan().schema()",
}


def _kind(given: object) -> tuple[str, str]:
    return type(given).__module__.partition(".")[0], type(given).__name__


def _check_no_twins(names: Sequence[str]) -> None:
    """Raise as `check_no_twin` does, in one pass over the names, because there may be thousands."""
    first: dict[str, str] = {}
    for name in names:
        check_no_twin(name, (first.setdefault(name.casefold(), name),))


def _declared(name: str, text: str) -> DataType:
    try:
        return parse_type(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"Column {shown(name)}: {error}") from error


def _key(option: str, names: Sequence[str], options: dict[str, str]) -> tuple[str, ...]:
    """Return the key from the declaration, else from the option of that name, which is removed."""
    if isinstance(names, str):
        raise InvalidRequest(f"The {option} is the text {shown(names)}: give a list of column names.")
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(f"The {option} is {shown(names)}: give a list of column names.")
    if option not in options:
        return tuple(names)
    if names:
        raise InvalidRequest(f"The {option} is declared and also given as an option: give it once.")
    return parse_names(options.pop(option))
