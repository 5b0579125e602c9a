"""Table schemas: the record and its file, creation, rules, and checks of supported features."""

from lakehouse_core.table.schema.columns import (
    RESERVED_NAMES,
    RESERVED_PREFIX,
    check_count,
    check_new_fields,
    check_new_name,
    check_no_twin,
)
from lakehouse_core.table.schema.creation import ColumnDeclarations, new_schema
from lakehouse_core.table.schema.file_styles import waiting_style
from lakehouse_core.table.schema.record import SCHEMA_VERSION, TableSchema, parse_schema, serialize_schema
from lakehouse_core.table.schema.rules import check_schema
from lakehouse_core.table.schema.support import read_supported, write_supported
from lakehouse_core.table.schema.time_rules import time_field

__all__ = [
    "RESERVED_NAMES",
    "RESERVED_PREFIX",
    "SCHEMA_VERSION",
    "ColumnDeclarations",
    "TableSchema",
    "check_count",
    "check_new_fields",
    "check_new_name",
    "check_no_twin",
    "check_schema",
    "new_schema",
    "parse_schema",
    "read_supported",
    "serialize_schema",
    "time_field",
    "waiting_style",
    "write_supported",
]
