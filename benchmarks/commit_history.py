"""Commits of 100 files on tables with a short and a long history: the time must not grow with the snapshots.

Every commit is on the local disk with all its syncs. Tables are filled by real commits of one file each, and the
commits that are measured include the manifest merges that fall due among them.
"""

import itertools
import shutil
import statistics
import tempfile
import time

from benchmarks import _commits as commits
from benchmarks import _measure as measure

HISTORIES = (10, 1_000, 10_000)
FILES = 100
# Two merges fall due among so many.
COMMITS = 60


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=1)
    histories = [max(10, measure.scaled(count, parsed)) for count in HISTORIES]
    measure.print_header(
        "Commit against history",
        data=f"append table, {COMMITS} commits of {FILES} files each, after histories of {histories} snapshots",
        notes=["wall seconds of one commit, staged before; files of 100 bytes exist already"],
    )
    root = tempfile.mkdtemp(prefix="commit-history-")
    tables = {count: commits.new_table(f"{root}/{count}") for count in histories}
    for count, table in tables.items():
        for identifier in range(count):
            table.commit(table.stage("history", identifier, 1))
    # In turn, so that what the machine does meanwhile meets all alike.
    seconds: dict[int, list[float]] = {count: [] for count in histories}
    for identifier, count in itertools.product(range(COMMITS), histories):
        table = tables[count]
        staged = table.stage("measured", identifier, FILES)
        begin = time.perf_counter()
        result = table.commit(staged)
        seconds[count].append(time.perf_counter() - begin)
        assert result.attempts == 1
    shutil.rmtree(root)
    rows = [
        [f"{count} snapshots", *(f"{value * 1000:.1f}" for value in figures(seconds[count]))] for count in histories
    ]
    measure.print_rows("milliseconds", ["", "best", "median", "mean", "p95"], rows)
    medians = [figures(seconds[count])[1] for count in histories]
    means = [figures(seconds[count])[2] for count in histories]
    measure.print_bars(
        [
            measure.Bar("slowest / fastest history, median commit", max(medians) / min(medians), 1.5, 1.2),
            measure.Bar("slowest / fastest history, mean commit", max(means) / min(means), 1.5, 1.2),
        ]
    )


def figures(seconds: list[float]) -> tuple[float, float, float, float]:
    """Return best, median, mean and 95th percentile."""
    ranked = sorted(seconds)
    return ranked[0], statistics.median(ranked), statistics.fmean(ranked), ranked[int(len(ranked) * 0.95)]


if __name__ == "__main__":
    main()
