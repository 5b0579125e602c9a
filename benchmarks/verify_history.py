"""verify on long histories: seconds and memory, of commits of one file, and of fewer commits of twenty files.

Every table lies on the local disk and is filled by real commits, manifest merges included; tags name snapshots that
are retained. Each measured call runs in a process of its own. Floor: every snapshot, manifest list and manifest read
once and decompressed, no record decoded.
"""

import json
import shutil
import tempfile
from pathlib import Path

from benchmarks import _commits as commits
from benchmarks import _measure as measure
from lakehouse_core.execution.expiry.tags import create_tag
from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.format.avro_container import open_container

# By files a commit. A merge writes all entries anew until a manifest is full, so many files make much to read.
SNAPSHOTS = {1: 10_000, 20: 1_000}
TAGS = 100


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=2)
    histories = {files: measure.scaled(count, parsed) for files, count in SNAPSHOTS.items()}
    measure.print_header(
        "Verify of long histories",
        data=", ".join(f"append table: {count} snapshots of {files} files" for files, count in histories.items())
        + f", {TAGS} tags each",
        notes=["floor: the metadata read and decompressed once, no record decoded"],
    )
    rows, bars = [], []
    for files, snapshots in histories.items():
        root = tempfile.mkdtemp(prefix="verify-history-")
        fill(root, snapshots, files)
        taken = [measure.fresh(run, root) for _ in range(parsed.rounds)]
        floors = [measure.fresh(floor, root) for _ in range(parsed.rounds)]
        shutil.rmtree(root)
        best = min(taken, key=lambda one: one.cpu_seconds)
        least = min(floors, key=lambda one: one.cpu_seconds)
        peak = max(one.peak_bytes for one in taken) / 2**20
        for name, one in (("verify", best), ("floor", least)):
            rows.append([f"{name}, {files} files a commit", f"{one.cpu_seconds:.1f}", f"{one.wall_seconds:.1f}"])
        bars.append(measure.Bar(f"verify, {files} files a commit", best.cpu_seconds, 60, 30, "CPU s"))
        bars.append(measure.Bar(f"its memory, {files} files a commit", peak, 600, 400, "MiB"))
        ratio = best.cpu_seconds / max(least.cpu_seconds, 0.01)
        bars.append(measure.Bar(f"verify / floor, {files} files a commit", ratio, 15, 8))
    measure.print_rows("seconds", ["", "CPU s", "wall s"], rows)
    measure.print_bars(bars)


def fill(root: str, snapshots: int, files: int) -> None:
    """Make a table of so many snapshots, each of so many files."""
    table = commits.new_table(root)
    for identifier in range(snapshots):
        table.commit(table.stage("history", identifier, files))
    for number in range(TAGS):
        create_tag(table.context, f"t{number}", snapshot_id=1 + number * snapshots // TAGS)


def run(root: str) -> None:
    """Verify the table; it has to be sound."""
    table = commits.CommitTable(root)
    findings = verify(table.context)
    assert findings == (), findings[:3]


def floor(root: str) -> int:
    """Return how many bytes the metadata takes, decompressed."""
    size = 0
    for path in Path(root, "snapshot").glob("snapshot-*"):
        size += len(json.loads(path.read_bytes()))
    for path in Path(root, "manifest").iterdir():
        size += sum(len(block.data) for block in open_container(path.read_bytes(), path.name).blocks)
    return size


if __name__ == "__main__":
    main()
