"""`make differential SEEDS=500`: random histories through the model, real Java and this repository, all ways.

A failure is made small, written to `build/differential/` and printed with the command that replays it.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from lakehouse_core.errors import LakehouseError
from tests.differential.changes import JAVAS, among_waiting_rows, with_changes
from tests.differential.compare import Check, against_model, against_reader, compacted_apart, failure, in_turns
from tests.differential.executors import (
    InTurns,
    Java,
    Ours,
    OursInMemory,
    Overtaking,
    OvertakingInMemory,
    TogetherInMemory,
)
from tests.differential.generate import (
    histories,
    stored_otherwise,
    with_dynamic_buckets,
    with_expiry,
    with_odd_floats,
    with_postponed_buckets,
)
from tests.differential.settings import with_old_rows, with_placed_rows, with_settings, with_small_files
from tests.interop import engines as interop
from tests.interop.judge import VERSIONS, Judge, JudgeError, prepare
from tests.interop.moving_turns import KINDS, write_in_turns
from tests.oracle.history import History

_MOVED_ON_SPARK = "ours on Spark, moving"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--seeds", type=int, default=500, help="how many histories")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="checks whose name contains this")
    parser.add_argument("--replay", type=Path, help="a file that a failure wrote")
    parser.add_argument("--spark", action="store_true", help="only ours, with tasks that run on Spark")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        judges = {} if arguments.spark else {version: _judge(stack, version) for version in VERSIONS}
        known = _checks_on_spark() if arguments.spark else _checks(judges)
        checks = {name: check for name, check in known.items() if arguments.only in name}
        if arguments.replay:
            return _replayed(checks, History.of(json.loads(arguments.replay.read_text())))
        failed = 0
        for name, check in checks.items():
            seeds = histories(arguments.start, arguments.seeds)
            failed += _ran(name, check, ((seed, _changed(name, seed, history)) for seed, history in seeds))
        for version, judge in judges.items():
            name = f"Java {version} and we in turns, moving"
            if arguments.only in name:
                failed += _moved(name, partial(_moved_in_turns, judge), _seeds(arguments))
        if arguments.spark and arguments.only in _MOVED_ON_SPARK:
            failed += _moved(_MOVED_ON_SPARK, _moving_on_spark(), _seeds(arguments))
    return int(failed > 0)


# By a word in the name of a check: what its histories have beside those of the others, made in this order.
_CHANGED: Mapping[str, Callable[[int, History], History]] = {
    "odd floats": with_odd_floats,
    "dynamic": with_dynamic_buckets,
    "postponed": with_postponed_buckets,
    "settings": with_settings,
    "changes": with_changes,
    "overwrites": partial(with_changes, verbs=JAVAS),
    "waiting": among_waiting_rows,
    "placed": with_placed_rows,
    "small files": with_small_files,
    "old rows": with_old_rows,
    "stored otherwise": stored_otherwise,
    "expired": with_expiry,
    "expire": partial(with_expiry, expires_changelogs=False),
}


def _changed(name: str, seed: int, history: History) -> History:
    words = [word for word in _CHANGED if re.search(rf"\b{word}\b", name)]
    for word in words:
        history = _CHANGED[word](seed, history)
    return history


def _judge(stack: ExitStack, version: str) -> Judge:
    prepare(version)
    return stack.enter_context(Judge(version))


def _checks(judges: Mapping[str, Judge]) -> dict[str, Check]:
    """Return every way to hold a history against others."""
    checks: dict[str, Check] = {
        "ours against the model": lambda history: against_model(OursInMemory(), history),
        "ours staged ahead": lambda history: against_model(OvertakingInMemory(_chance(history)), history),
        "ours together": lambda history: compacted_apart(OursInMemory(), TogetherInMemory(_chance(history)), history),
        "ours expired": partial(against_model, OursInMemory()),
        "ours staged, then expired": lambda history: against_model(OvertakingInMemory(_chance(history)), history),
        "ours, odd floats": partial(against_model, OursInMemory()),
        "ours, dynamic": partial(against_model, OursInMemory()),
        "ours staged ahead, dynamic": lambda history: against_model(OvertakingInMemory(_chance(history)), history),
        "ours, postponed": partial(against_model, OursInMemory()),
        "ours staged ahead, postponed": lambda history: against_model(OvertakingInMemory(_chance(history)), history),
        "ours, changes": partial(against_model, OursInMemory()),
        "ours staged ahead, changes": lambda history: against_model(OvertakingInMemory(_chance(history)), history),
        "ours staged ahead, changes, dynamic": lambda told: against_model(OvertakingInMemory(_chance(told)), told),
        "ours, changes, expired": partial(against_model, OursInMemory()),
        "ours, changes, stored otherwise": partial(against_model, OursInMemory()),
        "ours, changes, dynamic": partial(against_model, OursInMemory()),
        "ours, changes, postponed": partial(against_model, OursInMemory()),
        "ours, changes, postponed, waiting": partial(against_model, OursInMemory()),
        "ours staged ahead, changes, postponed, waiting": lambda told: against_model(
            OvertakingInMemory(_chance(told)), told
        ),
        "ours, settings": partial(against_model, OursInMemory()),
        "ours, settings, changes": partial(against_model, OursInMemory()),
        "ours, settings, changes, dynamic": partial(against_model, OursInMemory()),
        "ours, settings, changes, postponed": partial(against_model, OursInMemory()),
        "ours, settings, changes, postponed, waiting": partial(against_model, OursInMemory()),
        "ours, postponed, placed": partial(against_model, OursInMemory()),
        "ours, settings, changes, postponed, placed": partial(against_model, OursInMemory()),
        "ours, settings, changes, postponed, waiting, placed": partial(against_model, OursInMemory()),
        "ours staged ahead, changes, postponed, waiting, placed": lambda told: against_model(
            OvertakingInMemory(_chance(told)), told
        ),
        "ours, small files": partial(against_model, OursInMemory()),
        "ours staged ahead, changes, small files": lambda told: against_model(OvertakingInMemory(_chance(told)), told),
        "ours, settings, changes, small files": partial(against_model, OursInMemory()),
        "ours, settings, changes, dynamic, small files": partial(against_model, OursInMemory()),
        "ours, settings, changes, postponed, waiting, placed, small files": partial(against_model, OursInMemory()),
        "ours, old rows": partial(against_model, OursInMemory()),
        "ours, settings, changes, old rows": partial(against_model, OursInMemory()),
        "ours, settings, changes, dynamic, small files, old rows": partial(against_model, OursInMemory()),
        "ours, settings, changes, postponed, placed, old rows": partial(against_model, OursInMemory()),
    }
    for version, judge in judges.items():
        java = Java(judge)
        checks[f"Java {version} against the model"] = partial(against_model, java)
        checks[f"Java {version} writes, we read"] = partial(against_reader, java, Ours())
        checks[f"we write, Java {version} reads"] = partial(against_reader, Ours(), java)
        checks[f"we stage ahead, Java {version} reads"] = partial(_staged_ahead, java)
        checks[f"we write, Java {version} and we expire"] = partial(in_turns, Ours(), java)
        checks[f"Java {version} writes, we and it expire"] = partial(in_turns, java, Ours())
        checks[f"Java {version} against the model, dynamic"] = partial(against_model, java)
        checks[f"Java {version} writes, we read, dynamic"] = partial(against_reader, java, Ours())
        checks[f"we write, Java {version} reads, dynamic"] = partial(against_reader, Ours(), java)
        checks[f"Java {version} against the model, postponed"] = partial(against_model, java)
        checks[f"Java {version} writes, we read, postponed"] = partial(against_reader, java, Ours())
        checks[f"we write, Java {version} reads, postponed"] = partial(against_reader, Ours(), java)
        for kind in ("", ", dynamic", ", postponed"):
            checks[f"Java {version} writes, we read, overwrites{kind}"] = partial(against_reader, java, Ours())
            checks[f"we write, Java {version} reads, changes{kind}"] = partial(against_reader, Ours(), java)
            checks[f"Java {version} against the model, settings, overwrites{kind}"] = partial(against_model, java)
            checks[f"Java {version} writes, we read, settings, overwrites{kind}"] = partial(
                against_reader, java, Ours()
            )
            checks[f"we write, Java {version} reads, settings, changes{kind}"] = partial(against_reader, Ours(), java)
            checks[f"we write, Java {version} reads, settings, changes{kind}, small files"] = partial(
                against_reader, Ours(), java
            )
        checks[f"Java {version} writes, we and it expire, overwrites"] = partial(in_turns, java, Ours())
        checks[f"we write, Java {version} and we expire, changes"] = partial(in_turns, Ours(), java)
        if version == VERSIONS[-1]:
            for kind in ("", ", dynamic", ", postponed"):
                checks[f"Java {version} and we in turns, changes{kind}"] = partial(_in_turns, java)
            # What an older one writes otherwise depends on who wrote.
            checks[f"Java {version} and we in turns"] = partial(_in_turns, java)
            checks[f"Java {version} and we in turns, dynamic"] = partial(_in_turns, java)
            checks[f"Java {version} and we in turns, postponed"] = partial(_in_turns, java)
            # Older ones order NaN in sequence fields otherwise.
            checks[f"Java {version} against the model, odd floats"] = partial(against_model, java)
            checks[f"Java {version} writes odd floats, we read"] = partial(against_reader, java, Ours())
            checks[f"we write odd floats, Java {version} reads"] = partial(against_reader, Ours(), java)
    return checks


def _checks_on_spark() -> dict[str, Check]:
    """Return the checks of histories whose tasks run on Spark, all in one session."""
    # Spark is loaded for them only.
    from tests.differential.spark import STATED, OnSpark, session

    ours = OnSpark(session())
    return {f"ours on Spark, {kind}": partial(against_model, ours) for kind in STATED}


def _staged_ahead(java: Java, history: History) -> list[str]:
    return against_reader(Overtaking(_chance(history)), java, history)


def _in_turns(java: Java, history: History) -> list[str]:
    ours = Ours()
    return against_reader(InTurns(java, ours, _chance(history)), ours, history)


def _chance(history: History) -> int:
    """Return a seed that a history brings along, the same each time it is carried out."""
    return crc32(history.text().encode())


def _ran(name: str, check: Check, histories: Iterable[tuple[int, History]]) -> int:
    """Run a check over histories, print each failure made small; return how many failed."""
    began, count, failed = time.monotonic(), 0, 0
    for seed, history in histories:
        count += 1
        if found := failure(name, check, seed, history):
            failed += 1
            print(found, flush=True)
    print(f"{name}: {count - failed} of {count} histories agree, {time.monotonic() - began:.0f} s", flush=True)
    return failed


def _seeds(arguments: argparse.Namespace) -> range:
    return range(arguments.start, arguments.start + arguments.seeds)


def _moved(name: str, run: Callable[[Path, int], None], seeds: Sequence[int]) -> int:
    """Run histories of tables whose keys move between partitions; return how many failed.

    They have a model of their own, and are not made small: a failure is told with what was done.
    """
    began, failed = time.monotonic(), 0
    for seed in seeds:
        with TemporaryDirectory(prefix="differential-") as folder:
            try:
                run(Path(folder), seed)
            except (AssertionError, JudgeError, LakehouseError) as error:
                failed += 1
                engine = "--spark " if "on Spark" in name else ""
                again = f'{sys.executable} -m tests.differential {engine}--only "{name}" --start {seed} --seeds 1'
                print(f"{name}, seed {seed}:", error, *error.__notes__, f"again: {again}", sep="\n  ", flush=True)
    count = len(seeds)
    print(f"{name}: {count - failed} of {count} histories agree, {time.monotonic() - began:.0f} s", flush=True)
    return failed


def _moved_in_turns(judge: Judge, folder: Path, seed: int) -> None:
    engine, options = KINDS[seed % len(KINDS)]
    write_in_turns(interop.Java(judge, folder), folder, engine, options, seed)


def _moving_on_spark() -> Callable[[Path, int], None]:
    # Spark is loaded for them only.
    from tests.differential.spark import MOVING, run_moving_keys, session

    spark = session()

    def run(folder: Path, seed: int) -> None:
        engine, options = MOVING[seed % len(MOVING)]
        run_moving_keys(spark, folder, engine, seed, **options)

    return run


def _replayed(checks: dict[str, Check], history: History) -> int:
    found = {name: check(history) for name, check in checks.items()}
    for name, differences in found.items():
        print(f"{name}:", *(differences or ["agrees"]), sep="\n  ")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
