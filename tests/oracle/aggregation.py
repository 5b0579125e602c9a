"""The aggregation engine record by record.

A record is alone until it meets another of its key: only then are functions called, in a flush, a merge or a read.
Source: docs/semantics/merge-engines.md#aggregation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from lakehouse_core.merge.functions import aggregator
from lakehouse_core.table.merge_spec import MergeSpec
from tests.oracle.merge import compare_values

RETRACTS = ("-U", "-D")


@dataclass(frozen=True)
class Record:
    """A row by column name, and its kind."""

    kind: str
    values: dict[str, Any]


def merged(spec: MergeSpec, records: list[Record]) -> Record:
    """Return what the records of one key, in their order, become."""
    if len(records) == 1:
        return records[0]
    aggregators = {name: aggregator(function) for name, function in spec.functions.items()}
    values: dict[str, Any] = dict.fromkeys(aggregators)
    kind = "+I"
    for record in records:
        kind = "+I"
        if spec.removes_on_delete and record.kind == "-D":
            values, kind = dict(record.values), "-D"
            continue
        for name, column in aggregators.items():
            step = column.retract if record.kind in RETRACTS else column.add
            values[name] = step(values[name], record.values[name])
    return Record(kind, values)


def flushed(spec: MergeSpec, records: Iterable[Record]) -> dict[Any, Record]:
    """Return what one flush of a bucket writes, by key."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record.values[name] for name in spec.key_columns), []).append(record)
    return {key: merged(spec, in_order(spec, group)) for key, group in groups.items()}


def read(spec: MergeSpec, runs: list[dict[Any, Record]]) -> dict[Any, Record]:
    """Return the rows that a table of these runs, oldest first, has; also what compacting all of them leaves."""
    keys = {key: None for run in runs for key in run}
    found = {key: merged(spec, in_order(spec, [run[key] for run in runs if key in run])) for key in keys}
    return {key: record for key, record in found.items() if record.kind not in RETRACTS}


def in_order(spec: MergeSpec, records: list[Record]) -> list[Record]:
    """Sort by the sequence fields; ties keep the order in which they came."""

    def compare(left: Record, right: Record) -> int:
        for name in spec.sequence_fields:
            one, other = left.values[name], right.values[name]
            answer = compare_values(one, other)
            if answer:
                return -answer if spec.sequence_descending and None not in (one, other) else answer
        return 0

    return sorted(records, key=cmp_to_key(compare))
