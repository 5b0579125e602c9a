"""System tables of tables written by Java equal what Java tells of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.golden.record_system_tables import SET, recorded
from tests.interop.system_tables import differences, our_rows

pytestmark = pytest.mark.golden


@pytest.fixture(scope="module")
def warehouse(unpacked: Callable[[str], Path]) -> Path:
    return unpacked(SET)


@pytest.mark.parametrize(
    "answer", recorded(), ids=lambda one: "-".join([one["table"], one["name"], *one["options"].values()])
)
def test_a_system_table_tells_what_java_tells(warehouse: Path, answer: dict[str, Any]) -> None:
    table = lc.connect(warehouse).table(f"db.{answer['table']}")

    ours = our_rows(table, answer["name"], **answer["options"])

    told = json.loads(json.dumps(ours).replace(str(warehouse), "WAREHOUSE"))
    assert differences(answer["rows"], told, answer["name"]) == []
