"""Real Java against the model, and both ways between Java and us: random histories, the same on every run."""

import json
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from tests.differential.changes import JAVAS, with_changes
from tests.differential.compare import Check, against_model, against_reader, failure, in_turns
from tests.differential.executors import Executor, InTurns, Java, Ours
from tests.differential.generate import (
    histories,
    with_dynamic_buckets,
    with_expiry,
    with_odd_floats,
    with_postponed_buckets,
)
from tests.differential.settings import with_settings, with_small_files
from tests.interop.judge import VERSIONS, Judge
from tests.oracle.history import History
from tests.oracle.statements import STATEMENTS
from tests.oracle.table import TELLS_SAME_ARRAYS

pytestmark = pytest.mark.interop

SHARES, SHARE = 5, 20
CASES = Path(__file__).parent / "cases"


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Iterator[Java]:
    with Judge(request.param) as judge:
        yield Java(judge)


@pytest.fixture(scope="module", params=VERSIONS[-1:])
def newest(request: pytest.FixtureRequest) -> Iterator[Java]:
    """Older ones order NaN in sequence fields otherwise."""
    with Judge(request.param) as judge:
        yield Java(judge)


def check_both_ways(java: Java, seed: int, history: History, *, kind: str = "") -> None:
    """Check that each of Java and us shows what the other wrote."""
    ours = Ours()
    for name, writer, reader in (
        (f"Java {java.version} writes, we read{kind}", java, ours),
        (f"we write, Java {java.version} reads{kind}", ours, java),
    ):
        found = failure(
            name, lambda told, writer=writer, reader=reader: against_reader(writer, reader, told), seed, history
        )

        assert found is None, found


@pytest.mark.parametrize("share", range(SHARES))
def test_the_model_shows_what_java_shows(java: Java, share: int) -> None:
    for seed, history in histories(share * SHARE, SHARE):
        found = failure(
            f"Java {java.version} against the model", lambda history: against_model(java, history), seed, history
        )

        assert found is None, found


