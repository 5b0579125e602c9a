"""Ours against the row-wise model: rows at every snapshot and the changelog of every commit, over random histories."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.differential.changes import among_waiting_rows, with_changes
from tests.differential.compare import against_model, compacted_apart, failure
from tests.differential.executors import OursInMemory, OvertakingInMemory, TogetherInMemory
from tests.differential.generate import (
    ENGINES,
    generate,
    histories,
    stored_otherwise,
    with_dynamic_buckets,
    with_expiry,
    with_odd_floats,
    with_postponed_buckets,
)
from tests.differential.settings import with_old_rows, with_placed_rows, with_settings, with_small_files
from tests.differential.shrink import shrunk
from tests.oracle.history import History, Replay, Trace
from tests.oracle.statements import ROW_CHANGES, STATEMENTS

HISTORIES, SHARE = 1000, 12
# One share of each kind is enough for each run of `make test`; `make test-long` takes the others.
# Made small by `make differential`, named after the rule that was broken.
CASES = Path(__file__).parent / "cases"
WANTED = """
deduplicate partial-update aggregation first-row none input lookup full-compaction sum product min max
last_value last_non_null_value first_value first_non_null_value bool_and bool_or listagg collect merge_map
nested_update nested_partial_update sequence-group ignore-retract distinct count-limit ignore-delete
remove-record-on-delete remove-record-on-sequence-group row-deduplicate row-deduplicate-ignore-fields
sort-order enabled write-only
"""


def shares(count: int) -> list[Any]:
    """Return the numbers of `count` shares of histories, of which `make test` takes the first."""
    return [pytest.param(share, marks=[pytest.mark.long] * (share > 0)) for share in range(count)]


def of_share(first_seed: int, share: int, count: int) -> Iterator[tuple[int, History]]:
    """Yield the `count` histories of a share with their seeds: two shares from each hundred thousandth seed on."""
    return histories(first_seed + share // 2 * 100_000 + share % 2 * count, count)


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(HISTORIES // SHARE))
def test_ours_shows_what_the_model_shows(share: int) -> None:
    for seed, history in of_share(0, share, SHARE):
        found = failure("ours against the model", lambda history: against_model(OursInMemory(), history), seed, history)

        assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(16))
def test_how_rows_are_stored_and_buffered_changes_no_answer(share: int) -> None:
    # Where the buffer is small, each pair of rows waits on disk as a run of its own.
    ours = OursInMemory(given=lambda rows: pa.Table.from_batches(rows.to_batches(max_chunksize=2), rows.schema))

    for seed, history in of_share(50_000_000, share, SHARE):
        otherwise = stored_otherwise(seed, history)
        found = failure("ours stored otherwise", lambda other: against_model(ours, other), seed, otherwise)

        assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(16))
def test_who_staged_first_changes_no_answer(share: int) -> None:
    """Writers stage at one snapshot and commit one after the other: the rows are those of writes in that order."""
    for seed, history in of_share(60_000_000, share, SHARE // 2):
        found = failure(
            "ours staged ahead",
            lambda history, seed=seed: against_model(OvertakingInMemory(seed), history),
            seed,
            history,
        )

        assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(16))
def test_what_is_committed_together_is_what_is_committed_one_after_the_other(share: int) -> None:
    for seed, history in of_share(90_000_000, share, SHARE // 2):
        found = failure(
            "ours together",
            lambda history, seed=seed: compacted_apart(OursInMemory(), TogetherInMemory(seed), history),
            seed,
            history,
        )

        assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(40))
def test_expiry_leaves_what_its_roots_keep_and_changes_no_answer(share: int) -> None:
    """Snapshots, tags and changelogs that outlive theirs show the same before and after; nothing else is left."""
    for seed, plain in of_share(70_000_000, share, SHARE // 5):
        history = with_expiry(seed, plain)
        # Writers may have staged before an expiry what they commit after it.
        for name, ours in (("ours expired", OursInMemory()), ("ours staged, then expired", OvertakingInMemory(seed))):
            found = failure(name, lambda other, ours=ours: against_model(ours, other), seed, history)

            assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(32))
def test_numbers_that_are_none_are_merged_and_told_as_the_model_does(share: int) -> None:
    for seed, plain in of_share(80_000_000, share, SHARE // 2):
        history = with_odd_floats(seed, plain)
        found = failure("ours, odd floats", lambda other: against_model(OursInMemory(), other), seed, history)

        assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(32))
def test_keys_of_dynamic_buckets_stay_where_they_are_whoever_staged_first(share: int) -> None:
    """Each key is in one bucket, which its index names; rows and changes are those of the model."""
    for seed, plain in of_share(110_000_000, share, SHARE // 4):
        history = with_dynamic_buckets(seed, plain)
        for name, ours in (
            ("ours, dynamic", OursInMemory()),
            ("ours staged ahead, dynamic", OvertakingInMemory(seed)),
        ):
            found = failure(name, lambda other, ours=ours: against_model(ours, other), seed, history)

            assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(32))
def test_rows_that_wait_for_their_buckets_are_merged_as_one_write_by_the_next_compaction(share: int) -> None:
    """Whoever staged first: rows and changes are those of the model, which moves them in the order of the commits."""
    for seed, plain in of_share(120_000_000, share, SHARE // 4):
        history = with_postponed_buckets(seed, plain)
        for name, ours in (
            ("ours, postponed", OursInMemory()),
            ("ours staged ahead, postponed", OvertakingInMemory(seed)),
        ):
            found = failure(name, lambda other, ours=ours: against_model(ours, other), seed, history)

            assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(180))
def test_statements_leave_what_the_model_says_whatever_was_before_and_comes_after(share: int) -> None:
    """Overwrites, removals, rescales and row changes: rows, changes, and which files come and go."""
    for seed, plain in of_share(130_000_000, share, SHARE // 12):
        changed = with_changes(seed, plain)
        dynamic = with_changes(seed, with_dynamic_buckets(seed, plain))
        postponed = with_changes(seed, with_postponed_buckets(seed, plain))
        waiting = among_waiting_rows(seed, postponed)
        ways: list[tuple[str, History, OursInMemory]] = [
            ("ours, changes", changed, OursInMemory()),
            ("ours staged ahead, changes", changed, OvertakingInMemory(seed)),
            ("ours, changes, dynamic", dynamic, OursInMemory()),
            ("ours staged ahead, changes, dynamic", dynamic, OvertakingInMemory(seed)),
            ("ours, changes, postponed", postponed, OursInMemory()),
            ("ours, changes, expired", with_expiry(seed, changed), OursInMemory()),
            ("ours, changes, stored otherwise", stored_otherwise(seed, changed), OursInMemory()),
            ("ours, changes, postponed, waiting", waiting, OursInMemory()),
            ("ours staged ahead, changes, postponed, waiting", waiting, OvertakingInMemory(seed)),
            (
                "ours staged ahead, changes, postponed, waiting, placed",
                with_placed_rows(seed, waiting),
                OvertakingInMemory(seed),
            ),
        ]
        # A third of them; the next history takes the next third.
        for name, history, ours in ways[seed % 3 :: 3]:
            found = failure(name, lambda other, ours=ours: against_model(ours, other), seed, history)

            assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(120))
def test_options_that_move_compactions_or_change_reads_lead_to_what_the_model_says(share: int) -> None:
    for seed, plain in of_share(140_000_000, share, SHARE // 6):
        settings = with_settings(seed, plain)
        dynamic = with_settings(seed, with_dynamic_buckets(seed, plain))
        postponed = with_settings(seed, with_postponed_buckets(seed, plain))
        waiting = among_waiting_rows(seed, with_changes(seed, postponed))
        ways = [
            ("ours, settings", settings),
            ("ours, settings, changes", with_changes(seed, settings)),
            ("ours, settings, postponed", postponed),
            ("ours, settings, changes, dynamic", with_changes(seed, dynamic)),
            ("ours, settings, changes, postponed", with_changes(seed, postponed)),
            ("ours, settings, changes, postponed, waiting", waiting),
            (
                "ours, settings, changes, postponed, placed",
                with_placed_rows(seed, with_changes(seed, postponed)),
            ),
            ("ours, settings, changes, postponed, waiting, placed", with_placed_rows(seed, waiting)),
        ]
        # A third of them; the next history takes the next third.
        for name, history in ways[seed % 3 :: 3]:
            found = failure(name, lambda other: against_model(OursInMemory(), other), seed, history)

            assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(60))
def test_in_how_many_files_the_rows_of_a_bucket_are_changes_no_answer(share: int) -> None:
    for seed, plain in of_share(150_000_000, share, SHARE // 6):
        dynamic = with_settings(seed, with_dynamic_buckets(seed, plain))
        postponed = with_settings(seed, with_postponed_buckets(seed, plain))
        waiting = among_waiting_rows(seed, with_changes(seed, postponed))
        ways: list[tuple[str, History, OursInMemory]] = [
            ("ours, small files", plain, OursInMemory()),
            ("ours staged ahead, changes, small files", with_changes(seed, plain), OvertakingInMemory(seed)),
            ("ours, settings, changes, small files", with_changes(seed, with_settings(seed, plain)), OursInMemory()),
            ("ours, settings, changes, dynamic, small files", with_changes(seed, dynamic), OursInMemory()),
            (
                "ours, settings, changes, postponed, waiting, placed, small files",
                with_placed_rows(seed, waiting),
                OursInMemory(),
            ),
        ]
        # One of them; each history takes the next one.
        name, history, ours = ways[seed % len(ways)]
        small = with_small_files(seed, history)
        found = failure(name, lambda other, ours=ours: against_model(ours, other), seed, small)

        assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(60))
def test_compactions_drop_the_rows_that_are_too_old_and_no_other(share: int) -> None:
    for seed, plain in of_share(160_000_000, share, SHARE // 6):
        dynamic = with_changes(seed, with_settings(seed, with_dynamic_buckets(seed, plain)))
        postponed = with_changes(seed, with_settings(seed, with_postponed_buckets(seed, plain)))
        ways = [
            ("ours, old rows", plain),
            ("ours, settings, changes, old rows", with_changes(seed, with_settings(seed, plain))),
            ("ours, settings, changes, dynamic, small files, old rows", with_small_files(seed, dynamic)),
            ("ours, settings, changes, postponed, placed, old rows", with_placed_rows(seed, postponed)),
        ]
        # One of them; each history takes the next one.
        name, history = ways[seed % len(ways)]
        old = with_old_rows(seed, history)
        found = failure(name, lambda other: against_model(OursInMemory(), other), seed, old)

        assert found is None, found


@pytest.mark.parametrize("case", sorted(CASES.glob("*.json")), ids=lambda case: case.stem)
def test_a_history_that_once_failed_fails_no_more(case: Path) -> None:
    assert against_model(OursInMemory(), History.of(json.loads(case.read_text()))) == []


def test_histories_have_every_engine_producer_and_function() -> None:
    seen = Counter()
    for seed in range(1000):
        options = generate(seed).options
        seen[options.get("merge-engine", "deduplicate")] += 1
        seen[options.get("changelog-producer", "none")] += 1
        for key, value in options.items():
            ending = key.rpartition(".")[2]
            seen[value if ending == "aggregate-function" else ending] += 1

    wanted = re.findall(r"\S+", WANTED)
    assert {name: seen[name] for name in wanted if seen[name] < 5} == {}


def test_histories_with_statements_have_every_verb_in_tables_of_every_engine() -> None:
    seen = Counter(
        (history.options.get("merge-engine", "deduplicate"), operation["verb"])
        for seed, plain in histories(0, 1000)
        for history in [with_changes(seed, plain)]
        for operation in history.operations
    )
    legal = {(engine, verb) for engine in ENGINES for verb in STATEMENTS}
    # Such tables take no updates, and replace whole partitions only.
    legal -= {("aggregation", "update"), ("first-row", "update")}

    assert {pair: seen[pair] for pair in legal if seen[pair] < 5} == {}


def test_histories_among_waiting_rows_have_every_row_change_while_rows_wait() -> None:
    seen: Counter[str] = Counter()
    for seed, plain in histories(0, 400):
        history = among_waiting_rows(seed, with_changes(seed, with_postponed_buckets(seed, plain)))
        waits = False
        for operation in history.operations:
            verb = operation["verb"]
            seen[verb] += waits and verb in ROW_CHANGES
            waits = verb == "write" or (waits and verb in (*ROW_CHANGES, "alter"))

    assert {verb: seen[verb] for verb in ROW_CHANGES if seen[verb] < 10} == {}


def test_a_history_is_plain_data() -> None:
    history = generate(7)

    assert History.of(history.to_json()) == history == generate(7)


def first_told(**changes: str) -> tuple[History, Trace]:
    """Return a history whose last write is shown, and what ours made of it."""
    for _, history in histories(0, 100):
        changed = replace(history, options={**history.options, **changes})
        trace = OursInMemory().run(changed, "")
        if trace.refused is None and any(step.rows and step.changes for steps in trace.operations for step in steps):
            return changed, trace
    raise AssertionError("no history shows a row")


def test_a_row_or_a_change_that_is_missing_is_told() -> None:
    history, trace = first_told()
    assert Replay(history).differences(trace) == []

    for name in ("rows", "changes"):
        spoiled = [
            [replace(step, **{name: getattr(step, name)[1:]}) if getattr(step, name) else step for step in steps]
            for steps in trace.operations
        ]
        assert any(name in text for text in Replay(history).differences(Trace(spoiled)))


def test_histories_with_expiry_have_every_root() -> None:
    seen: Counter[str] = Counter()
    roots = ("expired", "changelogs", "tags", "held back")
    for seed, plain in histories(70_000_000, 12):
        if all(seen[name] for name in roots):
            break
        history = with_expiry(seed, plain)
        trace = OursInMemory().run(history, "")
        last = trace.views[-1] if trace.views else None
        if last is None or trace.refused is not None:
            continue
        seen["expired"] += sum(step.has_expired for steps in trace.operations for step in steps)
        seen["changelogs"] += len(last.changes.keys() - last.rows.keys())
        seen["tags"] += len(last.tagged)
        seen["held back"] += sum(
            len(view.rows) > operation["retainMax"]
            for view in trace.views
            for operation in history.operations[view.operations - 1 : view.operations]
            if operation["verb"] == "expire"
        )

    assert [name for name in roots if not seen[name]] == []


def test_a_key_in_two_dynamic_buckets_and_one_that_moved_are_told() -> None:
    for seed, plain in histories(110_000_000, 20):
        history = with_dynamic_buckets(seed, plain)
        trace = OursInMemory().run(history, "")
        *_, last = [step for steps in trace.operations for step in steps]
        indexes = last.indexes or {}
        filled = [place for place, hashes in indexes.items() if hashes]
        if trace.refused is None and len(filled) > 1 and filled[0][0] == filled[1][0]:
            break
    assert Replay(history).differences(trace) == []
    first, second = filled[:2]
    doubled = {**indexes, second: [*indexes[second], indexes[first][0]]}
    swapped = {**indexes, first: indexes[second], second: indexes[first]}

    for spoiled, what in ((doubled, "is in the indexes of buckets"), (swapped, "came from bucket")):
        operations = [
            [replace(step, indexes=spoiled) if step is last else step for step in steps] for steps in trace.operations
        ]
        assert what in Replay(history).differences(replace(trace, operations=operations))[0]


def test_a_row_that_waits_and_is_lost_or_told_twice_is_told() -> None:
    history = with_postponed_buckets(3, first_told(**{"changelog-producer": "input"})[0])
    trace = OursInMemory().run(history, "")
    assert Replay(history).differences(trace) == []
    (place, moved) = next(
        ((number, at), step)
        for number, steps in enumerate(trace.operations)
        for at, step in enumerate(steps)
        if step.kind == "COMPACT" and step.rows and step.changes
    )

    for name, spoiled in (("rows", moved.rows[1:]), ("changes", [*moved.changes, *moved.changes])):
        operations = [list(steps) for steps in trace.operations]
        operations[place[0]][place[1]] = replace(moved, **{name: spoiled})
        assert any(name in text for text in Replay(history).differences(replace(trace, operations=operations)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", ["rows", "changes", "tagged"])
def test_what_an_expiry_took_too_much_or_left_is_told(what: str) -> None:
    for seed, plain in histories(70_000_000, 12):
        history = with_expiry(seed, plain)
        trace = OursInMemory().run(history, "")
        if not trace.views or not getattr(trace.views[-1], what):
            continue
        *views, last = trace.views
        less = dict(list(getattr(last, what).items())[1:])

        told = Replay(history).differences(replace(trace, views=[*views, replace(last, **{what: less})]))

        assert any("to be read" in text for text in told)
        return
    raise AssertionError(f"no history has {what} at its end")


def test_a_file_that_a_statement_leaves_or_takes_too_much_is_told() -> None:
    for seed, plain in histories(130_000_000, 40):
        history = with_changes(seed, plain, verbs=("drop", "delete", "overwrite"))
        trace = OursInMemory().run(history, "")
        steps = [step for steps in trace.operations for step in steps]
        last = next((step for step in reversed(steps) if step.kind == "OVERWRITE" and step.removed), None)
        if last is not None and trace.refused is None:
            break
    assert last is not None
    assert Replay(history).differences(trace) == []

    operations = [[replace(step, removed={}) if step is last else step for step in steps] for steps in trace.operations]
    with pytest.raises(AssertionError, match="in the model"):
        Replay(history).differences(replace(trace, operations=operations))


def test_a_refusal_without_a_reason_is_told() -> None:
    history, trace = first_told()

    told = Replay(history).differences(Trace(trace.operations[:-1], "no"))

    assert [text.splitlines()[0] for text in told] == ["refused: no"]


def test_a_failing_history_becomes_small() -> None:
    history = next(h for h in map(generate, range(100)) if sum(o["verb"] == "write" for o in h.operations) > 2)

    def fails(smaller: History) -> bool:
        return any(operation.get("rows") for operation in smaller.operations)

    small = shrunk(history, fails)

    assert [len(operation["rows"]) for operation in small.operations] == [1]
    assert dict(small.options) == {}
    assert {each["name"] for each in small.fields} == set(small.primary_keys)
