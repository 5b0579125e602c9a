"""Tables of Java whose keys move between partitions are written on: each key is found where Java put it."""

from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.golden import sets

pytestmark = pytest.mark.golden

TABLES = ("cross_deduplicate", "cross_partial", "cross_aggregation", "cross_first")


@pytest.mark.parametrize("name", [name for name in sets.RECORDED if name.startswith("java")])
def test_rows_that_move_all_keys_of_a_table_of_java_double_none(
    unpacked: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    source, target = lc.connect(str(unpacked(name))), lc.connect(str(tmp_path))
    target.create_database("db")
    for table in TABLES:
        target.copy_table(source.table(f"db.{table}"), f"db.{table}")
        copy = target.table(f"db.{table}")
        before = copy.scan().to_arrow().to_pylist()
        keys = copy.schema.primary_keys
        moves = table == "cross_deduplicate"

        copy.write([{**row, "p": "moved"} for row in before])

        copy.compact()
        after = copy.scan().to_arrow().to_pylist()
        found = {tuple(row[key] for key in keys): row["p"] for row in after}
        assert len(found) == len(after) == len(before) > 0
        assert found == {tuple(row[key] for key in keys): "moved" if moves else row["p"] for row in before}
        assert copy.verify(data=True).findings == ()
