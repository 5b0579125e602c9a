"""Writers of Java and ours at once in one table with dynamic buckets: what is lost, and who finds it."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.engines import Java

pytestmark = pytest.mark.interop


@pytest.fixture
def java(java: Java) -> Java:
    """Java's side of a new table, whose buckets take two keys."""
    fields = [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "write-only": "true"}
    java("create", fields=fields, primaryKeys=["k"], partitionKeys=[], options=options)
    return java


def rows(*keys: int, v: str) -> list[dict[str, Any]]:
    return [{"k": key, "v": v} for key in keys]


def seen(found: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return sorted((row["k"], row["v"]) for row in found)


def findings(table: lc.Table) -> list[str]:
    return [finding.found for finding in table.verify(data=True).findings]


@pytest.mark.damage
def test_keys_that_two_jobs_of_java_doubled_are_found_and_mended_by_a_rescale(java: Java, tmp_path: Path) -> None:
    for handle, keys in (("a", (1, 2)), ("b", (3, 4))):
        java("prepare", handle=handle, rows=rows(*keys, v=handle), commitUser=handle)
    java("commit", handle="a")
    java("commit", handle="b")
    table = lc.connect(tmp_path).table("db.t")
    assert findings(table) == ["the index of the bucket lacks 2 of its keys"]

    java("write", rows=rows(1, v="again"))

    assert seen(java("read")["rows"]) == [(1, "a"), (1, "again"), (2, "a"), (3, "b"), (4, "b")]
    assert "1 of its keys are in bucket-0 too" in findings(table)
    table.rescale()
    assert findings(table) == []
    merged = [(1, "again"), (2, "a"), (3, "b"), (4, "b")]
    assert seen(java("read")["rows"]) == seen(table.scan().to_arrow().to_pylist()) == merged
    java("write", rows=rows(1, 5, v="java"))
    assert seen(java("read")["rows"]) == [(1, "java"), *merged[1:], (5, "java")]
    assert findings(table) == []
    assert java("files")["missing"] == []


def test_a_job_of_java_that_commits_while_we_write_loses_no_key_and_doubles_none(java: Java, tmp_path: Path) -> None:
    table = lc.connect(tmp_path).table("db.t")
    table.write(rows(1, v="first"))
    ours = table.stage(rows(1, 2, 3, v="ours"), commit_user="ours", commit_identifier=1)
    java("write", rows=rows(1, 4, v="java"))

    try:
        table.commit(ours)
    except lc.CommitConflict:
        table.write(rows(1, 2, 3, v="ours"))

    expected = [(1, "ours"), (2, "ours"), (3, "ours"), (4, "java")]
    assert seen(table.scan().to_arrow().to_pylist()) == seen(java("read")["rows"]) == expected
    assert findings(table) == []
    java("write", rows=rows(1, 2, 3, 4, 5, v="later"))
    assert seen(table.scan().to_arrow().to_pylist()) == [(key, "later") for key in range(1, 6)]


@pytest.mark.damage
def test_a_job_of_java_that_commits_after_us_drops_our_keys_which_verify_finds(java: Java, tmp_path: Path) -> None:
    table = lc.connect(tmp_path).table("db.t")
    java("prepare", handle="a", rows=rows(1, 2, v="java"), commitUser="a")
    table.write(rows(3, 4, v="ours"))
    java("commit", handle="a")

    assert findings(table) == ["the index of the bucket lacks 2 of its keys"]
    table.overwrite(rows(1, 2, 3, 4, v="whole"))
    assert findings(table) == []
