"""Emission: send OpenLineage events for each step of a table, where the lakehouse resource names a receiver.

Rule: an event that cannot be sent is a warning in the log, and never fails a step. What was sent is noted in the log of
the run, so that a sensor can end what a killed process began. The client is the package openlineage-python, which is
loaded only when a receiver is named.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.instance.dagster_internals import note_in_log, notes_in_log
from lakehouse_dagster.lineage.steps import State, StepAttempt, StepLineage
from lakehouse_dagster.run_tags import root_run_id

_BEGAN: Final = "lakehouse/lineage_began"
_ENDED: Final = "lakehouse/lineage_ended"


def attempt_in(run: dg.DagsterRun, *, namespace: str, job: str, attempt: int) -> StepAttempt:
    """Return an attempt of a step in a run. `job`: what the step does, as lineage names it."""
    return StepAttempt(
        namespace=namespace,
        job=job,
        run_id=run.run_id,
        root_run_id=root_run_id(run.root_run_id or run.run_id, run.tags),
        run_job=run.job_name,
        attempt=attempt,
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
    _check_receiver(receiver)
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
        # The client is an optional extra.
        from lakehouse_dagster.lineage.openlineage_events import send  # noqa: PLC0415

        send(step, state, lineage, error, receiver=receiver, api_key=api_key)
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


def _check_receiver(receiver: str) -> None:
    """Raise InvalidRequest for a receiver that takes no events, and for one whose address may hold a secret."""
    scheme, mark, _ = receiver.partition("://")
    is_file = receiver.startswith(("file://", "/", ".", "~")) or ":" not in receiver
    # Warnings in logs name the receiver, and the client sends no query. A password may hold a slash.
    if not is_file and any(sign in receiver for sign in "@?#"):
        raise lc.InvalidRequest(
            "lineage: found a user or a query in the address, expected an address without them. Give a key as "
            "lineage_api_key, which is sent with each event. If it is a file, write ./ before its name."
        )
    if mark and scheme not in ("http", "https", "file"):
        raise lc.InvalidRequest(
            f"lineage={receiver!r}: expected a file, or an http or https address, which takes OpenLineage events. "
            "Change it, or leave it empty to send none."
        )
