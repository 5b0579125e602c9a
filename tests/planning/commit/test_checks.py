"""What no table can take is refused before anything is committed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.commit.checks import check_staged
from lakehouse_core.table.commit_message import DynamicOverwrite
from tests.planning.change_vocabulary import WORKED, data_file, message, staged


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"commit_user": ""}, "commit_user is '': expected a name"),
        ({"commit_identifier": -1}, "identifier -1 of u: expected 0 to"),
        ({"commit_identifier": 2**63}, "expected 0 to 9223372036854775807"),
        ({"properties": {"lakehouse.ledger": "{}"}}, r"'lakehouse\.ledger' is reserved"),
        ({"properties": {"lakehouse.nonce": ""}}, r"'lakehouse\.nonce' is reserved"),
        ({"mode": DynamicOverwrite(), "messages": (message(deleted_files=(data_file("a"),)),)}, "may not delete files"),
        ({"messages": (message(new_files=(data_file("a", external_path="s3://x/a"),)),)}, "a is outside the table"),
    ],
)
def test_what_no_table_can_take_is_refused(change: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRequest, match=expected):
        check_staged(replace(staged(), **change))


def test_any_other_commit_is_taken() -> None:
    check_staged(staged(WORKED, properties={"lakehouse.run-id": "r"}, commit_identifier=2**63 - 1))
