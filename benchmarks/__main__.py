"""All benchmarks, one after the other: `make bench`, or a tenth of each with `make bench-quick`.

Each runs in a process of its own, so that none inherits another's memory, caches or JVM. Ends with code 1 when one of
them failed to run; a bar that was missed is printed, not punished: a busy machine is no defect. `--together 2` asks
whether they run at all, in half the time: figures of benchmarks that share the cores mean nothing. `--part 2/3` runs
every third of them, from the second on.
"""

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.parts import WHOLE, of_part, parse_part


@dataclass(frozen=True)
class Outcome:
    name: str
    code: int
    seconds: float
    output: str | None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--together", type=int, default=1, metavar="N", help="how many run at once (default 1)")
    parser.add_argument(
        "--part", type=parse_part, default=WHOLE, metavar="K/N", help="every N-th benchmark from the K-th on"
    )
    arguments, passed_on = parser.parse_known_args()
    every = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    names = of_part(every, arguments.part)
    alone = arguments.together == 1
    failed = 0
    with ThreadPoolExecutor(arguments.together) as pool:
        run = partial(_run, arguments=passed_on, alone=alone)
        for outcome in map(run, names) if alone else pool.map(run, names):
            if outcome.output is not None:
                print(f"== benchmarks.{outcome.name}\n{outcome.output}", end="")
            result = f"failed with code {outcome.code}" if outcome.code else "ok"
            print(f"== benchmarks.{outcome.name}: {result}, {outcome.seconds:.0f} s\n", flush=True)
            failed += outcome.code != 0
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _run(name: str, *, arguments: list[str], alone: bool) -> Outcome:
    """Run one benchmark; `alone`, it prints as it goes, otherwise its output is kept whole."""
    began = time.monotonic()
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    if alone:
        print(f"== benchmarks.{name}", flush=True)
        code, output = subprocess.run(command, check=False).returncode, None
    else:
        done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        code, output = done.returncode, done.stdout
    return Outcome(name, code, time.monotonic() - began, output)


if __name__ == "__main__":
    sys.exit(main())
