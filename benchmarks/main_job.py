"""The main job in an object store where each request takes 20 ms, and on the local disk: sixteen batches of flights.

What `make run` does: ingest, merges, compaction, expiry and all answers; the quick form loads one batch of the extract
that the tests have. Each run is a process of its own with Spark and Dagster, and begins without a warehouse. The server
is the strict one of the tests, on this machine: what it computes is in the times. Beside the ratio it says where the
last run in the store waited.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks import _measure as measure
from benchmarks import _waiting as waiting
from benchmarks._s3 import DELAY_SECONDS, s3_server
from tests.orchestration.pipeline import EXTRACT

ALL = ("--batches", "16")
QUICK = ("--batches", "1", "--source", str(EXTRACT))


def run(folder: Path, numbers: "count[int]", warehouse: str, keys: Mapping[str, str], flags: Sequence[str]) -> Path:
    """Run the job into a new warehouse, with the feed of all runs below `folder`; return the folder of its history."""
    number = next(numbers)
    home = folder / f"home-{number}"
    own = {"DAGSTER_HOME": f"{home}", "LAKEHOUSE_FEED_CACHE": f"{folder}/feed"}
    command = [sys.executable, "-m", "orchestration.run", "--warehouse", f"{warehouse}-{number}"]
    done = subprocess.run(
        [*command, *flags],
        env={**os.environ, **own, **keys},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"The main job in {warehouse} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return home


def main() -> None:
    given = measure.arguments(__doc__, rounds=2)
    flags = QUICK if given.quick else ALL
    measure.print_header("The main job at 20 ms", data=" ".join(flags[:2]), packages=["obstore", "pyspark"])
    with ExitStack() as stack:
        folder, numbers = Path(stack.enter_context(tempfile.TemporaryDirectory())), count()
        log = folder / "requests"
        storage = stack.enter_context(s3_server(delay_seconds=DELAY_SECONDS, log=log))
        keys = {
            "AWS_ENDPOINT_URL": storage["endpoint"],
            "AWS_ACCESS_KEY_ID": storage["access-key"],
            "AWS_SECRET_ACCESS_KEY": storage["secret-key"],
        }
        jobs = {
            "disk": partial(run, folder, numbers, f"{folder}/warehouse", {}, flags),
            "store": partial(run, folder, numbers, "s3://lake/warehouse", keys, flags),
        }
        series = measure.interleave(jobs, rounds=1 if given.quick else given.rounds, warm_rounds=0)
        steps = waiting.steps_of(series["store"].samples[-1].value)
        began = min(begin for begin, _, _ in steps)
        requests = [each for each in waiting.read_log(log) if each.came >= began]
    measure.print_table("the main job", series, against="disk")
    waiting.print_waiting(requests, steps)
    measure.print_bars([measure.Bar("store / disk, wall", measure.wall_ratio(series, "store", "disk"), 2.5, 1.5)])


if __name__ == "__main__":
    main()
