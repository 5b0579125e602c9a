"""Specifications: one YAML file a table, read by one model."""

from lakehouse_dagster.specs.lateness import BehindSpec, FreshnessSpec, IngestSpec
from lakehouse_dagster.specs.loading import checked_spec, line_of, load_specs, misfit_error, node_of, parse_spec
from lakehouse_dagster.specs.names import nearest, part_fault
from lakehouse_dagster.specs.partitions import DimensionSpec, PartitionsSpec
from lakehouse_dagster.specs.sources import (
    FILES_PARAMETER,
    SOURCES,
    SQL_PARAMETER,
    ChangesSpec,
    FeedSpec,
    FilesSpec,
    FunctionSpec,
    SqlSpec,
    UpstreamSpec,
)
from lakehouse_dagster.specs.strict import Misfit
from lakehouse_dagster.specs.table import DYNAMIC_TOGETHER, ROW_KINDS, ColumnSpec, MaintenanceSpec, TableSpec, WriteMode

__all__ = [
    "DYNAMIC_TOGETHER",
    "FILES_PARAMETER",
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
    "Misfit",
    "PartitionsSpec",
    "SqlSpec",
    "TableSpec",
    "UpstreamSpec",
    "WriteMode",
    "checked_spec",
    "line_of",
    "load_specs",
    "misfit_error",
    "nearest",
    "node_of",
    "parse_spec",
    "part_fault",
]
