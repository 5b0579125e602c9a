"""Relations: the tables of a query as an engine takes them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.interchange.arrow_rows import ArrowRows

# Named for the reader: this module must not know Spark.
DataFrame: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTable:
    """A table whose files an engine may read by itself; `rows`: those of a plan of what it leaves."""

    plan: ScanPlan
    table: TableContext
    rows: Callable[[ScanPlan], ArrowRows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table of a query under its unique name. `plan` and `native`: of a table of the catalog, None for
    other rows. `frame`: data that is a frame of Spark already.
    """

    view: str
    title: str
    rows: ArrowRows | None
    plan: ScanPlan | None = None
    native: NativeTable | None = None
    frame: DataFrame | None = field(default=None)
