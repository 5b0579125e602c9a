"""The merge engine's slow twin: rows one by one, plain comparisons.

Source: docs/semantics/merge-engines.md#order-of-versions, docs/semantics/writing.md#lone-records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import groupby
from math import isnan
from typing import Any


@dataclass(frozen=True)
class Version:
    """One record: its key, its sequence fields, its number, its kind (+I, -U, +U, -D), and anything else."""

    key: tuple[Any, ...]
    sequence: tuple[Any, ...] = ()
    number: int = 0
    kind: str = "+I"
    value: Any = None


def compare_values(left: Any, right: Any) -> int:
    """-1, 0 or 1; strings by their UTF-8 bytes, NaN equal to itself and greatest, -0.0 equal to 0.0, null first."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, float) and (isnan(left) or isnan(right)):
        return isnan(left) - isnan(right)
    return (left > right) - (left < right)


def compare_keys(left: Sequence[Any], right: Sequence[Any]) -> int:
    for one, other in zip(left, right, strict=True):
        if answer := compare_values(one, other):
            return answer
    return 0


def compare_versions(left: Version, right: Version, *, descending: bool = False) -> int:
    """Key, then sequence fields (null oldest in both directions), then number, then retract before add."""
    if answer := compare_keys(left.key, right.key):
        return answer
    for one, other in zip(left.sequence, right.sequence, strict=True):
        answer = compare_values(one, other)
        if descending and one is not None and other is not None:
            answer = -answer
        if answer:
            return answer
    if left.number != right.number:
        return -1 if left.number < right.number else 1
    return (left.kind in ("+I", "+U")) - (right.kind in ("+I", "+U"))


def ordered(versions: Iterable[Version], *, descending: bool = False) -> list[Version]:
    """Sort; full ties keep the order given."""
    return sorted(versions, key=cmp_to_key(lambda a, b: compare_versions(a, b, descending=descending)))


def deduplicate(
    versions: Iterable[Version], *, descending: bool = False, ignore_delete: bool = False, drop_delete: bool = False
) -> list[Version]:
    """Return what is left of each key, in key order."""
    left: list[Version] = []
    for _, group in groupby(ordered(versions, descending=descending), key=cmp_to_key(_by_key)):
        records = list(group)
        if len(records) > 1 and ignore_delete:
            records = [record for record in records if record.kind in ("+I", "+U")]
        left += records[-1:]
    return [record for record in left if not (drop_delete and record.kind in ("-U", "-D"))]


def _by_key(left: Version, right: Version) -> int:
    return compare_keys(left.key, right.key)


def sections(ranges: Sequence[tuple[Any, Any]]) -> list[list[list[tuple[Any, Any]]]]:
    """Partition closed ranges into sections of runs: whatever overlaps, even at one point, shares a section."""
    found: list[list[tuple[Any, Any]]] = []
    for low, high in sorted(ranges):
        if found and any(other_high >= low for _, other_high in found[-1]):
            found[-1].append((low, high))
        else:
            found.append([(low, high)])
    return [_runs(section) for section in found]


def _runs(section: list[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
    """Pack greedily: each range goes to the run that ends first, if it ends before the range begins."""
    runs: list[list[tuple[Any, Any]]] = []
    for low, high in section:
        first = min(runs, key=lambda run: run[-1][1], default=None)
        if first is not None and first[-1][1] < low:
            first.append((low, high))
        else:
            runs.append([(low, high)])
    return runs
