import json

import pytest

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.planning.expiry.deletion import as_roots, is_due
from lakehouse_core.table.deletion_plan import DeletionPlan, DeletionStage, parse_plan, serialize_plan
from lakehouse_core.table.manifest import ManifestListRef
from lakehouse_core.table.root import Root, RootKind
from tests.damage import damaged, survivors


def root(snapshot_id: int) -> Root:
    return Root(
        key=f"snapshot/snapshot-{snapshot_id}",
        kind=RootKind.SNAPSHOT,
        history="",
        snapshot_id=snapshot_id,
        base=ManifestListRef(name=f"manifest-list-{snapshot_id}-0", size=1000),
        delta=ManifestListRef(name=f"manifest-list-{snapshot_id}-1"),
    )


def plan(**changes: object) -> DeletionPlan:
    fields = {
        "uuid": "6f2c",
        "kind": RootKind.SNAPSHOT,
        "roots": (root(4), root(5)),
        "successor": root(6),
        "made_changelog_ids": (5,),
    }
    return DeletionPlan(**{**fields, **changes})


def test_a_plan_is_read_back_as_it_was_written():
    for written in (plan(), plan(stage=DeletionStage.WAITING, waiting_since_millis=7, file_count=3, size_bytes=90)):
        assert parse_plan(serialize_plan(written), written.key) == written


def test_the_history_of_a_root_is_stored_as_lineage():
    roots = json.loads(serialize_plan(plan()))["roots"]

    assert [list(stored) for stored in roots] == [["key", "kind", "lineage", "snapshot_id", "base", "delta"]] * 2


def test_a_plan_lies_in_our_own_folder_under_its_uuid():
    assert plan().key == "lakehouse/plan-6f2c.json"


def test_what_lies_below_the_last_root_is_unlinked():
    assert plan().first_kept_id == 6


@pytest.mark.parametrize(
    ("stage", "since", "due"),
    [
        (DeletionStage.UNLINKING, None, False),
        (DeletionStage.WAITING, 940, False),
        (DeletionStage.WAITING, 900, True),
        (DeletionStage.DELETING, 940, True),
    ],
)
def test_files_go_when_the_wait_is_over_or_the_deleting_had_begun(stage, since, due):
    assert is_due(plan(stage=stage, waiting_since_millis=since), grace_millis=100, now_millis=1000) is due


def test_a_plan_that_waits_is_a_root_of_its_own_history():
    roots = as_roots(plan())

    assert {found.key for found in roots} == {"lakehouse/plan-6f2c.json"}
    assert [found.snapshot_id for found in roots] == [4, 5]
    assert {found.history for found in roots} == {"lakehouse/plan-6f2c.json/"}


def edited(**changes: object) -> bytes:
    document = {**json.loads(serialize_plan(plan())), **changes}
    return json.dumps({key: value for key, value in document.items() if key != "lakehouseCrc32"}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        edited(stage="thinking"),
        edited(roots=[]),
        edited(uuid="another"),
        edited(surprise=1),
        edited(roots=[{"key": "snapshot/snapshot-1"}]),
    ],
)
def test_a_plan_that_is_not_understood_whole_is_corrupt(data):
    with pytest.raises(CorruptTable, match=r"lakehouse/plan-6f2c\.json"):
        parse_plan(data, plan().key)


def test_a_plan_of_a_newer_version_is_refused():
    with pytest.raises(UnsupportedFeature, match="plan version is 3, expected 2"):
        parse_plan(edited(version=3), plan().key)


def test_a_damaged_plan_is_never_taken_for_another():
    data = serialize_plan(plan())

    assert survivors(lambda spoiled: parse_plan(spoiled, plan().key), damaged(data, seed=3, count=400), plan()) == []
