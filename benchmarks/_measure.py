"""How every benchmark measures: CPU seconds of the process tree, peak memory of fresh processes, interleaved rounds.

Rule: a figure is a ratio of two alternatives of one run, never a number of seconds alone; machines differ, and one
machine differs from itself. So the floor and the peers run in the same rounds, in turn, and medians are compared.

    from benchmarks import _measure as measure

    arguments = measure.arguments(__doc__)                      # --quick, --rounds, --json FILE
    rows = measure.scaled(2_000_000, arguments)                 # a tenth with --quick
    measure.print_header("Merge read", data=f"4 runs of {rows} rows, zstd 1")
    series = measure.interleave({"ours": read, "floor": decode}, rounds=arguments.rounds)
    measure.print_table("merge read", series, against="floor")
    measure.print_bars([measure.Bar("merge read / Parquet read", measure.cpu_ratio(series, "ours", "floor"), 2.2, 1.5)])

Peak memory needs a process that did nothing else: `measure.fresh(function, argument, …)` runs a function of a module
in a new interpreter and tells what it took; `measure.command([...])` does the same for any program.
"""

import argparse
import gc
import importlib.metadata
import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
# Bars and tables of this run, for --json.
_record: dict[str, Any] = {"tables": [], "bars": []}


@dataclass(frozen=True, slots=True)
class Sample:
    """One execution: seconds on the wall, CPU seconds of this process and all its descendants, and what came back."""

    wall_seconds: float
    cpu_seconds: float
    value: Any = None


@dataclass(frozen=True, slots=True)
class Series:
    """The kept rounds of one alternative, in order."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def cpu_seconds(self) -> float:
        """The median."""
        return statistics.median(sample.cpu_seconds for sample in self.samples)

    @property
    def wall_seconds(self) -> float:
        """The median."""
        return statistics.median(sample.wall_seconds for sample in self.samples)

    @property
    def best_cpu_seconds(self) -> float:
        return min(sample.cpu_seconds for sample in self.samples)

    @property
    def best_wall_seconds(self) -> float:
        return min(sample.wall_seconds for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a new process took. `peak_bytes` is the greatest resident set of one process of its tree."""

    value: Any
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure with what it must and should reach. `smaller_is_better` is False for "times faster"."""

    what: str
    value: float
    must: float
    aim: float
    unit: str = "x"
    smaller_is_better: bool = True

    @property
    def verdict(self) -> str:
        """Return "aim", "must" or "MISSED"."""
        sign = 1 if self.smaller_is_better else -1
        if sign * self.value <= sign * self.aim:
            return "aim"
        return "must" if sign * self.value <= sign * self.must else "MISSED"


def arguments(
    description: str | None, *, rounds: int = 5, texts: Mapping[str, str] | None = None
) -> argparse.Namespace:
    """Parse the flags that all benchmarks share: `quick`, `rounds` (3 with --quick unless told), `json`. `texts`: flags
    of this one that take a text, empty unless given, and what they mean.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data: shows that it runs, not how fast")
    parser.add_argument("--rounds", type=int, help=f"rounds that count, after one that does not (default {rounds})")
    parser.add_argument("--json", type=Path, help="also write tables and bars to this file")
    for name, meaning in (texts or {}).items():
        parser.add_argument(f"--{name}", default="", help=meaning)
    parsed = parser.parse_args()
    parsed.rounds = parsed.rounds or (min(rounds, 3) if parsed.quick else rounds)
    _record["quick"] = parsed.quick
    _record["file"] = parsed.json
    return parsed


