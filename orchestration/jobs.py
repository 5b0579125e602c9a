"""The jobs: take batches in, maintain the tables, look at the source."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import dagster as dg

from assets import TableSpec
from assets.flights.definitions import FLIGHTS, SOURCE_KEY
from assets.maintenance import OPERATIONS
from orchestration.alerts import tell_what_failed

# What define_asset_job returns; Dagster does not publish its class.
AssetJob: TypeAlias = Any

LAKE = "lake"


def table_key(spec: TableSpec) -> dg.AssetKey:
    return dg.AssetKey([LAKE, spec.database, spec.name])


def operation_key(spec: TableSpec, operation: str) -> dg.AssetKey:
    return dg.AssetKey([LAKE, spec.database, spec.name, operation])


def ingest_job(specs: Sequence[TableSpec]) -> AssetJob:
    """Feed, files and commits of all tables; a range of batches is one run, each batch a commit of its own."""
    keys = [FLIGHTS.key, *(key for spec in specs for key in (operation_key(spec, "ingest"), table_key(spec)))]
    return dg.define_asset_job(
        "ingest",
        selection=dg.AssetSelection.assets(*keys),
        description="Loads batches of the flights feed into all tables.",
        hooks={tell_what_failed},
        tags={"lakehouse/operation": "ingest"},
    )


def maintain_job(specs: Sequence[TableSpec]) -> AssetJob:
    """Full compaction, manifest compaction and expiry of all tables."""
    keys = [operation_key(spec, operation) for spec in specs for operation in OPERATIONS]
    return dg.define_asset_job(
        "maintain",
        selection=dg.AssetSelection.assets(*keys),
        description="Compacts files and manifests of all tables, then drops what is too old.",
        hooks={tell_what_failed},
        tags={"lakehouse/operation": "maintain"},
    )


def observe_job() -> AssetJob:
    """Looks whether the source has changed."""
    return dg.define_asset_job(
        "observe_source",
        selection=dg.AssetSelection.assets(SOURCE_KEY),
        description="Reads the version of the source.",
        hooks={tell_what_failed},
        tags={"lakehouse/operation": "observe"},
    )
