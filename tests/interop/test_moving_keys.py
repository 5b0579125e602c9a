"""Tables whose keys move between partitions: Java and we write them in turn, and each finds what the other placed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from tests.execution.write.moving_keys import PARTITIONS, bare, rows_of
from tests.interop.engines import Java
from tests.interop.judge import Judge
from tests.interop.moving_turns import KINDS, create, seen, write_in_turns
from tests.oracle.moving_keys import MovingKeys

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=["2.0.0", "1.4.2"])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param) as java:
        yield java


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("engine", "options"), KINDS)
def test_both_write_one_table_in_turn_and_no_key_is_twice(
    java: Java, tmp_path: Path, engine: str, options: dict[str, str], seed: int
) -> None:
    write_in_turns(java, tmp_path, engine, options, seed)


@pytest.mark.parametrize("seed", range(3))
def test_the_changelog_of_the_input_tells_of_moved_keys_as_that_of_java_does(
    java: Java, tmp_path: Path, seed: int
) -> None:
    create(java, "deduplicate", {"changelog-producer": "input", "write-only": "true"})
    table, random, model = lc.connect(tmp_path).table("db.t"), Random(seed), MovingKeys("deduplicate")
    for number in range(1, 9):
        rows: list[dict[str, Any]] = []
        homes = {key: row["p"] for key, row in model.rows.items()}
        for _ in range(random.randint(1, 6)):
            key, kind = random.randrange(4), random.choice(["+I", "+U", "-U", "-D"])
            where = random.choice(PARTITIONS)
            if kind in ("-U", "-D"):
                # Java also writes a delete into the partition that it names, where that is another one.
                where = homes.get(key, where)
            homes[key] = where
            rows.append({"k": key, "p": where, "a": random.randrange(9), "b": None, "_kind": kind})
        given = [{**row, "kind": row["_kind"]} for row in rows]
        if number % 2:
            java("write", rows=rows, commitUser="job")
        else:
            table.write(rows, rowkind_column="_kind")
        wanted = Counter(model.told(given))
        model.write(given)
        ours = table.changes(after=number - 1).to_arrow().to_pylist()
        steps = java("stream-read", **{"from": number, "to": number})["snapshots"]
        theirs = [row for step in steps if step["snapshot"] == number for row in step["rows"]]

        for found, kind in ((ours, "rowkind"), (theirs, "_kind")):
            assert Counter((row[kind], row["k"], row["p"], row["a"], row["b"]) for row in found) == wanted
        assert seen(java("read")["rows"]) == rows_of(table) == model.sorted()
    assert table.verify(data=True).findings == ()


@pytest.mark.damage
def test_a_key_that_two_jobs_of_java_doubled_is_found_and_a_delete_of_one_row_mends_it(
    java: Java, tmp_path: Path
) -> None:
    create(java, "deduplicate", {})
    for handle, partition in (("one", "x"), ("two", "y")):
        rows = [{"k": 1, "p": partition, "a": 1, "b": handle}]
        java("prepare", handle=handle, rows=rows, commitUser=handle)
    java("commit", handle="one")
    java("commit", handle="two")
    table = lc.connect(tmp_path).table("db.t")
    assert len(rows_of(table)) == 2
    found = [finding.found for finding in table.verify(data=True).findings]
    assert found == ["1 of its keys are in p=y/bucket-0 too"]
    table.write([{"k": 2, "p": "x", "a": 0}])
    with pytest.raises(lc.CorruptTable, match=r"The key k = 1 is in partition p=[xy].*and in partition p=[xy]"):
        table.write([{"k": 1, "p": "z", "a": 2}])

    table.delete("k = 1 and p = 'x'")

    assert table.verify(data=True).findings == ()
    table.write([{"k": 1, "p": "z", "a": 2}])
    java("write", rows=[{"k": 1, "p": "x", "a": 3}], commitUser="three")
    assert [row[:3] for row in rows_of(table)] == [(1, "x", 3), (2, "x", 0)]


def test_a_job_of_java_that_commits_while_we_write_doubles_no_key(java: Java, tmp_path: Path) -> None:
    create(java, "deduplicate", {})
    table = lc.connect(tmp_path).table("db.t")
    table.write([{"k": 1, "p": "x", "a": 0}])
    staged = table.stage([{"k": 1, "p": "y", "a": 1}], commit_user="u", commit_identifier=1)
    java("write", rows=bare([{"k": 1, "p": "z", "a": 2, "b": None}]), commitUser="job")

    with pytest.raises(lc.CommitConflict, match="this one puts them elsewhere"):
        table.commit(staged)

    assert rows_of(table) == [(1, "z", 2, None)]
