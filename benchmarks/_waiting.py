"""Where a job in an object store waits: its requests by step of Dagster and by kind, from the log of the server.

A request counts for the step in which it came. The depth is how many requests waited for one another: the longest row
of requests of which each came when the one before had left. The seconds are those in which any request was on its way.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dagster as dg

_KINDS: Final = (
    ("snapshot", re.compile(r"snapshot/snapshot-\d+$")),
    ("hint", re.compile(r"/(LATEST|EARLIEST)$")),
    ("manifest list", re.compile(r"manifest/manifest-list-")),
    ("manifest", re.compile(r"manifest/")),
    ("schema", re.compile(r"schema/schema-\d+$")),
    ("data", re.compile(r"bucket-")),
    ("own", re.compile(r"/lakehouse/")),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A request, with the times at which it came and left, in seconds."""

    came: float
    left: float
    kind: str


def read_log(log: Path) -> list[Answered]:
    """Return the requests in the log of a server, in the order in which they came."""
    lines = (line.split("\t", 3) for line in log.read_text().splitlines())
    found = [Answered(float(came), float(left), _kind(verb, key)) for came, left, verb, key in lines]
    return sorted(found, key=lambda each: each.came)


def _kind(verb: str, key: str) -> str:
    name = next((name for name, pattern in _KINDS if pattern.search(key)), "other")
    return verb if verb == "list" or verb.startswith("delete") else f"{verb} {name}"


def depth(requests: Iterable[Answered]) -> int:
    """Return how many of the requests waited for one another."""
    count, end = 0, 0.0
    for each in sorted(requests, key=lambda each: each.left):
        if each.came >= end:
            count, end = count + 1, each.left
    return count


def waited_seconds(requests: Sequence[Answered]) -> float:
    """Return in how many seconds at least one of the requests was on its way. REQUIRES: in the order in which they
    came.
    """
    total, end = 0.0, 0.0
    for each in requests:
        total += max(0.0, each.left - max(each.came, end))
        end = max(end, each.left)
    return total


def steps_of(home: Path) -> list[tuple[float, float, str]]:
    """Return the steps of all runs in a Dagster instance: begin and end in seconds, and the operation."""
    begun: dict[tuple[str, str], float] = {}
    found = []
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for run in instance.get_runs():
            for entry in instance.all_logs(run.run_id):
                step = (run.run_id, entry.step_key or "")
                if entry.dagster_event_type is dg.DagsterEventType.STEP_START:
                    begun[step] = entry.timestamp
                elif entry.dagster_event_type is dg.DagsterEventType.STEP_SUCCESS:
                    found.append((begun[step], entry.timestamp, _operation(step[1])))
    return found


def _operation(step: str) -> str:
    """Return what a step does: `lake__ops__flights__compact_full` compacts a table in full."""
    operations = ("ingest", "compact_full", "compact_manifests", "expire", "checks")
    return next((name for name in operations if step.endswith(f"__{name}")), "commit" if "__" in step else step)


def print_waiting(requests: Sequence[Answered], steps: Sequence[tuple[float, float, str]]) -> None:
    """Print the requests by step and by kind."""
    by_step: dict[str, list[list[Answered]]] = defaultdict(list)
    within: set[int] = set()
    for begin, end, operation in steps:
        own = [number for number, each in enumerate(requests) if begin <= each.came < end]
        within.update(own)
        by_step[operation].append([requests[number] for number in own])
    by_step["outside of steps"].append([each for number, each in enumerate(requests) if number not in within])
    print(f"\n{'where it waits':24} {'steps':>6} {'requests':>9} {'depth':>6} {'seconds':>8}")
    for operation, parts in sorted(by_step.items(), key=lambda item: -sum(map(waited_seconds, item[1]))):
        figures = sum(map(len, parts)), sum(map(depth, parts)), sum(map(waited_seconds, parts))
        print(f"{operation:24} {len(parts):6} {figures[0]:9,} {figures[1]:6,} {figures[2]:8.1f}")
    print(f"{'all':24} {len(steps):6} {len(requests):9,} {depth(requests):6,} {waited_seconds(requests):8.1f}")
    print("by kind: " + ", ".join(f"{count:,} {kind}" for kind, count in _counted(requests).items()))


def _counted(requests: Iterable[Answered]) -> Mapping[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for each in requests:
        counts[each.kind] += 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))
