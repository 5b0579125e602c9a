"""What is left of a verb about a branch that was interrupted is named, and what to do about it is said truly."""

from datetime import timedelta
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.execution.fleet.survey import survey_table
from lakehouse_core.storage import Call, FaultyStore, ProcessDied
from tests.execution.test_rollback_to import ROWS, Place

NEVER = timedelta(0)


def place_with_branch() -> Place:
    place = Place()
    place.table().write(ROWS)
    place.table().create_branch("b", at=1)
    place.table().branch("b").write([{"k": 90, "p": 0, "v": "b"}])
    return place


def kill(place: Place, verb: Any, *, at: str) -> None:
    """Let the process die after the first write of an object whose key ends with `at`."""

    def die(call: Call) -> None:
        if call.method == "replace" and call.key.endswith(at) and not written:
            written.append(call)
        elif written:
            raise ProcessDied

    written: list[Call] = []
    with pytest.raises(ProcessDied):
        verb(place.table(FaultyStore(place.store, on_call=die)))


@pytest.mark.parametrize(
    ("verb", "name", "work", "advice"),
    [
        (lambda table: table.create_branch("new", at=1), "new", "creating", "call delete_branch"),
        (lambda table: table.delete_branch("b"), "b", "deleting", "call delete_branch"),
        (lambda table: table.rename_branch("b", "new"), "b", "renaming", "call rename_branch again"),
        (lambda table: table.fast_forward("b"), "b", "forwarding", "call fast_forward again"),
    ],
)
def test_a_branch_that_a_killed_verb_left_is_listed_and_after_an_hour_verify_names_it(
    verb: Any, name: str, work: str, advice: str
) -> None:
    place = place_with_branch()
    kill(place, verb, at=f"branch-{name}/lakehouse/boundary")

    assert {branch.name: branch.work for branch in place.table().branches()} == {"b": None, name: work}
    assert place.table().verify().findings == ()
    place.clock.advance(3_601)
    (finding,) = place.table().verify().findings

    assert (finding.promise, finding.object) == ("I15", f"branch/branch-{name}")
    assert f"a verb has been {work} the branch for 60 minutes" in finding.found
    assert advice in finding.advice


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_commit_to_a_branch_that_was_renamed_is_told_whether_it_is_applied(is_applied: bool) -> None:
    place = place_with_branch()
    staged = place.table().branch("b").stage([{"k": 91, "p": 0, "v": "late"}], commit_user="late", commit_identifier=1)
    if is_applied:
        place.table().branch("b").commit(staged)
    place.table().rename_branch("b", "c")
    told = "It is applied in this branch, as snapshot 3" if is_applied else "It is not applied in this branch. Stage"

    with pytest.raises(lc.InvalidRequest, match=rf"late/1 was staged for db\.t\$branch_b, which was renamed.*{told}"):
        place.table().branch("c").commit(staged)
    with pytest.raises(lc.InvalidRequest, match="Commit it to that table"):
        place.table().commit(staged)


@pytest.mark.parametrize("on_branch", [True, False])
@pytest.mark.parametrize("option", ["data-file.path-directory", "partition.default-name"])
def test_where_files_are_searched_does_not_change_in_a_table_with_branches(option: str, on_branch: bool) -> None:
    place = Place("key, partitions, lookup")
    place.table().create_branch("b")
    table = place.table().branch("b") if on_branch else place.table()

    with pytest.raises(lc.InvalidRequest, match=f"Option {option} cannot change in a table with branches"):
        table.alter(lc.SetOption(option, "other"))

    assert option not in table.schema.options
    place.table().delete_branch("b")
    place.table().alter(lc.SetOption(option, "other"))


def test_a_survey_counts_what_is_due_by_the_grace_of_its_branch() -> None:
    place = place_with_branch()
    place.table().branch("b").alter(lc.SetOption("lakehouse.read.grace", "1 h"))
    place.table().branch("b").overwrite([{"k": 92, "p": 0, "v": "c"}], dynamic=False)
    place.table().branch("b").expire_snapshots(retain_max=1, older_than=NEVER)

    def due() -> int:
        found = survey_table(place.table()._context, warehouse="w", operations=["expire"])
        assert found.expiry is not None
        return found.expiry.due_files

    assert due() == 0
    place.clock.advance(3_601)
    assert due() > 0
