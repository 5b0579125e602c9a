"""The verbs of this checkout against those of another, on the local disk: `--before FOLDER` names a checkout of before.

Each side is a process of its own, with the same Python and the same packages. Both do the same work in turn, and who
begins changes with each round. Without `--before` this checkout is held against itself, which shows the noise.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks import _measure as measure
from benchmarks._verbs_side import VERBS

HERE = Path(__file__).resolve().parent
MUST, AIM = 1.03, 1.0


class Side:
    """A process that has imported the package of one checkout; its tables are in a folder of its own."""

    def __init__(self, checkout: Path, warehouse: Path, scale: float) -> None:
        # Not by `-m`: the folder of this checkout would come before the other one.
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "_verbs_side.py"), str(warehouse), str(scale)],
            env={**os.environ, "PYTHONPATH": str(checkout), "PYSPARK_PYTHON": sys.executable},
            # The Python workers of Spark look there first.
            cwd=checkout,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        package = Path(self._answer())
        assert package.is_relative_to(checkout), (package, checkout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def take(self, verb: str) -> measure.Sample:
        """Prepare what `verb` needs, then let it run, and return what it took."""
        self._tell(verb)
        assert self._answer() == "prepared"
        cpu = measure.tree_cpu_seconds(self._process.pid)
        self._tell("run")
        wall, done = json.loads(self._answer())
        return measure.Sample(wall, measure.tree_cpu_seconds(self._process.pid) - cpu, done)

    def _tell(self, line: str) -> None:
        assert self._process.stdin
        print(line, file=self._process.stdin, flush=True)

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a side ended with code {self._process.wait()}")
        return line.strip()


def main() -> None:
    parsed = measure.arguments(
        __doc__,
        rounds=5,
        texts={"before": "the folder of a checkout of before (default: this one)", "verbs": "only these, by commas"},
    )
    here = HERE.parent
    before = Path(parsed.before).resolve() if parsed.before else here
    verbs = parsed.verbs.split(",") if parsed.verbs else list(VERBS)
    measure.print_header("Before and after", data="the same tables on both sides", notes=[f"{len(verbs)} verbs"])
    rows, bars = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scale = 0.1 if parsed.quick else 1.0
        sides = {
            name: stack.enter_context(Side(checkout, folder / name, scale))
            for name, checkout in (("before", before), ("after", here))
        }
        for verb in verbs:
            series = measure.interleave(
                {name: partial(side.take, verb) for name, side in sides.items()},
                rounds=parsed.rounds,
            )
            answers = {str(sample.value) for one in series.values() for sample in one.samples}
            assert len(answers) == 1, (verb, answers)
            cpu = measure.cpu_ratio(series, "after", "before")
            best = series["after"].best_cpu_seconds / max(series["before"].best_cpu_seconds, 0.01)
            wall = measure.wall_ratio(series, "after", "before")
            seconds = [f"{series[name].cpu_seconds:.2f}" for name in sides]
            rows.append([verb, *seconds, f"{cpu:.3f}", f"{best:.3f}", f"{wall:.3f}"])
            bars.append(measure.Bar(f"{verb}: after / before (best CPU)", best, MUST, AIM))
    header = ["", "before, CPU s", "after, CPU s", "CPU x", "best CPU x", "wall x"]
    measure.print_rows("after against before, medians", header, rows)
    measure.print_bars(bars)


if __name__ == "__main__":
    main()