def scaled(count: int, parsed: argparse.Namespace) -> int:
    """Return `count`, or a tenth of it in the quick form."""
    return max(1, count // 10) if parsed.quick else count


def tree_cpu_seconds(root: int | None = None) -> float:
    """Return the CPU seconds, user and system, that process `root` (this one) and all its descendants have used.

    Children that ended count when their parent has waited for them.
    """
    if root is not None:
        return sum(map(_cpu_ticks, _tree(root))) / _TICKS_PER_SECOND
    living = sum(map(_cpu_ticks, _tree(os.getpid())[1:])) / _TICKS_PER_SECOND
    return time.process_time() + _ended_cpu_seconds() + living


def _ended_cpu_seconds() -> float:
    """CPU seconds of all children that ended, and of theirs."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def peak_bytes(pid: int | None = None) -> int:
    """Return the greatest resident set that a live process (this one) has had since it was started."""
    # ru_maxrss would begin with the parent's size: the kernel carries it over fork and exec.
    try:
        status = (_PROC / str(os.getpid() if pid is None else pid) / "status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def tree_peak_bytes(root: int | None = None) -> int:
    """Return the sum of the greatest resident sets that process `root` (this one) and its descendants have had."""
    return sum(map(peak_bytes, _tree(os.getpid() if root is None else root)))


def sample(function: Callable[[], Any]) -> Sample:
    """Run `function` once, the garbage of earlier runs collected before."""
    gc.collect()
    cpu, wall = tree_cpu_seconds(), time.perf_counter()
    value = function()
    wall = time.perf_counter() - wall
    return Sample(wall, tree_cpu_seconds() - cpu, value)


def interleave(
    alternatives: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    warm_rounds: int = 1,
    before_each: Callable[[], Any] | None = None,
) -> dict[str, Series]:
    """Run all alternatives in turn, `warm_rounds` + `rounds` times, and return the rounds after the warm ones.

    Every second round goes backwards, so that no alternative always runs in another's wake. `before_each` is not
    measured. An alternative must leave the state as it found it, or make its own. One that runs in another process
    may return a Sample, which then counts instead of what was seen here.
    """
    kept: dict[str, list[Sample]] = {name: [] for name in alternatives}
    for number in range(warm_rounds + rounds):
        names = list(alternatives) if number % 2 == 0 else list(alternatives)[::-1]
        for name in names:
            if before_each is not None:
                before_each()
            taken = sample(alternatives[name])
            taken = taken.value if isinstance(taken.value, Sample) else taken
            if number >= warm_rounds:
                kept[name].append(taken)
            _progress(f"round {number + 1} of {warm_rounds + rounds}: {name} {taken.wall_seconds:.3f} s")
    _progress("")
    return {name: Series(name, tuple(samples)) for name, samples in kept.items()}


def cpu_ratio(series: Mapping[str, Series], name: str, against: str) -> float:
    """Return the median CPU seconds of `name` as a multiple of those of `against`."""
    return series[name].cpu_seconds / max(series[against].cpu_seconds, 1 / _TICKS_PER_SECOND)


def wall_ratio(series: Mapping[str, Series], name: str, against: str) -> float:
    """Return the median wall seconds of `name` as a multiple of those of `against`."""
    return series[name].wall_seconds / series[against].wall_seconds


def fresh(function: Callable[..., Any], *args: Any) -> Fresh:
    """Run `function(*args)`, a function of a module, in a new interpreter; its result must be picklable."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(theirs, function, args))
    process.start()
    theirs.close()
    try:
        result: Fresh = ours.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"{function.__qualname__} ended with exit code {process.exitcode}") from None
    process.join()
    return result


