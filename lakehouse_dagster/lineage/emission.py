"""Lineage: emit OpenLineage events for each step of a table, where the lakehouse resource names a receiver.

Rule: an event that cannot be sent is a warning in the log, and never fails a step. What was sent is noted in the log of
the run, so that a sensor can end what a killed process began. The client is the package openlineage-python, which is
loaded only when a receiver is named.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.instance.dagster_internals import note_in_log, notes_in_log
from lakehouse_dagster.pipeline import incarnation

State: TypeAlias = Literal["START", "COMPLETE", "FAIL", "ABORT"]

_BEGAN: Final = "lakehouse/lineage_began"
_ENDED: Final = "lakehouse/lineage_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A table or another source at one version. `columns` are name and type; `wrote` are rows, bytes and files, None
    for a dataset that was read.
    """

    namespace: str
    name: str
    version: str
    columns: tuple[tuple[str, str], ...] = ()
    wrote: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempt:
    """One attempt of a step: the job it is of, and the Dagster run around it with the first run of its group."""

    namespace: str
    job: str
    run_id: str
    root_run_id: str
    run_job: str
    attempt: int


@dataclass(slots=True, kw_only=True)
class StepLineage:
    """What a step has read and written so far. Without `warn` no events are sent, so no dataset is made."""

    warn: Callable[[str], None] | None = None
    inputs: list[Dataset] = field(default_factory=list)
    outputs: list[Dataset] = field(default_factory=list)

    def reads(self, dataset: Callable[[], Dataset]) -> None:
        """Add a dataset that the step reads."""
        self._add(self.inputs, dataset)

    def writes(self, dataset: Callable[[], Dataset]) -> None:
        """Add a dataset that the step wrote."""
        self._add(self.outputs, dataset)

    def _add(self, datasets: list[Dataset], dataset: Callable[[], Dataset]) -> None:
        if self.warn is None:
            return
        try:
            datasets.append(dataset())
        except Exception as failure:
            self.warn(f"A dataset is missing in the OpenLineage events of this step: {failure}")


def table_dataset(namespace: str, table: lc.Table, snapshot_id: int, reports: Iterable[lc.Report] = ()) -> Dataset:
    """Return a table at a snapshot; with the `reports` of the verbs that wrote it, if there are any.

    The version begins with the incarnation of the table, because snapshot ids begin at 1 again in a new one.
    """
    made = list(reports)
    sums = (sum(each.rows_added for each in made), sum(each.bytes_added for each in made))
    return Dataset(
        namespace=namespace,
        name=table.name,
        version=f"{incarnation(table)}/main@{snapshot_id}",
        columns=tuple((column["name"], column["type"]) for column in table.schemas().to_dicts()[-1]["fields"]),
        wrote=(*sums, sum(each.files_added for each in made)) if made else None,
    )


@contextmanager
def emitted_lineage(
    step: StepAttempt, receiver: str, api_key: str, warn: Callable[[str], None], instance: dg.DagsterInstance
) -> Iterator[StepLineage]:
    """Send START, then COMPLETE, FAIL or ABORT with what the step read and wrote; send nothing without a receiver.

    `receiver` is a file or an http(s) URL; `warn` takes one sentence for each event that could not be sent; the log of
    the run in `instance` tells what began and ended. Raises InvalidRequest for another receiver.
    """
    if not receiver:
        yield StepLineage()
        return
    if "://" in receiver and not receiver.startswith(("http://", "https://", "file://")):
        raise lc.InvalidRequest(
            f"lineage={receiver!r}: expected a file, or an http or https address, which takes OpenLineage events. "
            "Change it, or leave it empty to send none."
        )

    lineage = StepLineage(warn=warn)

    def emit(state: State, error: BaseException | None = None) -> None:
        send_event(step, state, lineage, error, receiver=receiver, api_key=api_key, warn=warn)

    # Noted first and last: a process that is killed between leaves a beginning without an end, never the reverse.
    note_in_log(instance, step.run_id, f"OpenLineage: {step.job} begins", _noted(step, _BEGAN))
    emit("START")
    try:
        yield lineage
    except BaseException as error:
        # Dagster interrupts the steps of a run that a user terminates, which is not an error of the step.
        emit("FAIL" if isinstance(error, Exception) else "ABORT", error)
        note_end(instance, step)
        raise
    emit("COMPLETE")
    note_end(instance, step)


def send_event(
    step: StepAttempt,
    state: State,
    lineage: StepLineage,
    error: BaseException | None,
    *,
    receiver: str,
    api_key: str,
    warn: Callable[[str], None],
) -> None:
    """Send one event; `warn` takes a sentence where that is not possible."""
    try:
        _events().send(step, state, lineage, error, receiver=receiver, api_key=api_key)
    except ImportError as missing:
        install = "pip install 'paimon-lakehouse[openlineage]'"
        warn(f"OpenLineage event {state} of {step.job} was not sent: {missing}. Install it: {install}.")
    except Exception as failure:
        warn(f"OpenLineage event {state} of {step.job} was not sent to {receiver}: {failure}. The step goes on.")


def note_end(instance: dg.DagsterInstance, step: StepAttempt) -> None:
    """Note in the log of the run that the last event of a step was sent."""
    note_in_log(instance, step.run_id, f"OpenLineage: {step.job} ends", _noted(step, _ENDED))


def unended_steps(instance: dg.DagsterInstance, run_id: str, namespace: str) -> list[StepAttempt]:
    """Return the steps of a namespace that began in a run and did not end, in the order in which they began."""
    open_steps: dict[StepAttempt, None] = {}
    for metadata in notes_in_log(instance, run_id):
        for note, text in metadata.items():
            if note == _BEGAN:
                open_steps[StepAttempt(**json.loads(text))] = None
            elif note == _ENDED:
                open_steps.pop(StepAttempt(**json.loads(text)), None)
    return [step for step in open_steps if step.namespace == namespace]


def _noted(step: StepAttempt, note: str) -> dict[str, str]:
    return {note: json.dumps(asdict(step))}


def _events() -> Any:
    return import_module("lakehouse_dagster.openlineage_events")
