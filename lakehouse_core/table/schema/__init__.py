"""The schema of a table: its record and file, how one is made, and what may be read and written."""

from lakehouse_core.table.schema.record import SCHEMA_VERSION, TableSchema, parse_schema, serialize_schema

__all__ = ["SCHEMA_VERSION", "TableSchema", "parse_schema", "serialize_schema"]
