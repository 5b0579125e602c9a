"""Random histories of writers that overtake each other: verify is silent about ours, and about those of writers that do
not look it names exactly the commits whose rows lose.

What reads show right after a commit says whether its rows lose: nothing of how verify finds them is used. Where a
commit deletes what is not there, they say nothing.
"""

import random
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import lakehouse_core as lc
from tests.execution.commit.test_order import VECTORS, Place

HISTORIES = 25
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate, vectors": VECTORS,
    "input, orc": {"changelog-producer": "input", "file.format": "orc"},
    "lookup": {"changelog-producer": "lookup"},
    "partial update, avro": {"merge-engine": "partial-update", "file.format": "avro"},
    "first row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
}
_NUMBERS = re.compile(r"has sequence number (\d+).* has (\d+)$")


def search(seed: int, histories: int = HISTORIES) -> None:
    """Raise AssertionError with a history of which verify tells more or less than is true."""
    for number in range(seed * histories, (seed + 1) * histories):
        chance = random.Random(number)
        looks = chance.random() < 0.5
        names = [name for name in TABLES if looks or name != "first row"]
        history = _History(chance, TABLES[chance.choice(names)], looks=looks)
        for _ in range(chance.randint(4, 14)):
            history.step()
        history.check(f"history {number}")


class _History:
    """One table and what is staged for it. Writers that do not look commit with the numbers that they staged with."""

    def __init__(self, chance: random.Random, options: dict[str, str], *, looks: bool) -> None:
        self._chance, self._looks = chance, looks
        small = {"num-sorted-run.compaction-trigger": "2", "snapshot.num-retained.min": "1"}
        self._place = Place({"write-only": "true", "lakehouse.read.grace": "0 s", **small, **options})
        self._vectors = "deletion-vectors.enabled" in options
        self._deletes = "merge-engine" not in options
        self._staged: list[tuple[list[dict[str, Any]], lc.StagedCommit]] = []
        self._lost: set[int] = set()
        self._unseen: set[int] = set()
        self._told = [str(options), "looks" if looks else "does not look"]

    def step(self) -> None:
        kind = self._chance.random()
        if kind < 0.45 or (not self._place.table.snapshots() and not self._staged):
            self._stage()
        elif kind < 0.8 and self._staged:
            self._commit()
        elif self._place.table.snapshots():
            self._maintain()

    def check(self, name: str) -> None:
        findings = [str(finding) for finding in self._place.table.verify(data=self._chance.random() < 0.3).findings]
        strictly, at_all = set(), set()
        for finding in self._place.table.verify().findings:
            (id,) = map(int, re.findall(r"^snapshot/snapshot-(\d+)", finding.object))
            lower, higher = map(int, *_NUMBERS.findall(finding.found))
            at_all.add(id)
            # Of two rows with one number the later may win or lose.
            strictly |= {id} if lower < higher else set()
        assert strictly - self._unseen <= self._lost <= at_all, "\n  ".join(
            [name, *self._told, f"lost: {self._lost}", *findings]
        )

    def _stage(self) -> None:
        name = f"user {len(self._told)}"
        keys = self._chance.sample(range(30), self._chance.choice([1, 1, 2, 3]))
        kinds = ["+I", "+I", "+I", "-D"] if self._deletes else ["+I"]
        rows = [{"k": key, "v": name, "op": self._chance.choice(kinds)} for key in keys]
        staged = self._place.table.stage(rows, rowkind_column="op", commit_user=name, commit_identifier=1)
        self._staged.append((rows, staged))
        self._told.append(f"{name} stages {[(row['op'], row['k']) for row in rows]}")

    def _commit(self) -> None:
        table = self._place.table
        rows, staged = self._staged.pop(self._chance.randrange(len(self._staged)))
        before = {key for key, _ in self._place.rows()}
        if not self._looks and (latest := table.snapshot()):
            staged = replace(staged, base_snapshot_id=latest.id, base_time_millis=None)
        (id, *_) = table.commit(staged).snapshot_ids
        self._told.append(f"{staged.commit_user} makes snapshot {id}")
        if self._looks:
            return
        if self._vectors:
            # Readers see the rows after a compaction.
            table.compact(full=self._chance.random() < 0.3)
        if any(row["op"] == "-D" and row["k"] not in before for row in rows):
            self._unseen.add(id)
        shown = dict(self._place.rows())
        if any(shown.get(row["k"]) != (row["v"] if row["op"] == "+I" else None) for row in rows):
            self._lost.add(id)

    def _maintain(self) -> None:
        if self._looks and self._chance.random() < 0.2:
            self._place.table.expire_snapshots(retain_max=2, retain_min=1, older_than=timedelta(0))
            self._told.append("expire")
        else:
            full = self._chance.random() < 0.4
            self._place.table.compact(full=full)
            self._told.append(f"compact, full: {full}")
