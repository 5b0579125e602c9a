"""Which commits brought the rows of a file, as far as the snapshots that are left tell."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.planning.lineage import BucketChange, Lineage, Origin, SnapshotChange
from lakehouse_core.table.commit_message import CommitKind
from tests.oracle.lineage import WatchedFiles

BUCKETS = {"": 0, "other": 1, "waiting": -2}
BUCKET_NAMES = {0: "", 1: "other:"}
STEP = re.compile(r"(\d+) (\w+) (.*)")
FILE = re.compile(r"(?:(\w+):)?([+-])(\w+)")


def cases():
    text = Path(__file__).with_name("lineage_cases.txt").read_text()
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        yield pytest.param(lines[1:], id=lines[0].removeprefix("# "))


@pytest.mark.parametrize("lines", [*cases()])
def test_the_trail_of_a_file(lines):
    steps = [match for line in lines if (match := STEP.fullmatch(line))]
    lineage = Lineage(change(*step.groups()) for step in steps)

    told = [shown(lineage.origin(line.partition(":")[0])) for line in lines[len(steps) :]]

    assert told == lines[len(steps) :]


def test_a_trail_names_each_file_once_and_the_nearer_ones_first():
    steps = ["1 APPEND +a", "2 COMPACT -a +b", "3 APPEND +c", "4 COMPACT -b -c +d"]
    lineage = Lineage(change(*STEP.fullmatch(step).groups()) for step in steps)

    assert [origin.file_name for origin in lineage.trail(("d", "b"))] == ["d", "b", "c", "a"]
    assert lineage.brought_by(4) == ("d",)
    assert lineage.brought_by(9) == ()
    assert (lineage.knows("a"), lineage.knows("z")) == (True, False)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1)),
        st.tuples(st.just("append"), st.integers(0, 1)),
        st.tuples(st.just("compact"), st.integers(0, 1)),
        st.tuples(st.just("upgrade"), st.integers(0, 1)),
        st.tuples(st.just("rescale"), st.integers(0, 1)),
        st.tuples(st.just("roll back"), st.integers(1, 3)),
        st.tuples(st.just("expire"), st.integers(1, 4)),
        st.tuples(st.just("tag"), st.just(0)),
        st.tuples(st.just("branch"), st.integers(1, 2)),
    ),
    max_size=40,
)


@given(STEPS)
def test_after_any_history_a_trail_is_what_was_seen_at_the_commits(steps):
    """Rolling back reuses the numbers of snapshots, and a branch goes on from a snapshot that it shares."""
    life = Life()
    for step in steps:
        life.step(*step)
        known, serials = life.known()
        lineage = Lineage(commit.change for commit in known)
        origins = [lineage.origin(name) for name in {name for names in life.live().values() for name in names}]
        by_serial = [
            replace(
                origin,
                snapshot_id=serials.get(origin.snapshot_id),
                source_ids=tuple(serials[number] for number in origin.source_ids),
            )
            for origin in origins
        ]

        assert life.watched.differences(by_serial, {*serials.values()}) == []


class Life:
    """The commits of a table, each with a number that is never used again beside the one of its snapshot."""

    def __init__(self):
        self.watched = WatchedFiles()
        self.history, self.tagged, self.count = [], [], 0

    def live(self):
        return self.history[-1].after if self.history else {}

    def known(self):
        """Return the commits of the history, then those of tags whose snapshot numbers it does not have."""
        own = {commit.change.snapshot_id for commit in self.history}
        commits = [*self.history]
        for commit in self.tagged:
            if commit.change.snapshot_id not in own:
                own.add(commit.change.snapshot_id)
                commits.append(commit)
        return commits, {commit.change.snapshot_id: commit.serial for commit in commits}

    def step(self, verb, number):
        files = self.live().get((b"", number), frozenset())
        match verb:
            case "append":
                self.commit("APPEND", {number: [self.name()]}, {})
            case "compact" if len(files) > 1:
                gone = sorted(files)[: 2 + self.count % 3]
                self.commit("COMPACT", {number: [self.name()]}, {number: gone})
            case "upgrade" if files:
                self.commit("COMPACT", {number: [min(files)]}, {number: [min(files)]})
            case "rescale" if files:
                self.commit("OVERWRITE", {1 - number: [self.name()]}, {number: [*files]})
            case "roll back":
                self.history = self.history[: max(1, len(self.history) - number)]
            case "branch" if self.history:
                # The branch has the snapshot it began with, and none before it.
                self.history = self.history[-number:][:1]
            case "expire":
                self.history = self.history[-number:]
            case "tag" if self.history:
                self.tagged.append(self.history[-1])

    def name(self):
        self.count += 1
        return f"f{self.count}"

    def commit(self, kind, made, removed):
        before = self.live()
        after = {place: set(names) for place, names in before.items()}
        for bucket, names in removed.items():
            after[b"", bucket] -= {*names}
        for bucket, names in made.items():
            after.setdefault((b"", bucket), set()).update(names)
        after = {place: frozenset(names) for place, names in after.items()}
        self.count += 1
        entries = [
            (bucket, sign, name)
            for sign, side in (("-", removed), ("+", made))
            for bucket in side
            for name in side[bucket]
        ]
        text = " ".join(f"{BUCKET_NAMES[bucket]}{sign}{name}" for bucket, sign, name in entries)
        snapshot_id = self.history[-1].change.snapshot_id + 1 if self.history else 1
        self.history.append(Commit(serial=self.count, change=change(str(snapshot_id), kind, text), after=after))
        self.watched.saw(self.count, kind, before, after)


@dataclass(frozen=True, kw_only=True)
class Commit:
    serial: int
    change: SnapshotChange
    after: dict


def test_a_long_row_of_compactions_is_traced_without_walking_it_again_for_each_file():
    steps = [change(str(1), "APPEND", "+f1")]
    for number in range(2, 4000, 2):
        steps.append(change(str(number), "APPEND", f"+f{number}"))
        steps.append(change(str(number + 1), "COMPACT", f"-f{number - 1} -f{number} +f{number + 1}"))

    last = Lineage(steps).origin("f3999")

    assert last.source_ids == (1, *range(2, 4000, 2))


def change(snapshot_id, kind, files):
    made, removed = {}, {}
    for bucket, sign, name in FILE.findall(files):
        (made if sign == "+" else removed).setdefault(BUCKETS[bucket], []).append(name)
    return SnapshotChange(
        snapshot_id=int(snapshot_id),
        kind=CommitKind(kind),
        buckets=tuple(
            BucketChange(
                partition=b"",
                bucket=bucket,
                made=tuple(name for name in made.get(bucket, ()) if name not in removed.get(bucket, ())),
                removed=tuple(name for name in removed.get(bucket, ()) if name not in made.get(bucket, ())),
            )
            for bucket in {**made, **removed}
        ),
    )


def shown(origin: Origin) -> str:
    parts = {
        "made by": "" if origin.snapshot_id is None else str(origin.snapshot_id),
        "from": " ".join(map(str, origin.source_ids)),
        "before": " ".join(origin.lost),
    }
    return f"{origin.file_name}: {', '.join(f'{word} {text}' for word, text in parts.items() if text)}"
