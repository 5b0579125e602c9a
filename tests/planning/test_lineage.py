"""Which commits brought the rows of a file, as far as the snapshots that are left tell."""

import re
from pathlib import Path

import pytest

from lakehouse_core.planning.lineage import BucketChange, Lineage, Origin, SnapshotChange
from lakehouse_core.table.commit_message import CommitKind

BUCKETS = {"": 0, "other": 1, "waiting": -2}
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
    assert lineage.made_by(4) == ("d",)
    assert lineage.made_by(9) == ()
    assert (lineage.knows("a"), lineage.knows("z")) == (True, False)


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
