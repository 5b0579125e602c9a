"""The partitions that expire: Java drops the same ones, and reads the marks of those that are done."""

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge
from tests.interop.values import arrow_rows

pytestmark = pytest.mark.interop

FORMATTER, PATTERN = "partition.timestamp-formatter", "partition.timestamp-pattern"
TEXTS = ["2001-01-31", "20010131", "2001-1-31", "2001-02-31", "x", None, "2001-01-31 10:00:00", "9999-01-31"]


@pytest.mark.parametrize(
    ("type_", "options", "values"),
    [
        ("STRING", {FORMATTER: "yyyy-MM-dd"}, TEXTS),
        ("STRING", {FORMATTER: "yyyyMMdd"}, TEXTS),
        ("STRING", {PATTERN: "$dt $h:00:00"}, TEXTS),
        ("STRING", {}, TEXTS),
        ("STRING", {"partition.expiration-max-num": "2"}, TEXTS),
        ("INT", {FORMATTER: "yyyyMMdd"}, [20010131, 20010132, 0, 99990131]),
        ("DATE", {FORMATTER: "uuuuMMd"}, ["2001-01-31", "9999-12-31"]),
        ("BIGINT", {PATTERN: "$dt-01-01"}, [2001, -5, 9999]),
    ],
)
def test_java_drops_the_same_partitions(
    judge: Judge, tmp_path: Path, type_: str, options: Mapping[str, str], values: list[Any]
) -> None:
    fields = [{"name": name, "type": text} for name, text in {"dt": type_, "h": "STRING", "v": "INT"}.items()]
    rows = [{"dt": value, "h": "07", "v": 1} for value in values]
    left = []
    for side in ("java", "ours"):
        java: dict[str, Any] = {"table": "db.t", "warehouse": str(tmp_path / side)}
        judge.call("create", **java, fields=fields, partitionKeys=["dt", "h"], options=options)
        judge.call("write", **java, rows=rows)
        table = lc.connect(str(tmp_path / side)).table("db.t")
        if side == "java":
            expiring = {"partition.expiration-time": "1 d", "end-input.check-partition-expire": "true"}
            judge.call("write", **java, rows=[{"dt": values[-1], "h": "08", "v": 2}], mode="batch", options=expiring)
        else:
            table.write(arrow_rows([{"dt": values[-1], "h": "08", "v": 2}], table.schema.fields))
            table.expire_partitions(timedelta(days=1))
        left.append([(each.partition, each.row_count) for each in table.partitions()])
        assert judge.call("files", **java)["missing"] == []
        assert table.verify(data=True).findings == ()

    assert left[0] == left[1]
    assert len(left[0]) < len(values) + 1 or options.get(PATTERN) or type_ == "DATE"


def test_java_drops_the_same_partitions_by_update_time(judge: Judge, tmp_path: Path) -> None:
    fields = [{"name": name, "type": text} for name, text in {"dt": "STRING", "v": "INT"}.items()]
    age = {"partition.expiration-time": "5 s", "partition.expiration-strategy": "update-time"}
    sides: dict[str, dict[str, Any]] = {
        side: {"table": "db.t", "warehouse": str(tmp_path / side)} for side in ("java", "ours")
    }
    for java in sides.values():
        judge.call("create", **java, fields=fields, partitionKeys=["dt"], options=age)
        judge.call("write", **java, rows=[{"dt": value, "v": 1} for value in ("a", "b", "c")])
    time.sleep(6)
    new = [{"dt": "b", "v": 2}]
    checked = {"end-input.check-partition-expire": "true"}
    judge.call("write", **sides["java"], rows=new, mode="batch", options=checked)
    ours = lc.connect(str(tmp_path / "ours")).table("db.t")
    ours.write(new)
    ours.expire_partitions()

    for side, java in sides.items():
        table = lc.connect(str(tmp_path / side)).table("db.t")
        assert [each.partition for each in table.partitions()] == [{"dt": "b"}], side
        assert sorted((row["dt"], row["v"]) for row in judge.call("read", **java)["rows"]) == [("b", 1), ("b", 2)]
