"""A snapshot carries on what its commit does not change."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.snapshot import WrittenLists, next_snapshot
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import ManifestListRef
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from tests.planning.change_vocabulary import CHANGES

LISTS = WrittenLists(
    base=ManifestListRef(name="base", size=1),
    delta=ManifestListRef(name="delta", size=2),
    changelog=ManifestListRef(name="changelog", size=3),
    checksums={},
)


PREVIOUS = Snapshot(
    id=7,
    schema_id=2,
    base_manifest_list="b",
    delta_manifest_list="d",
    index_manifest="index-1",
    commit_user="other",
    commit_identifier=3,
    commit_kind=CommitKind.APPEND,
    time_millis=5000,
    total_record_count=100,
    watermark=40,
    statistics="stat-1",
    properties={"lakehouse.run-id": "of-the-other"},
    next_row_id=12,
)
SCHEMA = TableSchema(id=2, fields=(), highest_field_id=-1, time_millis=17)


def after(previous: Snapshot | None, changes: FileChanges, **more: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "commit_user": "u",
        "commit_identifier": 1,
        "properties": {"lakehouse.run-id": "mine"},
        "uuid": "U",
        "nonce": "N",
        "now_millis": 9000,
    }
    return next_snapshot(previous, changes, LISTS, **(fields | more))


def test_a_snapshot_carries_on_what_its_changes_do_not_touch() -> None:
    snapshot = after(PREVIOUS, CHANGES)

    assert (snapshot.id, snapshot.index_manifest, snapshot.statistics, snapshot.next_row_id, snapshot.watermark) == (
        8,
        "index-1",
        "stat-1",
        12,
        40,
    )
    assert snapshot.properties == {
        "lakehouse.run-id": "mine",
        "lakehouse.nonce": "N",
        "lakehouse.checksums": '{"blake2b-64":{}}',
        "lakehouse.schema-time": "17",
    }


def test_row_counts_add_up() -> None:
    snapshot = after(PREVIOUS, CHANGES)

    assert (snapshot.delta_record_count, snapshot.total_record_count, snapshot.changelog_record_count) == (-10, 90, 5)
    assert after(PREVIOUS, FileChanges(kind=CommitKind.APPEND)).changelog_record_count is None
    assert after(replace_count(PREVIOUS, None), CHANGES).total_record_count is None


def replace_count(snapshot: Snapshot, count: int | None) -> Snapshot:
    return snapshot.model_copy(update={"total_record_count": count})


def test_the_first_snapshot_starts_from_nothing() -> None:
    snapshot = after(None, CHANGES)

    assert (snapshot.id, snapshot.total_record_count, snapshot.watermark, snapshot.statistics) == (1, -10, None, None)
    assert (snapshot.base_manifest_list, snapshot.base_manifest_list_size) == ("base", 1)
    assert (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size) == ("changelog", 3)


@pytest.mark.parametrize(("given", "expected"), [(None, 40), (30, 40), (50, 50)])
def test_the_watermark_never_goes_down(given: int | None, expected: int) -> None:
    assert after(PREVIOUS, CHANGES, watermark=given).watermark == expected


@pytest.mark.parametrize(("now", "expected"), [(4000, 5000), (5001, 5001)])
def test_time_never_goes_back(now: int, expected: int) -> None:
    assert after(PREVIOUS, CHANGES, now_millis=now).time_millis == expected


def test_statistics_of_another_schema_are_dropped() -> None:
    assert after(PREVIOUS, CHANGES, schema=replace(SCHEMA, id=3)).statistics is None
