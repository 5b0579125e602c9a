"""What `make run` prints as answers says what was found, also where that is nothing."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lakehouse_core as lc
from orchestration import figures

MARCH = datetime(2013, 3, 2, 1, 46, tzinfo=UTC)
CHANGE = {"tailnum": "N197PQ", "valid_from": MARCH, "carrier": "EV", "previous_carrier": "9E"}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ([], ("None: all 2 aircraft that departed flew for one airline each",)),
        ([CHANGE], ("1 of the 2 aircraft that departed", "N197PQ 9E until 2 Mar 01:46, then EV")),
    ],
    ids=["none", "one"],
)
def test_aircraft_that_changed_their_airline_are_told_and_that_none_did(
    tmp_path: Path, changes: list[dict[str, Any]], lines: tuple[str, ...]
):
    catalog = lc.connect(tmp_path)
    catalog.create_database("ops")
    seen = {"tailnum": "STRING NOT NULL", "first_seen": "TIMESTAMP_LTZ(3)"}
    first = catalog.create_table("ops.plane_first_seen", seen)
    first.write([{"tailnum": name, "first_seen": MARCH.replace(month=2)} for name in ("N197PQ", "N232PQ")])
    history = {"tailnum": "STRING", "valid_from": "TIMESTAMP_LTZ(3)", "carrier": "STRING", "previous_carrier": "STRING"}
    catalog.create_table("ops.plane_operator", history).write(changes)

    answer = figures._changed_operator(catalog, SimpleNamespace(first_seen={}, operators=()))

    assert answer.lines == lines
