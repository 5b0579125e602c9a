"""OpenLineage events: a step and its datasets in the models of the OpenLineage client.

Rule: the only module that imports the client, which is an optional extra.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse
from urllib.request import url2pathname
from uuid import NAMESPACE_URL, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated import (
    dataset_version_dataset,
    error_message_run,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
    storage_dataset,
)

import lakehouse_core as lc
from lakehouse_dagster.lineage.steps import Dataset, State, StepAttempt, StepLineage

PRODUCER: Final = f"urn:paimon-lakehouse:{lc.__version__}"
# A receiver that does not answer holds up a step for this long at most, at its start and at its end.
_TIMEOUT_SECONDS: Final = 5.0


def send(
    step: StepAttempt,
    state: State,
    lineage: StepLineage,
    error: BaseException | None,
    *,
    receiver: str,
    api_key: str,
) -> None:
    """Send one event. Raises the errors of the client."""
    client = OpenLineageClient(config={"transport": _transport(receiver, api_key)})
    client.emit(run_event(step, state, lineage, error, now=datetime.now(UTC)))


def run_event(
    step: StepAttempt, state: State, lineage: StepLineage, error: BaseException | None, *, now: datetime
) -> RunEvent:
    """Return the event that a step began or ended."""
    return RunEvent(
        eventTime=now.isoformat(),
        producer=PRODUCER,
        eventType=RunState[state],
        run=Run(runId=event_run_id(step), facets=_run_facets(step, error)),
        job=Job(namespace=step.namespace, name=step.job),
        inputs=[
            InputDataset(namespace=each.namespace, name=each.name, facets=_facets(each)) for each in lineage.inputs
        ],
        outputs=[
            OutputDataset(
                namespace=each.namespace, name=each.name, facets=_facets(each), outputFacets=_output_facets(each)
            )
            for each in lineage.outputs
        ],
    )


def event_run_id(step: StepAttempt) -> str:
    """Return the identifier of one attempt of a step: all events of the attempt have it, no others."""
    return str(uuid5(NAMESPACE_URL, f"{step.run_id}/{step.namespace}/{step.job}/{step.attempt}"))


def _transport(receiver: str, api_key: str) -> dict[str, Any]:
    parts = urlparse(receiver)
    if parts.scheme in ("http", "https"):
        auth = {"auth": {"type": "api_key", "api_key": api_key}} if api_key else {}
        # The client adds its own path where the address has none.
        path = {"endpoint": parts.path.lstrip("/")} if parts.path.strip("/") else {}
        url = f"{parts.scheme}://{parts.netloc}"
        return {"type": "http", "url": url, **path, "timeout": _TIMEOUT_SECONDS, "retry": {"total": 0}, **auth}
    file = Path(url2pathname(parts.path) if parts.scheme == "file" else receiver).expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    return {"type": "file", "log_file_path": str(file), "append": True}


def _run_facets(step: StepAttempt, error: BaseException | None) -> dict[str, Any]:
    run_job = {"namespace": step.namespace, "name": step.run_job}
    parent = parent_run.ParentRunFacet(
        run=parent_run.Run(runId=step.run_id),
        job=parent_run.Job(**run_job),
        root=parent_run.Root(run=parent_run.RootRun(runId=step.root_run_id), job=parent_run.RootJob(**run_job)),
        producer=PRODUCER,
    )
    if error is None:
        return {"parent": parent}
    message = f"{type(error).__name__}: {error}"
    return {
        "parent": parent,
        "errorMessage": error_message_run.ErrorMessageRunFacet(
            message=message, programmingLanguage="PYTHON", producer=PRODUCER
        ),
    }


def _facets(dataset: Dataset) -> Mapping[str, Any]:
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=dataset.version, producer=PRODUCER)
    if not dataset.columns:
        return {"version": version}
    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in dataset.columns]
    return {
        "version": version,
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER),
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="paimon", producer=PRODUCER),
    }


def _output_facets(dataset: Dataset) -> Mapping[str, Any]:
    if dataset.wrote is None:
        return {}
    rows, size, files = dataset.wrote
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=rows, size=size, fileCount=files, producer=PRODUCER
    )
    return {"outputStatistics": statistics}
