"""Casts value by value as Java 2.0.0 carried them out: rows written, the column's type altered, rows read again.

`java_casts.json` holds what was written and what came back, in the judge's JSON; "!" where Java refused to read.
"""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_core.errors import LakehouseError
from lakehouse_core.format.cast import cast_array
from lakehouse_core.format.cast_rules import can_cast
from lakehouse_core.format.data_types import DataField, arrow_type, assign_ids, parse_type
from tests.interop.values import arrow_rows, java_rows

ANSWERS = json.loads((Path(__file__).parent / "java_casts.json").read_text())
REFUSED = "!"


@pytest.mark.parametrize("pair", ANSWERS["cases"])
def test_values_become_what_java_reads(pair: str) -> None:
    source, target = (assign_ids(parse_type(text), 1)[0] for text in pair.split(" -> "))
    old, new = DataField(0, "v", source), DataField(0, "v", target)
    wrong = []

    for written, read in ANSWERS["cases"][pair]:
        column = arrow_rows([{"v": written}], [old]).column("v").combine_chunks()
        try:
            cast = cast_array(column, source, target)
        except LakehouseError:
            found: Any = REFUSED
        else:
            assert cast.type == arrow_type(target)
            (row,) = java_rows(cast_table(cast), [new])
            found = row["v"]
        if not same(found, read):
            wrong.append((written, read, found))

    assert can_cast(source, target, explicit=True)
    assert wrong == []


@pytest.mark.parametrize("pair", ANSWERS["refused"])
def test_what_java_does_not_alter_is_not_cast(pair: str) -> None:
    source, target = (assign_ids(parse_type(text), 1)[0] for text in pair.split(" -> "))

    assert not can_cast(source, target, explicit=True)


def cast_table(column: pa.Array) -> pa.Table:
    return pa.Table.from_arrays([column], ["v"])


def same(found: Any, read: Any) -> bool:
    if isinstance(found, float) and isinstance(read, float):
        return math.copysign(1, found) == math.copysign(1, read) and found == read
    return type(found) is type(read) and found == read
