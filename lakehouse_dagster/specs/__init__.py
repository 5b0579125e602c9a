"""Specifications: one YAML file a table, read by one model."""

from lakehouse_dagster.specs.lateness import BehindSpec, FreshnessSpec, IngestSpec
from lakehouse_dagster.specs.loading import checked_spec, load_specs, misfit_error, parse_spec
from lakehouse_dagster.specs.models import (
    ROW_KINDS,
    SOURCES,
    SQL_PARAMETER,
    ChangesSpec,
    ColumnSpec,
    DimensionSpec,
    FeedSpec,
    FilesSpec,
    FunctionSpec,
    MaintenanceSpec,
    PartitionsSpec,
    SqlSpec,
    TableSpec,
    UpstreamSpec,
    WriteMode,
    nearest,
)

__all__ = [
    "ROW_KINDS",
    "SOURCES",
    "SQL_PARAMETER",
    "BehindSpec",
    "ChangesSpec",
    "ColumnSpec",
    "DimensionSpec",
    "FeedSpec",
    "FilesSpec",
    "FreshnessSpec",
    "FunctionSpec",
    "IngestSpec",
    "MaintenanceSpec",
    "PartitionsSpec",
    "SqlSpec",
    "TableSpec",
    "UpstreamSpec",
    "WriteMode",
    "checked_spec",
    "load_specs",
    "misfit_error",
    "nearest",
    "parse_spec",
]
