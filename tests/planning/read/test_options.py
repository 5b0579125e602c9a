"""Options of a read, those of the table and of the call together, mean one read point or are refused."""

import dataclasses
import enum
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.metadata.snapshot_search import first_with_watermark
from lakehouse_core.planning.read.options import point_of

CASES_FILE = Path(__file__).with_name("scan_options_cases.txt")


class Case(NamedTuple):
    options: dict[str, str]
    read: str | None
    refused: str | None
    # What Java 2.0.0 does where it differs.
    java: str | None


def cases() -> list[Case]:
    found = []
    for block in CASES_FILE.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        told = {line.split(" ", 1)[0]: line.partition(" ")[2].strip() for line in lines}
        options = dict(part.split("=", 1) for part in _parts(told["options"]))
        found.append(Case(options, told.get("read"), told.get("refused"), told.get("java")))
    return found


def _parts(text: str) -> list[str]:
    """Split at the blanks before the next key: times hold blanks."""
    parts: list[str] = []
    for word in text.split():
        if "=" in word:
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    return parts


def shown(point: Any) -> str:
    values = ", ".join(f"{field.name}={_value(getattr(point, field.name))}" for field in dataclasses.fields(point))
    return f"{type(point).__name__}({values})"


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, enum.Enum) else repr(value)


@pytest.mark.parametrize("case", cases(), ids=lambda case: " ".join(f"{k}={v}" for k, v in case.options.items()))
def test_options_mean_one_read_point_or_are_refused(case: Case) -> None:
    if case.refused is None:
        assert shown(point_of(case.options)) == case.read
    else:
        with pytest.raises(InvalidRequest) as refused:
            point_of(case.options)
        assert case.refused in str(refused.value)


def test_other_options_mean_nothing_for_a_read() -> None:
    assert shown(point_of({"bucket": "4", "write-only": "true"})) == "Latest()"


def test_older_names_of_options_are_read() -> None:
    assert shown(point_of({"log.scan": "compacted-full"})) == "CompactedFull()"


@given(st.lists(st.none() | st.integers(0, 5), min_size=1, max_size=9), st.integers(0, 6))
def test_a_watermark_means_the_first_snapshot_that_reached_it(marks: list[int | None], wanted: int) -> None:
    rising = sorted(mark for mark in marks if mark is not None)
    by_id = {number: None if mark is None else rising.pop(0) for number, mark in enumerate(marks, 1)}

    found = first_with_watermark(1, len(marks), wanted, watermark_of=by_id.__getitem__)

    reached = [mark for mark in by_id.values() if mark is not None and mark >= wanted]
    assert (None if found is None else by_id[found]) == min(reached, default=None)
