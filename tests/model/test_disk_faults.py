"""The disk answers a system call with an error, before its effect or after it: verbs tell truly what they did.

Here the calls that give names, of every second verb, and take them away; `make test-long` takes the other verbs, and
`make search` each call with each error.
"""

import errno

import pytest

from tests.model.disk_faults import sweep
from tests.model.fault_verbs import VERBS
from tests.pairs import each_with_one, in_turn

NAMING = ("link", "rename_new", "replace")


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(10, VERBS, first=1))
def test_a_name_that_was_given_while_the_disk_said_no_damages_nothing(name):
    failed = sweep(name, errno.ETIMEDOUT, takes_effect=True, is_wanted=lambda call: call in NAMING)

    assert failed > 0 or name in ("drop database", "remove orphans")


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code"),
    each_with_one(
        ["write", "create table", "drop table", "tag", "alter", "alter, postponed buckets"], [errno.EIO, errno.EACCES]
    ),
)
def test_a_name_that_was_not_given_is_told_or_found_out(name, code):
    assert sweep(name, code, takes_effect=False, is_wanted=lambda call: call in NAMING) > 0


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["drop database", "drop table", "untag", "expire, changelogs stay", "remove orphans"])
def test_a_name_that_was_taken_away_while_the_disk_said_no_damages_nothing(name):
    assert sweep(name, errno.EIO, takes_effect=True, is_wanted=lambda call: call in ("unlink", "rmdir")) > 0


@pytest.mark.slow
def test_a_folder_that_the_disk_calls_full_and_that_is_empty_is_not_told_to_hold_files():
    assert sweep("drop database", errno.EEXIST, takes_effect=False, is_wanted=lambda call: call == "rmdir") > 0