def command(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Fresh:
    """Run a program to its end; `value` is its standard output. A failure ends the benchmark with its error output."""
    # Of the children alone: the watch over them is at work in this process.
    cpu, wall = _ended_cpu_seconds(), time.perf_counter()
    process = subprocess.Popen(
        argv, env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    watch = _Watch(process.pid)
    output, errors = process.communicate()
    wall = time.perf_counter() - wall
    watch.end()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with exit code {process.returncode}:\n{errors[-4000:]}")
    return Fresh(output, wall, _ended_cpu_seconds() - cpu, watch.peak_bytes)


def print_header(title: str, *, data: str, packages: Iterable[str] = (), notes: Iterable[str] = ()) -> None:
    """Print what every table needs to be understood: machine, versions, data. `packages` beyond the usual ones."""
    names = ["numpy", "pyarrow", *packages]
    versions = [f"Python {platform.python_version()}", *(f"{name} {_version(name)}" for name in names)]
    lines = {"machine": machine(), "versions": ", ".join(versions), "data": data}
    _record.update(title=title, **lines)
    print(f"# {title}{' (quick form: a tenth of the data)' if _record.get('quick') else ''}\n")
    for name, line in lines.items():
        print(f"{name:9} {line}")
    for note in notes:
        print(f"note      {note}")
    print(flush=True)


def machine() -> str:
    """Return one line: processor, cores, memory, kernel, load."""
    model = "unknown processor"
    for line in _lines(_PROC / "cpuinfo"):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, {gib:.0f} GiB, {platform.system()} {platform.release()}, load {load:.1f}"


def print_table(title: str, series: Mapping[str, Series], *, against: str | None = None) -> None:
    """Print medians and best values of each alternative, and CPU and wall as multiples of `against`."""
    header = ["", "CPU s", "[best]", "wall s", "[best]"]
    if against is not None:
        header += ["CPU x", "wall x"]
    rows = []
    for name, one in series.items():
        row = [name, f"{one.cpu_seconds:.2f}", f"{one.best_cpu_seconds:.2f}"]
        row += [f"{one.wall_seconds:.2f}", f"{one.best_wall_seconds:.2f}"]
        if against is not None:
            row += [f"{cpu_ratio(series, name, against):.2f}", f"{wall_ratio(series, name, against):.2f}"]
        rows.append(row)
    print_rows(title, header, rows)


def print_rows(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print any table as Markdown, the first column left, the others right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"## {title}\n")
    for number, row in enumerate(cells):
        padded = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        print(f"| {' | '.join(padded)} |")
        if number == 0:
            print(f"| {'-' * widths[0]} | {' | '.join('-' * (width - 1) + ':' for width in widths[1:])} |")
    print(flush=True)
    _record["tables"].append({"title": title, "header": list(header), "rows": cells[1:]})
    _save()


def print_bars(bars: Sequence[Bar]) -> None:
    """Print figures beside what they must and should reach."""
    rows = []
    for bar in bars:
        sign = "<=" if bar.smaller_is_better else ">="
        limits = [f"{sign} {limit:g} {bar.unit}" for limit in (bar.must, bar.aim)]
        rows.append([bar.what, f"{bar.value:.3g} {bar.unit}", *limits, bar.verdict])
    _record["bars"] += [asdict(bar) | {"verdict": bar.verdict} for bar in bars]
    title = "Bars (set for the full data: fixed costs weigh ten times as much here)" if _record.get("quick") else "Bars"
    print_rows(title, ["", "measured", "must", "aim", "reached"], rows)


class _Watch:
    """Samples the tree below a child while it lives: nobody can ask how large a process was that is gone."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self.peak_bytes = max([self.peak_bytes, *map(peak_bytes, _tree(self._pid))])

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def _report(pipe: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    taken = sample(lambda: function(*args))
    pipe.send(Fresh(taken.value, taken.wall_seconds, taken.cpu_seconds, max(map(peak_bytes, _tree(os.getpid())))))


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree = [root]
    for pid in tree:
        tree += children.get(pid, ())
    return tree


def _cpu_ticks(pid: int) -> int:
    """Of the process and of its children that ended: utime, stime, cutime, cstime."""
    fields = _stat(pid)
    return sum(int(field) for field in fields[11:15]) if fields else 0


def _stat(pid: int) -> list[str]:
    """Return /proc/PID/stat from the state on (the name before it may hold spaces); empty when the process is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "-"


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _save() -> None:
    file = _record.get("file")
    if file is not None:
        kept = {name: value for name, value in _record.items() if name != "file"}
        file.write_text(json.dumps(kept, indent=1) + "\n")
