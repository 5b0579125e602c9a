"""Of many files splits are made one by one, and are the same splits that a small plan has at hand."""

import pickle
from collections.abc import Collection
from dataclasses import replace

import pytest

from lakehouse_core.errors import PlanTooLarge
from lakehouse_core.planning.read import splits as planned
from lakehouse_core.planning.read.lazy_splits import LazySplits, SplitTotals, totals_of
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.table.manifest import columns_of, live_rows
from lakehouse_core.table.predicate import bind, col
from lakehouse_core.table.schema import new_schema
from lakehouse_core.table.split import Split
from lakehouse_core.table.stats import ColumnBounds, encode_stats
from tests.planning.change_vocabulary import add, data_file

SCHEMA = new_schema({"k": "INT NOT NULL"}, options={"source.split.target-size": "1 b"}, now_millis=0)
TYPES = [field.type for field in SCHEMA.fields]
FILES = [
    replace(
        data_file(f"{number}.parquet", number, number + 1, level=0),
        row_count=number,
        file_size=100 * number,
        value_stats=encode_stats([ColumnBounds(number, number, 0)], TYPES),
    )
    for number in range(1, 6)
]


def splits(monkeypatch: pytest.MonkeyPatch, *, most_kept: int, above: int | None = None) -> Collection[Split]:
    """The splits of the five files; `above`: of those with keys above a number, which their statistics tell."""
    monkeypatch.setattr(planned, "MOST_KEPT_FILES", most_kept)
    scope = ScanScope(SCHEMA, None if above is None else bind(col("k") > above, SCHEMA.fields))
    entries = columns_of([add(file) for file in FILES])
    return planned.plan_splits(entries, live_rows(entries), scope, snapshot_id=1, file_schemas={0: SCHEMA})


def test_splits_are_at_hand_up_to_a_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(splits(monkeypatch, most_kept=5), tuple)
    assert isinstance(splits(monkeypatch, most_kept=4), LazySplits)


@pytest.mark.parametrize(("above", "totals"), [(None, (5, 15, 1500)), (3, (2, 9, 900)), (9, (0, 0, 0))])
def test_many_splits_are_those_of_a_small_plan(
    above: int | None, totals: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = splits(monkeypatch, most_kept=5, above=above)
    lazy = splits(monkeypatch, most_kept=0, above=above)

    assert [*lazy] == [*kept] == [*lazy]
    assert len(lazy) == len(kept) == totals[0]
    assert all(split in lazy for split in kept)
    file_count, row_count, size_bytes = totals
    expected = SplitTotals(file_count=file_count, row_count=row_count, size_bytes=size_bytes)
    assert totals_of(lazy) == totals_of(kept) == expected


def test_the_totals_of_all_files_are_known_without_a_split(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = splits(monkeypatch, most_kept=0)
    monkeypatch.delattr(LazySplits, "__iter__")

    assert totals_of(lazy).row_count == 15


def test_of_many_splits_none_is_found_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hasattr(splits(monkeypatch, most_kept=0), "__getitem__")


def test_a_plan_that_is_made_anew_each_time_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanTooLarge, match="pickle the scan before it is first used"):
        pickle.dumps(splits(monkeypatch, most_kept=0))
