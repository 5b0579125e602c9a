"""What the universal strategy picks: the cases of the specification as text, and what Java 1.4.2 picks at random."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.options import CompactionOptions, TableOptions
from lakehouse_core.planning.compaction.universal import Pick, PickTime, last_full_compaction_millis, pick_runs
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import Levels, LevelSortedRun
from lakehouse_core.table.sorted_run import KeyedFile, SortedRun

HERE = Path(__file__).parent
HOUR = 3_600_000
NOON = PickTime(local_now_millis=12 * HOUR)


def run(text: str, number: int = 0) -> LevelSortedRun:
    """`level:bytes`, with `*n` behind it when the bytes are those of n files."""
    level, _, rest = text.partition(":")
    size, _, count = rest.partition("*")
    sizes = [int(size) - (int(count or 1) - 1)] + [1] * (int(count or 1) - 1)
    files = [
        DataFile(
            file_name=f"{number}-{index}",
            file_size=one,
            row_count=1,
            min_sequence_number=0,
            max_sequence_number=0,
            schema_id=0,
            level=int(level),
        )
        for index, one in enumerate(sizes)
    ]
    return LevelSortedRun(int(level), SortedRun(tuple(KeyedFile(file, (0,), (0,)) for file in files)))


def runs(text: str) -> tuple[LevelSortedRun, ...]:
    return tuple(run(one, number) for number, one in enumerate(text.split()))


def shown(pick: Pick | None, runs: str) -> str:
    if pick is None:
        return "nothing"
    return f"{' '.join(runs.split()[: len(pick.runs)])} -> L{pick.output_level} ({pick.reason})"


def settings(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split())


def cases() -> Iterator[Any]:
    """Blocks of `options` lines, each for the `runs` and `pick` lines below it."""
    options: dict[str, str] = {}
    given = comment = ""
    for number, line in enumerate((HERE / "universal_cases.txt").read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        match word:
            case "#":
                comment = rest
            case "options":
                options = settings(rest)
            case "runs":
                given = rest.strip()
            case "pick":
                yield pytest.param(options, given, rest.strip(), id=f"{number}: {comment}")
            case _:
                assert not line, line


@pytest.mark.parametrize(("options", "given", "expected"), list(cases()))
def test_the_strategy_picks(options, given, expected):
    chosen = CompactionOptions(
        trigger_run_count=int(options["trigger"]),
        max_size_amplification_percent=int(options["amp"]),
        size_ratio_percent=int(options["ratio"]),
        forces_level_0=options.get("force") == "yes",
        gentle_trigger_count=int(options["gentle"]) if "gentle" in options else None,
        offpeak_start_hour=int(options.get("offpeak", "-1..-1").split("..")[0]),
        offpeak_end_hour=int(options.get("offpeak", "-1..-1").split("..")[1]),
        offpeak_ratio_percent=int(options.get("offpeak-ratio", 0)),
        full_interval_millis=int(options["interval"]) * HOUR if "interval" in options else None,
        total_size_threshold_bytes=int(options["total"]) if "total" in options else None,
        incremental_size_threshold_bytes=int(options["increment"]) if "increment" in options else None,
    )
    occasion = PickTime(
        local_now_millis=int(options.get("hour", 12)) * HOUR,
        last_full_millis=int(options["full-at"]) * HOUR if "full-at" in options else None,
        skipped_triggers=int(options.get("skipped", 0)),
    )

    assert shown(pick_runs(Levels(runs(given), int(options["levels"])), chosen, occasion), given) == expected


def java_state(line: str) -> tuple[Levels, CompactionOptions, PickTime, str]:
    """Parse a line of the table that `java_picks/CompactionPicks.java` explains."""
    head, given, pick = (part.strip() for part in line.split("|"))
    said = settings(head)
    options = CompactionOptions(
        trigger_run_count=int(said["T"]),
        max_size_amplification_percent=int(said["amp"]),
        size_ratio_percent=int(said["ratio"]),
        total_size_threshold_bytes=None if said["total"] == "-" else int(said["total"]),
        incremental_size_threshold_bytes=None if said["incr"] == "-" else int(said["incr"]),
        forces_level_0=said["force"] != "-",
    )
    occasion = NOON
    if said["off"] != "-":
        hours, _, rest = said["off"].partition("+")
        ratio, _, hour = rest.partition("@")
        start, _, end = hours.partition("..")
        options = replace(
            options,
            offpeak_start_hour=int(start),
            offpeak_end_hour=int(end),
            offpeak_ratio_percent=int(ratio),
        )
        occasion = PickTime(local_now_millis=int(hour) * HOUR)
    if said["full"] != "-":
        interval, _, elapsed = said["full"].partition("@")
        options = replace(options, full_interval_millis=int(interval))
        if elapsed != "never":
            occasion = replace(occasion, last_full_millis=occasion.local_now_millis - int(elapsed))
    if "/" in said["force"]:
        gentle, _, skipped = said["force"].partition("/")
        options = replace(options, gentle_trigger_count=int(gentle))
        occasion = replace(occasion, skipped_triggers=int(skipped))
    return Levels(runs(given), int(said["levels"])), options, occasion, pick


def test_ten_thousand_states_are_picked_as_java_picks_them():
    lines = gzip.decompress((HERE / "java_picks" / "picks-1.4.2.txt.gz").read_bytes()).decode().splitlines()
    wrong = []
    for line in lines:
        levels, options, occasion, expected = java_state(line)
        pick = pick_runs(levels, options, occasion)
        found = "-" if pick is None else f"{len(pick.runs)} {pick.output_level}"
        if found != expected:
            wrong.append(f"{line}: found {found}")

    assert len(lines) == 10_000
    assert wrong == []


def test_amplification_alone_rewrites_a_growing_bucket_ever_more_rarely():
    """The sequence of the specification: at most 25 % on top, and each step a new run of size 1."""
    options = CompactionOptions(trigger_run_count=1, max_size_amplification_percent=25)
    sizes, history = [1], []
    for _ in range(10):
        sizes = [1, *sizes]
        text = " ".join(f"{5 if index == len(sizes) - 1 else 0}:{size}" for index, size in enumerate(sizes))
        pick = pick_runs(Levels(runs(text), 6), options, NOON)
        if pick is not None and pick.reason == "size amplification":
            sizes = [sum(sizes)]
        history.append(sizes)

    assert history == [[2], [3], [4], [1, 4], [6], [1, 6], [8], [1, 8], [1, 1, 8], [11]]


@st.composite
def states(draw: st.DrawFn) -> Levels:
    sizes = st.integers(0, 2000)
    level_0 = [f"0:{draw(sizes)}" for _ in range(draw(st.integers(0, 6)))]
    above = [f"{level}:{draw(sizes)}" for level in range(1, 6) if draw(st.booleans())]
    return Levels(runs(" ".join(level_0 + above)), 6)


@st.composite
def strategies(draw: st.DrawFn) -> CompactionOptions:
    return CompactionOptions(
        trigger_run_count=draw(st.integers(1, 6)),
        max_size_amplification_percent=draw(st.integers(0, 400)),
        size_ratio_percent=draw(st.integers(0, 200)),
        total_size_threshold_bytes=draw(st.none() | st.integers(0, 3000)),
        incremental_size_threshold_bytes=draw(st.none() | st.integers(0, 3000)),
        full_interval_millis=draw(st.none() | st.just(0)),
        forces_level_0=draw(st.booleans()),
    )


@given(states(), strategies())
def test_a_pick_takes_the_newest_runs_to_where_nothing_older_is_passed_and_picks_come_to_an_end(levels, options):
    for _ in range(len(levels.runs) + 1):
        pick = pick_runs(levels, options, NOON)
        if pick is None:
            break
        rest = levels.runs[len(pick.runs) :]
        assert pick.runs == levels.runs[: len(pick.runs)]
        assert max(1, *(one.level for one in pick.runs)) <= pick.output_level <= levels.max_level
        assert all(one.level > pick.output_level for one in rest)
        size = sum(one.run.size_bytes for one in pick.runs)
        levels = Levels((run(f"{pick.output_level}:{size}"), *rest), levels.level_count)

    assert pick_runs(levels, options, NOON) is None


def test_the_last_full_compaction_is_the_newest_file_of_the_top_level():
    bottom = run("5:10*2")
    files = tuple(
        KeyedFile(replace(keyed.file, creation_time_millis=time), (0,), (0,))
        for keyed, time in zip(bottom.run.files, (700, 900), strict=True)
    )

    assert last_full_compaction_millis(Levels((run("0:1"), LevelSortedRun(5, SortedRun(files))), 6)) == 900
    assert last_full_compaction_millis(Levels((run("0:1"), run("4:1")), 6)) is None


def test_options_of_a_table_say_how_the_strategy_picks():
    parsed = TableOptions.parse(
        {
            "num-sorted-run.compaction-trigger": "4",
            "compaction.size-ratio": "7",
            "compaction.optimization-interval": "1 h",
            "compaction.total-size-threshold": "1 kb",
            "changelog-producer": "lookup",
            "lookup-compact": "gentle",
            "lookup-compact.max-interval": "2",
        }
    ).compaction

    assert parsed == CompactionOptions(
        trigger_run_count=4,
        stop_run_count=7,
        size_ratio_percent=7,
        full_interval_millis=HOUR,
        total_size_threshold_bytes=1024,
        forces_level_0=True,
        gentle_trigger_count=4,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row"},
        {"force-lookup": "true"},
        {"compaction.force-up-level-0": "true"},
    ],
    ids=str,
)
def test_level_0_is_forced_up_where_a_lookup_needs_it_or_the_table_says_so(options):
    assert TableOptions.parse(options).compaction.forces_level_0
    assert TableOptions.parse(options).compaction.gentle_trigger_count is None


def test_gentle_is_for_lookups_only_and_every_ten_triggers_unless_told():
    gentle = {"lookup-compact": "gentle"}

    assert TableOptions.parse({**gentle, "force-lookup": "true"}).compaction.gentle_trigger_count == 10
    assert TableOptions.parse({**gentle, "compaction.force-up-level-0": "true"}).compaction.gentle_trigger_count is None