def test_java_tells_an_update_that_leaves_an_array_with_a_null_as_it_was(java: Java) -> None:
    history = History.of(json.loads((CASES / "row-deduplicate-array-with-a-null.json").read_text()))
    as_the_option_says = copy(java)
    as_the_option_says.quirks = java.quirks - {TELLS_SAME_ARRAYS}

    assert against_model(java, history) == []
    (difference,) = against_model(as_the_option_says, history)
    assert "-U" in difference.partition("model:")[0]
    assert difference.endswith("model: []")


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_read_what_the_other_wrote(java: Java, share: int) -> None:
    for seed, history in histories(share * 100_000, SHARE // 2):
        check_both_ways(java, seed, history)


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_expire_in_turns_and_show_the_same(java: Java, share: int) -> None:
    ours = Ours()
    for seed, plain in histories(200 + share * 100_000, SHARE // 4):
        history = with_expiry(seed, plain, expires_changelogs=False)
        for name, writer, other in (
            (f"Java {java.version} writes, we and it expire", java, ours),
            (f"we write, Java {java.version} and we expire", ours, java),
        ):
            found = failure(name, lambda told, writer=writer, other=other: in_turns(writer, other, told), seed, history)

            assert found is None, found


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_show_numbers_that_are_none_as_the_model_does(newest: Java, share: int) -> None:
    java, ours = newest, Ours()
    for seed, plain in histories(share * 100_000, SHARE // 4):
        history = with_odd_floats(seed, plain)
        for name, check in (
            (f"Java {java.version} against the model, odd floats", lambda told: against_model(java, told)),
            (f"Java {java.version} writes odd floats, we read", lambda told: against_reader(java, ours, told)),
            (f"we write odd floats, Java {java.version} reads", lambda told: against_reader(ours, java, told)),
        ):
            found = failure(name, check, seed, history)

            assert found is None, found


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_read_the_dynamic_buckets_of_the_other(java: Java, share: int) -> None:
    for seed, plain in histories(300 + share * 100_000, SHARE // 4):
        check_both_ways(java, seed, with_dynamic_buckets(seed, plain), kind=", dynamic")


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_move_the_waiting_rows_of_the_other(java: Java, share: int) -> None:
    for seed, plain in histories(500 + share * 100_000, SHARE // 4):
        check_both_ways(java, seed, with_postponed_buckets(seed, plain), kind=", postponed")


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_read_what_the_other_put_in_the_place_of_rows(java: Java, share: int) -> None:
    """Both overwrite, drop partitions and truncate; we also rescale, delete, update and merge."""
    ours = Ours()
    for seed, plain in histories(600 + share * 100_000, SHARE // 10):
        for kind, history in kinds(seed, plain):
            for name, writer, reader, verbs in (
                (f"Java {java.version} writes, we read, overwrites{kind}", java, ours, JAVAS),
                (f"we write, Java {java.version} reads, changes{kind}", ours, java, STATEMENTS),
            ):
                changed = with_changes(seed, history, verbs=verbs)
                found = failure(
                    name, lambda told, writer=writer, reader=reader: against_reader(writer, reader, told), seed, changed
                )

                assert found is None, found


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_do_the_same_by_options_of_compactions_reads_and_overwrites(java: Java, share: int) -> None:
    ours = Ours()
    for seed, plain in histories(900 + share * 100_000, SHARE // 10):
        for kind, history in kinds(seed, plain):
            settings = with_settings(seed, history)
            overwrites, changes = with_changes(seed, settings, verbs=JAVAS), with_changes(seed, settings)
            for name, check, told in (
                (f"Java {java.version} against the model, settings, overwrites{kind}", model_of(java), overwrites),
                (f"Java {java.version} writes, we read, settings, overwrites{kind}", between(java, ours), overwrites),
                (f"we write, Java {java.version} reads, settings, changes{kind}", between(ours, java), changes),
                (
                    f"we write, Java {java.version} reads, settings, changes{kind}, small files",
                    between(ours, java),
                    with_small_files(seed, changes),
                ),
            ):
                found = failure(name, check, seed, told)

                assert found is None, found


def model_of(engine: Executor) -> Check:
    return lambda told: against_model(engine, told)


def between(writer: Executor, reader: Executor) -> Check:
    return lambda told: against_reader(writer, reader, told)


@pytest.mark.parametrize("share", range(SHARES))
def test_java_goes_on_with_tables_whose_rows_and_buckets_we_changed(newest: Java, share: int) -> None:
    ours = Ours()
    for seed, plain in histories(700 + share * 100_000, SHARE // 5):
        for kind, history in kinds(seed, plain):
            found = failure(
                f"Java {newest.version} and we in turns, changes{kind}",
                lambda told, seed=seed: against_reader(InTurns(newest, ours, seed), ours, told),
                seed,
                with_changes(seed, history),
            )

            assert found is None, found


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_expire_what_statements_left(java: Java, share: int) -> None:
    ours = Ours()
    for seed, plain in histories(800 + share * 100_000, SHARE // 10):
        for name, writer, other, verbs in (
            (f"Java {java.version} writes, we and it expire, overwrites", java, ours, JAVAS),
            (f"we write, Java {java.version} and we expire, changes", ours, java, STATEMENTS),
        ):
            history = with_expiry(seed, with_changes(seed, plain, verbs=verbs), expires_changelogs=False)
            found = failure(name, lambda told, writer=writer, other=other: in_turns(writer, other, told), seed, history)

            assert found is None, found


def kinds(seed: int, plain: History) -> list[tuple[str, History]]:
    """Return the history in a table with fixed, dynamic and postponed buckets."""
    dynamic, postponed = with_dynamic_buckets(seed, plain), with_postponed_buckets(seed, plain)
    return [("", plain), (", dynamic", dynamic), (", postponed", postponed)]


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_write_one_table_in_turns(newest: Java, share: int) -> None:
    """With fixed, dynamic and postponed buckets: each goes on where the other stopped, keeps the bucket of a key, and
    moves the rows that wait.
    """
    ours = Ours()
    for seed, plain in histories(400 + share * 100_000, SHARE // 4):
        for name, history in (
            (f"Java {newest.version} and we in turns", plain),
            (f"Java {newest.version} and we in turns, dynamic", with_dynamic_buckets(seed, plain)),
            (f"Java {newest.version} and we in turns, postponed", with_postponed_buckets(seed, plain)),
        ):
            found = failure(
                name,
                lambda told, seed=seed: against_reader(InTurns(newest, ours, seed), ours, told),
                seed,
                history,
            )

            assert found is None, found
