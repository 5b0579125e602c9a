"""Specifications: one YAML file a table, read by one model."""

from lakehouse_dagster.specs.loading import checked_spec, load_specs, parse_spec
from lakehouse_dagster.specs.models import ChangesSpec, ColumnSpec, FeedSpec, FilesSpec, MaintenanceSpec, TableSpec

__all__ = [
    "ChangesSpec",
    "ColumnSpec",
    "FeedSpec",
    "FilesSpec",
    "MaintenanceSpec",
    "TableSpec",
    "checked_spec",
    "load_specs",
    "parse_spec",
]
