"""Ways to hold a history against the model and against another engine; each answers with differences, in words."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from lakehouse_core.errors import LakehouseError
from tests.differential.executors import Executor
from tests.differential.shrink import shrunk
from tests.interop.judge import JudgeError
from tests.oracle.engines import Schema
from tests.oracle.history import History, Json, Replay, Step, Trace, by_key, canonical
from tests.oracle.table import COMPACTS_BESIDE, COMPARES_NUMBERS, FLUSHES_ASCENDING

Check = Callable[[History], list[str]]
# What an older release does when it writes; the others are how it merges.
_OF_WRITERS = frozenset({COMPACTS_BESIDE, COMPARES_NUMBERS, FLUSHES_ASCENDING})
FAILURES = Path("build/differential")


def failure(name: str, check: Check, seed: int, history: History) -> str | None:
    """Return None where `check` agrees; else its differences for the history made small, and how to see them again."""
    if not check(history):
        return None
    small = shrunk(history, lambda smaller: _fails(check, smaller))
    FAILURES.mkdir(parents=True, exist_ok=True)
    file = FAILURES / f"{name.replace(' ', '-').replace(',', '')}-{seed}.json"
    file.write_text(json.dumps(small.to_json(), indent=1, ensure_ascii=False) + "\n")
    engine = "--spark " if "on Spark" in name else ""
    again = f'{sys.executable} -m tests.differential {engine}--only "{name}" --replay {file}'
    return "\n  ".join([f"{name}, seed {seed}:", *check(small)[:2], small.text(), f"again: {again}"])


def _fails(check: Check, history: History) -> bool:
    """Return whether a smaller history still fails; one that is no longer legal does not."""
    try:
        return bool(check(history))
    except (JudgeError, LakehouseError, LookupError, ValueError):
        return False


def against_model(executor: Executor, history: History) -> list[str]:
    """The engine carries the history out; the model must show the same."""
    with _warehouse() as warehouse:
        return _differences(history, executor.run(history, warehouse), executor.quirks)


def against_reader(writer: Executor, reader: Executor, history: History) -> list[str]:
    """One engine carries the history out, the model and another engine that reads its table must show the same."""
    with _warehouse() as warehouse:
        trace = writer.run(history, warehouse)
        found = _differences(history, trace, writer.quirks)
        if found:
            return found
        # What the writer left unmerged the reader merges by the rules of its own release: they must be the same here.
        merging = _merging(writer, reader)
        if merging != writer.quirks and _differences(history, trace, merging):
            return []
        made, read = writer.read(warehouse).operations[0], reader.read(warehouse).operations[0]
        if len(made) != len(read):
            return [f"{len(made)} snapshots, read as {len(read)}"]
        return [text for one, other in zip(made, read, strict=True) for text in _read_apart(history, one, other)]


def in_turns(writer: Executor, other: Executor, history: History) -> list[str]:
    """One engine carries the history out and another does what it leaves to others; the model shows what both show."""
    with _warehouse() as warehouse:
        trace = writer.run(history, warehouse, other)
    found = _differences(history, replace(trace, others=()), writer.quirks)
    merging = _merging(writer, other)
    # The other merges what lies unmerged by the rules of its own release: they must be the same here.
    if found or (merging != writer.quirks and _differences(history, replace(trace, others=()), merging)):
        return found
    return _differences(history, trace, writer.quirks)


def compacted_apart(one: Executor, other: Executor, history: History) -> list[str]:
    """Two engines that may make other snapshots of the writes must show the same after each full compaction.

    Other compactions pick files by their sizes, in which the engines may differ, and are carried out in full too.
    """
    operations = [_in_full(each) for each in [*history.operations, {"verb": "compact", "strategy": "full"}]]
    history = replace(history, operations=operations, options={**history.options, "write-only": "true"})
    with _warehouse() as first, _warehouse() as second:
        traces = one.run(history, first), other.run(history, second)
    if (traces[0].refused is None) != (traces[1].refused is None):
        return [f"refused: {traces[0].refused}\n  other: {traces[1].refused}"]
    schema = Schema((), tuple(history.primary_keys), tuple(history.partition_keys), dict(history.options))
    shown = [
        [
            (canonical(step.rows, schema), by_key([row["_kind"] for row in step.changes], step.changes, schema))
            for step in chain(*trace.operations)
            if step.kind == "COMPACT" and step.rows is not None
        ]
        for trace in traces
    ]
    return [] if shown[0] == shown[1] else [f"after compactions: {shown[0]}\n  other: {shown[1]}"]


def _in_full(operation: Json) -> Json:
    option = {"write": "compact", "compact": "strategy"}.get(operation["verb"])
    return operation if operation.get(option, "none") == "none" else operation | {option: "full"}


def _merging(writer: Executor, reader: Executor) -> frozenset[str]:
    """Return by which rules a reader sees what a writer left unmerged."""
    return (writer.quirks & _OF_WRITERS) | (reader.quirks - _OF_WRITERS)


def _differences(history: History, trace: Trace, quirks: frozenset[str]) -> list[str]:
    try:
        return Replay(history, quirks).differences(trace)
    except AssertionError as failure:
        return [str(failure)]


def _read_apart(history: History, one: Step, other: Step) -> Iterator[str]:
    schema = Schema((), tuple(history.primary_keys), tuple(history.partition_keys), dict(history.options))
    if (one.added, one.removed) != (other.added, other.removed):
        yield f"files of snapshot {one.snapshot_id}: {one}\n  read as: {other}"
    rows = [None if step.rows is None else canonical(step.rows, schema) for step in (one, other)]
    if rows[0] != rows[1]:
        yield f"rows of snapshot {one.snapshot_id}: {rows[0]}\n  read as: {rows[1]}"
    changes = [by_key([row["_kind"] for row in step.changes], step.changes, schema) for step in (one, other)]
    if changes[0] != changes[1]:
        yield f"changes of snapshot {one.snapshot_id}: {changes[0]}\n  read as: {changes[1]}"


@contextmanager
def _warehouse() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="differential-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
