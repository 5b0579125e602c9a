"""A failing history made small: whatever can go without the failure going goes, the large parts first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.oracle.history import History

# Without them the operations and the model would have other numbers of buckets.
_BUCKETS = ("postpone.default-bucket-num",)


def shrunk(history: History, fails: Callable[[History], bool], *, tries: int = 400) -> History:
    """Return a history that still fails and of which nothing more can be left out, or what `tries` runs led to."""
    improved = True
    while improved:
        improved = False
        for smaller in smaller_ones(history):
            tries -= 1
            if tries < 0:
                return history
            if fails(smaller):
                history, improved = smaller, True
                break
    return history


def smaller_ones(history: History) -> Iterator[History]:
    """Yield histories with one part less."""
    operations = list(history.operations)
    for at in reversed(range(len(operations))):
        yield replace(history, operations=operations[:at] + operations[at + 1 :])
    for at, operation in enumerate(operations):
        rows = operation.get("rows", [])
        lesser = [operation | {"rows": rows[:row] + rows[row + 1 :]} for row in range(len(rows))] if rows[1:] else []
        if "compact" in operation:
            lesser.append({name: value for name, value in operation.items() if name != "compact"})
        for less in lesser:
            yield replace(history, operations=[*operations[:at], less, *operations[at + 1 :]])
    waits = history.options.get("bucket") == "-2"
    for option in [each for each in history.options if each not in _BUCKETS and not (waits and each == "bucket")]:
        yield replace(history, options={name: value for name, value in history.options.items() if name != option})
    for each in history.fields:
        yield from _without_column(history, each["name"])
    for at, operation in enumerate(operations):
        for row, values in enumerate(operation.get("rows", [])):
            for name, value in values.items():
                simple = {"_kind": "+I"}.get(name)
                if value != simple and name not in history.primary_keys:
                    rows = list(operation["rows"])
                    rows[row] = values | {name: simple}
                    less = operation | {"rows": rows}
                    yield replace(history, operations=[*operations[:at], less, *operations[at + 1 :]])


def _without_column(history: History, name: str) -> Iterator[History]:
    """Yield the history without a column, where nothing else names it."""
    changes = [change for operation in history.operations for change in operation.get("changes", [])]
    stated = json.dumps([[each.get("where"), each.get("set")] for each in history.operations])
    named = {
        part for option in history.options.items() for text in option for part in text.replace(".", ",").split(",")
    }
    if (
        f'"{name}"' in stated
        or name in history.primary_keys
        or name in named
        or any(change.get("column") == name for change in changes)
    ):
        return
    yield replace(
        history,
        fields=[each for each in history.fields if each["name"] != name],
        operations=[
            operation | {"rows": [{n: v for n, v in row.items() if n != name} for row in operation["rows"]]}
            if "rows" in operation
            else operation
            for operation in history.operations
        ],
    )
