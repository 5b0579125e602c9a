"""A specification that cannot work is refused when it is loaded, in one sentence with file and line."""

import re
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_dagster import Lake, load_specs

BASE = """database: sales
name: orders
comment: Orders.
columns:
  id: BIGINT NOT NULL
  dt: DATE NOT NULL
  status: STRING
runs_on: process
files: {path: "in/*.csv"}
write_mode: append
"""
KEYED = BASE.replace("append", "upsert") + "primary_key: [id]\n"
PARTED = BASE.replace("in/*", "in/{partition_key}").replace("append", "overwrite") + "partition_by: [dt]\n"


def by_time(**change: str) -> str:
    every, timezone, pattern = (change.get(name, otherwise) for name, otherwise in DEFAULTS.items())
    time = f"time: {{every: {every}, start: 2013-01-01, timezone: {timezone}, columns: {{dt: '{pattern}'}}}}"
    return f"{PARTED}partitions: {{{time}}}\n"


DEFAULTS = {"every": "day", "timezone": "UTC", "pattern": "%Y-%m-%d"}
CASES = [
    # What is said of the table.
    (BASE.replace("status: STRING", "status: STRINGG"), 7, "Column 'status': 'STRINGG' is not a data type: .*"),
    (BASE.replace("status: STRING", "rowkind: STRING"), 7, "Column 'rowkind': the name is reserved, .*"),
    (BASE + "options: {buckett: 1}\n", 11, r"Option buckett is not known: did you mean bucket\?"),
    (BASE + "options: {bucket: many}\n", 11, "Option bucket is 'many': expected a whole number."),
    (BASE + "options: {bucket: -2}\n", 11, "Option bucket is -2, and the table has no primary key: .*"),
    (
        KEYED + "options: {bucket: 1}\npartition_by: [dt]\n",
        12,
        r"The primary key \(id\) lacks a partition column of \(dt\).*",
    ),
    (KEYED.replace("[id]", "[idd]"), 11, r"primary_key names 'idd', which is not a column; did you mean 'id'\?"),
    (
        BASE.replace("name: orders", "name: orders$branch_test"),
        2,
        r"name: found 'orders\$branch_test', a branch; Dagster shows tables, not their branches\. Name its table.*",
    ),
    (
        KEYED.replace('files: {path: "in/*.csv"}', "changes_of: {table: sales.items$branch_test}").replace(
            "upsert", "cdc"
        ),
        9,
        r"changes_of\.table: found 'sales\.items\$branch_test', a branch; Dagster shows tables, .*",
    ),
    (BASE + "options: {branch: test}\n", 11, "Option branch .*"),
    (BASE + "options: {scan.fallback-branch: test}\n", 11, "Option scan.fallback-branch .*"),
    # What keys of partitions mean.
    (by_time(pattern="%d.%m.%Y"), 12, "partitions give dt the value '01.01.2013', which DATE NOT NULL does not .*"),
    (by_time(pattern="%Y-%m"), 12, "partitions.time: columns .* have the same values, .*"),
    (by_time().replace("dt: DATE", "dt: DOUBLE"), 12, "partitions give dt the value '2013-01-01', which DOUBLE .*"),
    (by_time(timezone="Mars/One"), 12, "partitions.time.timezone: found 'Mars/One', expected the name of a time .*"),
    (by_time(every="days"), 12, "partitions.time.every: found 'days', expected hour, day, week, month or the five .*"),
    (by_time(every="0 25 * * *"), 12, "partitions: time data .*"),
    (
        PARTED.replace("dt: DATE", "dt: INT") + "partitions: {static: {keys: [north], column: dt}}\n",
        12,
        "partitions give dt the value 'north', which INT NOT NULL does not .*",
    ),
    # How Dagster shows it.
    (BASE + "owners: [nobody]\n", 11, "Invalid owner 'nobody' .*"),
    (BASE + "tags: {'a b': 'c d'}\n", 11, "Invalid tag .*"),
]


@pytest.mark.parametrize(("text", "line", "told"), CASES, ids=[told[:40] for *_, told in CASES])
def test_a_specification_that_cannot_work_is_refused_with_file_and_line(
    tmp_path: Path, text: str, line: int, told: str
) -> None:
    (tmp_path / "orders.yaml").write_text(text)

    with pytest.raises(lc.InvalidRequest) as refused:
        Lake(name="lake", tables=load_specs(tmp_path, root=tmp_path))

    assert re.fullmatch(rf"orders\.yaml:{line}: {told}", str(refused.value)), refused.value


@pytest.mark.parametrize(
    "text",
    [BASE, KEYED, KEYED + "partition_by: [dt]\n", by_time(), by_time(every="month"), by_time(timezone="Europe/Berlin")],
)
def test_a_specification_that_fits_is_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / "orders.yaml").write_text(text)

    assert Lake(name="lake", tables=load_specs(tmp_path)).tables
    assert load_specs(str(tmp_path)) == load_specs(tmp_path)
