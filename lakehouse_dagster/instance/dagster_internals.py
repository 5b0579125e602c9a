"""Private names of Dagster: everything that this package needs and Dagster does not publish.

Rule: no other module imports from below `dagster`. One contract test names what each of these must do.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import dagster as dg
from dagster._check import CheckError
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import EngineEventData
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.run_coordinator.base import SubmitRunContext
from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._core.storage.runs.schema import KeyValueStoreTable
from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import deserialize_value, serialize_value

__all__ = [
    "NO_EVENT",
    "CheckRunHealthResult",
    "LaunchRunContext",
    "QueuedRunCoordinator",
    "SubmitRunContext",
    "WorkerStatus",
    "add_input_metadata",
    "asset_tags",
    "check_target",
    "execution_arguments",
    "forget_value",
    "instance_of",
    "is_canceled_backfill",
    "location_name",
    "most_retries",
    "note_in_log",
    "notes_in_log",
    "values_below",
]

# Metadata of a result that is not a materialization: later steps of the run are executed, and no event is stored.
NO_EVENT: Mapping[str, bool] = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}


def execution_arguments(context: LaunchRunContext, instance: dg.DagsterInstance) -> str:
    """Return the argument of `dagster api execute_run` for the run. Raises ValueError when its code is unknown."""
    origin = context.job_code_origin
    if origin is None:
        raise ValueError(f"run {context.dagster_run.run_id}: expected the origin of its code, found none.")
    return serialize_value(
        ExecuteRunArgs(
            job_origin=origin,
            run_id=context.dagster_run.run_id,
            instance_ref=instance.get_ref(),
            set_exit_code_on_failure=True,
        )
    )


def instance_of(arguments: str) -> dg.DagsterInstance:
    """Open the instance that `execution_arguments` names. Use it as a context manager."""
    reference = deserialize_value(arguments, ExecuteRunArgs).instance_ref
    assert reference is not None
    return dg.DagsterInstance.from_ref(reference)


def forget_value(instance: dg.DagsterInstance, key: str) -> None:
    """Delete a value that `set_cursor_values` stored; storages other than Dagster's own keep an empty one."""
    storage = instance.daemon_cursor_storage
    if not isinstance(storage, SqlRunStorage):
        storage.set_cursor_values({key: ""})
        return
    with storage.connect() as connection:
        connection.execute(KeyValueStoreTable.delete().where(KeyValueStoreTable.c.key == key))


def values_below(instance: dg.DagsterInstance, prefix: str) -> dict[str, str]:
    """Return the values that `set_cursor_values` stored under keys with a prefix; none of storages other than Dagster's
    own, which cannot list them.
    """
    storage = instance.daemon_cursor_storage
    if not isinstance(storage, SqlRunStorage):
        return {}
    columns = KeyValueStoreTable.c
    with storage.connect() as connection:
        found = connection.execute(KeyValueStoreTable.select().where(columns.key.startswith(prefix, autoescape=True)))
        return {row.key: row.value for row in found}


def asset_tags(context: SubmitRunContext) -> list[dict[str, str]]:
    """Return the tags of each asset that the run has selected, or of its job's assets when it selects none.

    Assets of a location that is not loaded are left out.
    """
    run, graph = context.dagster_run, context.workspace.asset_graph
    keys: Iterable[dg.AssetKey] = run.asset_selection or graph.asset_keys_for_job(run.job_name)
    return [dict(graph.get(key).tags) for key in keys if graph.has(key)]


def add_input_metadata(context: dg.InputContext, metadata: Mapping[str, Any]) -> None:
    """Add metadata to the event of the input, and to an observation of the asset, one also of many partitions."""
    # Dagster has no observation of many partitions: it adds the metadata to the event first, and then raises.
    with suppress(CheckError):
        context.add_input_metadata(metadata)
        return
    context.instance.report_runless_asset_event(dg.AssetObservation(context.asset_key, metadata=metadata))


def check_target(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """Return the latest event of an asset as the one that a check evaluates.

    Without it Dagster compares times, which SQLite stores in whole seconds: a check would not count for an event of the
    same second.
    """
    records = instance.fetch_materializations(key, limit=1).records
    if not records:
        return None
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=records[0].storage_id, run_id=records[0].run_id, timestamp=records[0].timestamp
    )


def location_name(run: dg.DagsterRun) -> str | None:
    """Return the code location that the run was made from; None for runs that a process made for itself."""
    origin = run.remote_job_origin
    return None if origin is None else origin.repository_origin.code_location_origin.location_name


def most_retries(instance: dg.DagsterInstance) -> int:
    """Return how often the instance executes a dead run again; 1 when its own retries are switched off."""
    return instance.run_retries_max_retries if instance.run_retries_enabled else 1


def is_canceled_backfill(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether the run belongs to a canceled backfill."""
    identifier = run.tags.get("dagster/backfill")
    backfill = None if identifier is None else instance.get_backfill(identifier)
    return backfill is not None and backfill.status in {BulkActionStatus.CANCELING, BulkActionStatus.CANCELED}


def note_in_log(instance: dg.DagsterInstance, run_id: str, message: str, metadata: Mapping[str, str]) -> None:
    """Add an event with metadata to the log of a run."""
    run = instance.get_run_by_id(run_id)
    assert run is not None
    instance.report_engine_event(message, run, EngineEventData(metadata=dict(metadata)))


def notes_in_log(instance: dg.DagsterInstance, run_id: str) -> Iterator[dict[str, str]]:
    """Yield the texts in the metadata of each event that `note_in_log` and Dagster itself added to the log of a run."""
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        if entry.dagster_event is not None:
            metadata = entry.dagster_event.engine_event_data.metadata
            yield {name: value.value for name, value in metadata.items() if isinstance(value, dg.TextMetadataValue)}
