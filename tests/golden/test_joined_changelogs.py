"""Changelogs that Flink's own task laid into one object for several buckets: every row is read, at every snapshot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.golden import sets
from tests.golden.record_joined_changelogs import SET, recorded

pytestmark = pytest.mark.golden

TABLES = recorded()


@pytest.mark.parametrize("name", TABLES)
def test_the_changelog_is_what_java_read(unpacked: Callable[[str], Path], name: str) -> None:
    table = lc.connect(str(unpacked(SET))).table(f"db.{name}")

    for snapshot_id, rows in TABLES[name].items():
        until = int(snapshot_id)
        found = table.changes(after=until - 1, until=until).to_arrow().to_pylist()
        assert by_key(found, "rowkind") == by_key(rows, "_kind"), snapshot_id
    objects = {path.suffix for path in Path(table.uri.removeprefix("file://")).rglob("*changelog-*.*")}
    assert len(objects) == 1
    assert objects.pop().startswith(".cc-")


def by_key(rows: list[dict[str, Any]], kind: str) -> list[tuple[Any, ...]]:
    return sorted((row["p"], row["k"], row[kind], row["v"]) for row in rows)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TABLES)
def test_verify_finds_nothing_and_expiry_takes_what_no_snapshot_needs(tmp_path: Path, name: str) -> None:
    table = lc.connect(str(sets.unpack(SET, tmp_path))).table(f"db.{name}")
    assert table.verify(data=True).findings == ()
    last = max(map(int, TABLES[name]))
    folder = Path(table.uri.removeprefix("file://"))
    before = len(list(folder.rglob("compacted-changelog-*")))

    keys = ("snapshot.num-retained.min", "snapshot.num-retained.max", "changelog.num-retained.max")
    table.alter(lc.SetOption("lakehouse.read.grace", "0 s"), *(lc.SetOption(key, "1") for key in keys))
    table.expire_snapshots()

    # Of a changelog that outlives its snapshots the last one stays.
    left = len(list(folder.rglob("compacted-changelog-*")))
    assert left * 3 == (before * 2 if name == "expired" else before)
    assert table.verify(data=True).findings == ()
    assert table.changes(after=last - 1).to_arrow().num_rows == len(TABLES[name][str(last)])
