"""Create-if-absent on the local disk: processes that race for the same names. Two winners of one name is a lost commit.

Beside ours run two ways that look right and are not as safe: "does it exist? then rename", and rename alone.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks import _measure as measure
from benchmarks._crowd import crowd
from lakehouse_core.storage import LocalStore

PROCESSES = 4
NAMES = 10_000


def create_new(root: str, name: str, data: bytes) -> bool:
    return LocalStore(root).create_new(name, data)


def exists_then_rename(root: str, name: str, data: bytes) -> bool:
    path = Path(root, name)
    if path.exists():
        return False
    temp = Path(root, f".{name}.{os.getpid()}.tmp")
    temp.write_bytes(data)
    temp.rename(path)
    return True


WAYS: dict[str, Callable[[str, str, bytes], bool]] = {
    "create_new (link)": create_new,
    "exists, then rename": exists_then_rename,
}


def race(number: int, ready: Callable[[], object], way: str, root: str, names: int) -> tuple[bytes, list[int]]:
    data = f"{number:>8} ".encode() * 100
    ready()
    return data, [name for name in range(names) if WAYS[way](root, f"s-{name}", data)]


def measured(way: str, names: int) -> tuple[int, int, float]:
    """Return names with more than one winner, names whose content is not their winner's, and seconds."""
    root = tempfile.mkdtemp(prefix="race-")
    won, seconds = crowd(PROCESSES, race, way, root, names)
    winners = Counter(name for _, names_won in won for name in names_won)
    torn = sum(Path(root, f"s-{name}").read_bytes() != data for data, names_won in won for name in names_won)
    missing = names - len(winners)
    shutil.rmtree(root)
    return sum(count > 1 for count in winners.values()), torn + missing, seconds


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=1)
    names = measure.scaled(NAMES, parsed)
    measure.print_header("Race for names on the local disk", data=f"{PROCESSES} processes, {names} names each")
    rows, bars = [], []
    for way in WAYS:
        double, wrong, seconds = measured(way, names)
        rows.append([way, double, wrong, f"{seconds:.1f}", f"{seconds / names * 1000:.2f}"])
        if way == "create_new (link)":
            bars = [
                measure.Bar("double winners", double, 0, 0, ""),
                measure.Bar("names torn, lost or of another's content", wrong, 0, 0, ""),
            ]
    measure.print_rows(
        f"{PROCESSES} x {names}", ["", "double winners", "torn or wrong", "seconds", "ms per name"], rows
    )
    measure.print_bars(bars)


if __name__ == "__main__":
    main()
