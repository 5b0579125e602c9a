"""Values of a query become those of a column, however Arrow lays them out."""

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_core.format.data_types import DataField, parse_type
from lakehouse_core.format.store_assignment import can_store, stored
from lakehouse_core.tasks.change_rows.assigned import assigned_column

_OFFSETS = pa.array([0, 1, 3, 4], pa.int32())
_SECOND = pa.array([False, True, False])
_DAY = 86_400
# The second list and the second map are null, and have values that no row shows.
_LISTS = pa.ListArray.from_arrays(_OFFSETS, pa.array([1, 300, 2, 4], pa.int64()), mask=_SECOND)
_MAPS = pa.MapArray.from_arrays(_OFFSETS, pa.array(["a", "long", "b", "c"]), pa.array([1, 300, 2, 4]), mask=_SECOND)

STORED: list[tuple[pa.Array, str, list[Any]]] = [
    (_LISTS, "ARRAY<TINYINT>", [[1], None, [4]]),
    (_LISTS.slice(1), "ARRAY<STRING>", [None, ["4"]]),
    (_LISTS.cast(pa.large_list(pa.int64())), "ARRAY<TINYINT>", [[1], None, [4]]),
    (_MAPS, "MAP<VARCHAR(1), TINYINT>", [[("a", 1)], None, [("c", 4)]]),
    (_MAPS.slice(1), "MULTISET<VARCHAR(1)>", [None, [("c", 4)]]),
    (
        pa.array([{"x": None, "y": 5}, None], pa.struct([("x", pa.null()), ("y", pa.int32())])),
        "ROW<x DATE, y STRING>",
        [{"x": None, "y": "5"}, None],
    ),
    (pa.array([{"X": 5}], pa.struct([("X", pa.int32())])), "ROW<x INT>", [{"x": 5}]),
    (pa.array([[None]], pa.list_(pa.null())), "ARRAY<DATE>", [[None]]),
    (pa.array([_DAY, None], pa.timestamp("s")), "DATE", [date(1970, 1, 2), None]),
    (pa.array([_DAY], pa.timestamp("s", "Asia/Tokyo")), "STRING", ["1970-01-02 00:00:00"]),
]


@pytest.mark.parametrize(("values", "kind", "expected"), STORED, ids=lambda case: str(getattr(case, "type", case))[:40])
def test_a_column_takes_what_the_rows_show(values, kind, expected):
    found = assigned_column(values, DataField(0, "c", parse_type(kind)))
    found.validate(full=True)

    assert found.to_pylist() == expected


def test_a_multiset_is_stored_as_the_map_that_it_is():
    kind = parse_type("MULTISET<STRING>")
    given = parse_type("MAP<INT, INT>")

    assert can_store(parse_type("MAP<STRING, INT>"), kind)
    assert can_store(kind, kind)
    assert not can_store(parse_type("MAP<STRING, STRING>"), kind)
    assert stored(pa.array([[(5, 2)]], pa.map_(pa.int32(), pa.int32())), given, kind).to_pylist() == [[("5", 2)]]
