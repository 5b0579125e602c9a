"""Automatic tags: real Java continues ours and we continue Java's, and both make the tags that Java makes alone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge, JudgeError

pytestmark = pytest.mark.interop

FIELDS = [{"name": "k", "type": "INT"}]
HOUR = 3_600_000
# An hour in which it is another day in some of the zones below.
START = int(datetime(2024, 2, 28, 21, 30).timestamp() * 1000)
KINDS: dict[str, dict[str, str]] = {
    "hours": {"tag.creation-period": "hourly"},
    "hours, few stay": {"tag.creation-period": "hourly", "tag.num-retained-max": "2"},
    "hours, completed": {"tag.creation-period": "hourly", "tag.automatic-completion": "true"},
    "two hours, late": {"tag.creation-period": "two-hours", "tag.creation-delay": "40 min"},
    "days elsewhere": {
        "sink.watermark-time-zone": "Asia/Kathmandu",
        "tag.period-formatter": "without_dashes",
        "tag.creation-delay": "2 h",
    },
    "minutes, few stay, one after the other": {
        "tag.creation-period-duration": "50 min",
        "tag.num-retained-max": "3",
        "tag.automatic-completion": "true",
    },
}


class Side:
    """A table that Java alone, or both in turn, write to."""

    def __init__(self, java: Judge, warehouse: Path, options: Mapping[str, str]) -> None:
        self._java, self._warehouse = java, warehouse
        self.java("create", fields=FIELDS, options={"bucket": "-1", "compaction.min.file-num": "100", **options})
        self.table = lc.connect(warehouse).table("db.t")
        self._identifier = 0

    def java(self, verb: str, **request: Any) -> Any:
        return self._java.call(verb, table="db.t", warehouse=str(self._warehouse), **request)

    def write(self, number: int, watermark: int | None, *, by_java: bool) -> None:
        if by_java:
            self.java("write", rows=[{"k": number}], **({} if watermark is None else {"watermark": watermark}))
            return
        staged = self.table.stage([{"k": number}], commit_user="ours", commit_identifier=number)
        report = self.table.commit(replace(staged, watermark=watermark))
        assert report.tag_failure is None

    def tags(self) -> dict[str, int]:
        return {tag.name: tag.snapshot_id for tag in self.table.tags()}

    def success_files(self) -> set[str]:
        return {each.name for each in (self._warehouse / "db.db" / "t" / "tag" / "tag-success-file").glob("*")}


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_those_of_java_whoever_commits(judge: Judge, tmp_path: Path, kind: str) -> None:
    options = {"tag.automatic-creation": "watermark", "tag.create-success-file": "true", **KINDS[kind]}
    alone, both = Side(judge, tmp_path / "alone", options), Side(judge, tmp_path / "both", options)
    random, watermark = Random(kind), START

    for number in range(1, 25):
        watermark += random.choice([0, HOUR // 7, HOUR // 3, HOUR, 3 * HOUR])
        mark = None if random.random() < 0.1 else watermark
        by_java = random.random() < 0.5
        alone.write(number, mark, by_java=True)
        both.write(number, mark, by_java=by_java)

        assert both.tags() == alone.tags(), (number, by_java)
        assert both.success_files() == {f"{name}_SUCCESS" for name in both.tags()}

    assert both.tags()
    assert both.java("files")["missing"] == []
    assert both.table.verify(data=True).findings == ()
    both.table.expire_snapshots(retain_max=1)
    for name, snapshot_id in both.tags().items():
        rows = both.java("read", options={"scan.tag-name": name})["rows"]
        assert sorted(row["k"] for row in rows) == list(range(1, snapshot_id + 1))


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "GMT-11:00", None])
def test_the_time_of_the_commit_names_a_tag_in_its_zone(judge: Judge, tmp_path: Path, zone: str | None) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.default-time-retained": "3 d"}
    options |= {} if zone is None else {"sink.process-time-zone": zone}
    sides = [Side(judge, tmp_path / name, options) for name in ("java", "ours")]
    for side in sides:
        side.write(1, None, by_java=side is sides[1])
        (first,) = side.table.tags()
        side.table.delete_tag(first.name)
        # The newest tag says where the next commit goes on: 40 days of it are over.
        old = datetime.fromisoformat(first.name) - timedelta(days=40)
        side.table.create_tag(f"{old:%Y-%m-%d}", at=1)
        side.write(2, None, by_java=side is sides[0])

    java, ours = (side.tags() for side in sides)

    assert java == ours
    assert len(ours) == 2
    assert all(tag.time_retained_millis == 3 * 24 * HOUR for side in sides for tag in side.table.tags())


def test_neither_makes_a_second_automatic_tag_of_a_snapshot(judge: Judge, tmp_path: Path) -> None:
    side = Side(judge, tmp_path, {"tag.automatic-creation": "process-time"})
    side.write(1, None, by_java=False)
    side.table.create_tag("mine")

    with pytest.raises(JudgeError, match="already auto-tagged"):
        side.java("create-tag", tag="2020-01-01", snapshot=1)
    with pytest.raises(lc.InvalidRequest, match="it has the name of an automatic tag, and snapshot 1 has one"):
        side.table.create_tag("2020-01-01", at=1)
    with pytest.raises(lc.InvalidRequest, match="it has the name of an automatic tag, and snapshot 1 has one"):
        side.table.rename_tag("mine", "2020-01-01")


def test_writers_of_a_table_that_others_keep_make_no_tags_but_compactions_do(judge: Judge, tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "write-only": "true"}
    java, ours = Side(judge, tmp_path / "java", options), Side(judge, tmp_path / "ours", options)
    for side in (java, ours):
        side.write(1, None, by_java=side is java)
        side.write(2, None, by_java=side is java)
        assert side.tags() == {}

    java.java("compact", strategy="full", options={"write-only": "false"})
    ours.table.compact()

    assert list(ours.tags().values()) == [1]
    assert ours.tags() == java.tags()


def test_a_table_that_others_tag_after_their_jobs_is_compacted_here_and_read_there(
    judge: Judge, tmp_path: Path
) -> None:
    side = Side(judge, tmp_path, {"tag.automatic-creation": "batch", "tag.num-retained-max": "1"})
    for number in range(1, 4):
        side.write(number, None, by_java=True)
    side.java("create-tag", tag="batch-write-2024-05-01", snapshot=3)

    with pytest.raises(lc.UnsupportedFeature, match="Compaction and expiry do not need it"):
        side.table.write([{"k": 4}])
    assert side.table.compact(full=True).snapshot_id == 4
    side.table.expire_snapshots(retain_max=1)

    assert side.tags() == {"batch-write-2024-05-01": 3}
    assert side.java("files")["missing"] == []
    for options in ({}, {"scan.tag-name": "batch-write-2024-05-01"}):
        assert sorted(row["k"] for row in side.java("read", options=options)["rows"]) == [1, 2, 3]
