"""`verify` finds nothing in any table that Java wrote, whatever its kind."""

from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.golden import sets

pytestmark = pytest.mark.golden


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", [sets.RECORDED[0], pytest.param(sets.RECORDED[1], marks=pytest.mark.long), *sets.PRINTED]
)
def test_verify_finds_nothing_in_tables_of_java(unpacked: Callable[[str], Path], name: str) -> None:
    catalog = lc.connect(str(unpacked(name)))
    tables = catalog.tables("db")

    findings = {
        table: report.findings
        for table in tables
        if (report := catalog.table(f"db.{table}").verify(data=True)).findings
    }

    assert tables
    assert findings == {}
