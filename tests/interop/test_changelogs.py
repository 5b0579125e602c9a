"""Changelogs that outlive their snapshots: made by our expiry or by Java's, read by both, added to by both."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.interop.engines import TABLE
from tests.interop.judge import VERSIONS, Judge
from tests.interop.values import Row, canonical, java_rows

pytestmark = pytest.mark.interop

OPTIONS = {
    "bucket": "1",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "20",
    "changelog.time-retained": "1 d",
    "lakehouse.read.grace": "0 s",
}


@pytest.fixture(scope="module", params=VERSIONS)
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param) as java:
        yield java


@pytest.fixture(params=["input", "lookup"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lc.Table:
    """A table of six writes, each of which changes a row and adds one."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    made = catalog.create_table(
        TABLE,
        {"k": "INT NOT NULL", "v": "INT"},
        primary_keys=["k"],
        options=OPTIONS | {"changelog-producer": request.param},
    )
    for number in range(6):
        made.write([{"k": 0, "v": number}, {"k": number + 1, "v": number}])
    return made


def changes_of_ours(table: lc.Table, snapshot_ids: list[int]) -> dict[int, list[Row]]:
    """Return what each snapshot changed, where it changed anything."""
    found = {}
    for snapshot_id in snapshot_ids:
        changed = table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow()
        kinds = changed.column("rowkind").to_pylist()
        rows = [{"_kind": kind} | row for kind, row in zip(kinds, java_rows(changed, table.schema.fields), strict=True)]
        if rows:
            found[snapshot_id] = rows
    return found


def changes_of_java(judge: Judge, warehouse: Path, first: int) -> dict[int, list[Row]]:
    told = judge.call("stream-read", table=TABLE, warehouse=str(warehouse), **{"from": first})["snapshots"]
    return {step["snapshot"]: step["rows"] for step in told if step["rows"]}


def same(one: dict[int, list[Row]], other: dict[int, list[Row]]) -> bool:
    return one.keys() == other.keys() and all(canonical(one[each]) == canonical(other[each]) for each in one)


def test_java_follows_changelogs_that_our_expiry_left_beside_living_snapshots(
    judge: Judge, table: lc.Table, tmp_path: Path
) -> None:
    every = [snapshot.id for snapshot in table.snapshots()]
    before = changes_of_ours(table, every)
    table.expire_snapshots(older_than=timedelta(0))
    kept = [changelog.id for changelog in table.changelogs()]

    assert [*kept, *(snapshot.id for snapshot in table.snapshots())] == every
    assert len(kept) == len(every) - len(table.snapshots()) > 3
    assert same(changes_of_java(judge, tmp_path, every[0]), before)
    assert same(changes_of_ours(table, every), before)

    judge.call("write", table=TABLE, warehouse=str(tmp_path), rows=[{"k": 0, "v": 99}])
    later = [snapshot.id for snapshot in table.snapshots() if snapshot.id > every[-1]]
    assert same(changes_of_java(judge, tmp_path, every[0]), before | changes_of_ours(table, later))
    assert table.verify(data=True).findings == ()


def test_we_follow_changelogs_that_javas_expiry_left_beside_living_snapshots(
    judge: Judge, table: lc.Table, tmp_path: Path
) -> None:
    every = [snapshot.id for snapshot in table.snapshots()]
    before = changes_of_ours(table, every)
    judge.call("expire", table=TABLE, warehouse=str(tmp_path), retainMillis=0)
    again = lc.connect(tmp_path).table(TABLE)

    assert [*(changelog.id for changelog in again.changelogs()), *(one.id for one in again.snapshots())] == every
    assert len(again.changelogs()) > 3
    assert same(changes_of_ours(again, every), before)

    again.write([{"k": 0, "v": 99}])
    again.expire_snapshots(older_than=timedelta(0))
    later = [one.id for one in (*again.changelogs(), *again.snapshots()) if one.id > every[-1]]
    assert same(changes_of_java(judge, tmp_path, every[0]), before | changes_of_ours(again, later))
    assert again.verify(data=True).findings == ()
