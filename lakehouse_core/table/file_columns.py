"""File columns: the columns of a data file, which are keys, sequence number, row kind, then the table's columns.

Tasks and files exchange rows as *records*: the table's columns, in key tables followed by the two system columns.
Source: docs/format/data-files.md#columns-and-order.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import (
    TIMESTAMP_ROOTS,
    AtomicType,
    DataField,
    TypeRoot,
    arrow_schema,
    atomic_parts,
    with_nullable,
)
from lakehouse_core.table.schema import TableSchema

# Names and ids are stored in every data file of a key table. Never change.
KEY_PREFIX: Final = "_KEY_"
SEQUENCE_NUMBER: Final = "_SEQUENCE_NUMBER"
VALUE_KIND: Final = "_VALUE_KIND"
# The index of a text is the number that the column `_VALUE_KIND` stores. Never renumber.
ROW_KINDS: Final = ("+I", "-U", "+U", "-D")
_KEY_ID_BASE: Final = 1073741823
_SEQUENCE_NUMBER_FIELD: Final = DataField(2147483646, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT, False))
_VALUE_KIND_FIELD: Final = DataField(2147483645, VALUE_KIND, AtomicType(TypeRoot.TINYINT, False))


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of a data file: their Arrow schema with field ids, and for each the record column that it stores."""

    fields: tuple[DataField, ...]
    schema: pa.Schema
    sources: tuple[str, ...]


def record_schema(schema: TableSchema) -> pa.Schema:
    """Return the schema of records: the table's columns, for key tables the system columns behind them."""
    system = [] if schema.is_append else [_SEQUENCE_NUMBER_FIELD, _VALUE_KIND_FIELD]
    return arrow_schema([*schema.fields, *system])


def file_columns(schema: TableSchema) -> FileColumns:
    """Return the columns that files of this schema are written with."""
    fields: list[DataField] = []
    sources: list[str] = []
    if not schema.is_append:
        if not schema.table_options.thin_mode:
            fields += map(_key_field, schema.key_fields)
            sources += [field.name for field in schema.key_fields]
        fields += [_SEQUENCE_NUMBER_FIELD, _VALUE_KIND_FIELD]
        sources += [SEQUENCE_NUMBER, VALUE_KIND]
    fields += schema.fields
    sources += schema.column_names
    return FileColumns(tuple(fields), arrow_schema(fields), tuple(sources))


def _key_field(field: DataField) -> DataField:
    return DataField(_KEY_ID_BASE + field.id, KEY_PREFIX + field.name, with_nullable(field.type, False))


def uses_int96(schema: TableSchema) -> bool:
    """Return whether timestamps in Parquet are INT96, which Arrow's writer applies to a whole file.

    Raises UnsupportedFeature if no Parquet file that all Paimon versions read can hold the table's timestamps.
    """
    precisions = {
        part.precision or 0
        for field in schema.fields
        for part in atomic_parts(field.type)
        if part.root in TIMESTAMP_ROOTS
    }
    if precisions and max(precisions) > 6 and min(precisions) <= 6:
        raise UnsupportedFeature(
            f"the table has timestamps of precisions {min(precisions)} and {max(precisions)}: a Parquet file "
            "cannot hold those above 6 together with others. Use precisions up to 6 for all of them."
        )
    return bool(precisions) and max(precisions) > 6
