"""Where a table's metadata lies, on its main branch and on another. These keys are stored in every table."""

import pytest

from lakehouse_core.table.layout import (
    MAIN,
    TABLE_FOLDERS,
    TableLayout,
    deletion_plan_key,
    index_key,
    is_deletion_plan,
    manifest_key,
    statistics_key,
)

# What it is, on the main branch, on the branch "b".
KEYS = """
snapshot(3)              snapshot/snapshot-3              branch/branch-b/snapshot/snapshot-3
changelog(3)             changelog/changelog-3            branch/branch-b/changelog/changelog-3
schema(0)                schema/schema-0                  branch/branch-b/schema/schema-0
tag("t")                 tag/tag-t                        branch/branch-b/tag/tag-t
consumer("c")            consumer/consumer-c              branch/branch-b/consumer/consumer-c
hints.latest             snapshot/LATEST                  branch/branch-b/snapshot/LATEST
hints.earliest           snapshot/EARLIEST                branch/branch-b/snapshot/EARLIEST
hints.latest_changelog   changelog/LATEST                 branch/branch-b/changelog/LATEST
hints.earliest_changelog changelog/EARLIEST               branch/branch-b/changelog/EARLIEST
boundary                 lakehouse/boundary               branch/branch-b/lakehouse/boundary
staged_commit("..",7) lakehouse/pending/commit-..-7.json lakehouse/pending/on-8472c2e34d854f75-commit-..-7.json
staged_commit("a/b",7) lakehouse/pending/commit-a%2Fb-7.json lakehouse/pending/on-8472c2e34d854f75-commit-a%2Fb-7.json
"""


@pytest.mark.parametrize("line", KEYS.strip().splitlines())
def test_each_kind_of_metadata_has_its_key_on_every_branch(line):
    member, on_main, on_branch = line.split()

    assert eval(f"layout.{member}", {"layout": MAIN}) == on_main
    assert eval(f"layout.{member}", {"layout": TableLayout("b")}) == on_branch


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (manifest_key("m"), "manifest/m"),
        (index_key("i"), "index/i"),
        (statistics_key("s"), "statistics/s"),
        (deletion_plan_key("6f2c"), "lakehouse/plan-6f2c.json"),
    ],
)
def test_each_kind_of_file_that_all_branches_share_has_its_key(key, expected):
    assert key == expected


def test_all_metadata_of_the_main_branch_lies_in_folders_that_no_data_may_have():
    keys = [line.split()[1] for line in KEYS.strip().splitlines()]
    keys += [manifest_key("m"), index_key("i"), statistics_key("s")]

    assert {key.partition("/")[0] for key in keys} == TABLE_FOLDERS - {"branch"}
    assert TableLayout("b").prefix.partition("/")[0] in TABLE_FOLDERS


def test_commits_of_long_user_names_that_begin_alike_have_keys_of_their_own():
    first, second = (TableLayout().staged_commit("u" * 300 + end, 1) for end in "ab")

    assert first != second
    assert len(first.rpartition("/")[2]) < 200


def test_a_deletion_plan_is_known_by_its_name():
    assert is_deletion_plan("plan-6f2c.json")
    assert not is_deletion_plan("boundary")
