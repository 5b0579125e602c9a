"""Malformed calls end in an answer or in one line; a chosen few of those that `make search` makes."""

import pytest

from tests.api.malformed_calls import search, verbs
from tests.pairs import in_turn


@pytest.mark.parametrize("seed", in_turn(2, [1, 2]))
def test_malformed_calls_are_refused_in_one_line_and_leave_nothing(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)

    assert search(seed, 80, tmp_path) == []


def test_every_verb_that_users_call_is_among_them():
    names = {verb.name for verb in verbs()}

    assert {"connect", "Catalog.create_table", "Table.write", "Scan.to_arrow", "AddColumn", "AsOf"} <= names
    assert len(names) > 80
