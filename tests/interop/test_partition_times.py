"""Tables that take only partitions with a time: Java writes to the same ones."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge, JudgeError
from tests.interop.values import Row, arrow_rows

pytestmark = pytest.mark.interop

FORMATTER, PATTERN = "partition.timestamp-formatter", "partition.timestamp-pattern"
TEXTS = ["2024-01-31", "20240131", "2024-1-31", "2024-02-31", "x", "", None, "2024-01-31 10:00:00"]


@pytest.mark.parametrize(
    ("type_", "options", "values"),
    [
        ("STRING", {FORMATTER: "yyyy-MM-dd"}, TEXTS),
        ("STRING", {FORMATTER: "yyyyMMdd"}, TEXTS),
        ("STRING", {PATTERN: "$dt"}, TEXTS),
        ("STRING", {PATTERN: "$dt $h:00:00"}, TEXTS),
        ("STRING", {}, TEXTS),
        ("INT", {FORMATTER: "yyyyMMdd"}, [20240131, 20240132, 0, -20240131]),
        # Java takes the number of its days for the text of a date.
        ("DATE", {FORMATTER: "yyyy-MM-dd"}, ["2024-01-31"]),
        ("DATE", {FORMATTER: "uuuuMMd"}, ["2024-01-31", "9999-12-31"]),
        ("BIGINT", {PATTERN: "$dt-01-01"}, [2024, -5, 10**11]),
        ("TIMESTAMP(3)", {FORMATTER: "yyyy-MM-dd'T'HH:mm"}, ["2024-01-31T00:00:00.000", "2024-01-31T00:00:01.000"]),
        ("BOOLEAN", {PATTERN: "$dt"}, [True]),
    ],
)
def test_java_takes_and_refuses_the_same_partitions(
    judge: Judge, tmp_path: Path, type_: str, options: Mapping[str, str], values: list[Any]
) -> None:
    java: dict[str, Any] = {"table": "db.t", "warehouse": str(tmp_path)}
    judge.call(
        "create",
        **java,
        fields=[{"name": name, "type": text} for name, text in {"dt": type_, "h": "INT", "v": "INT"}.items()],
        partitionKeys=["dt", "h"],
        options={"partition.timestamp-format.strict": "true", **options},
    )
    table = lc.connect(str(tmp_path)).table("db.t")

    for value in values:
        row = {"dt": value, "h": 7, "v": 1}
        taken = []
        for write, refusal in ((_ours(table, row), lc.InvalidRequest), (_theirs(judge, java, row), JudgeError)):
            try:
                write()
            except refusal:
                taken.append(False)
            else:
                taken.append(True)
        assert taken[0] == taken[1], (value, taken)


def _ours(table: lc.Table, row: Row) -> Callable[[], object]:
    return lambda: table.write(arrow_rows([row], table.schema.fields))


def _theirs(judge: Judge, java: dict[str, Any], row: Row) -> Callable[[], object]:
    return lambda: judge.call("write", **java, rows=[row])
