"""Snapshots, changelogs, tags and consumers: what is stored, what is refused."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, CommitKind
from lakehouse_core.table.snapshot import (
    Snapshot,
    Tag,
    new_tag,
    parse_consumer,
    parse_snapshot,
    parse_tag,
    serialize_consumer,
    serialize_snapshot,
    serialize_tag,
)
from lakehouse_core.table.statistics import parse_statistics, serialize_statistics
from tests.damage import damaged, every_flipped_bit, survivors

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "vectors.json").read_text())["json_files"]
JAVA_2 = [case for case in VECTORS if "2.1" in case["produced_by"]]


def cases(kind: str, vectors=VECTORS):
    return [
        pytest.param(case["file"], case["text"], id=f"{case['produced_by'][:12]}-{case['file']}")
        for case in vectors
        if f"/{kind}-" in case["file"]
    ]


def a_snapshot(**fields) -> Snapshot:
    given = {
        "id": 7,
        "schema_id": 0,
        "base_manifest_list": "manifest-list-u-0",
        "delta_manifest_list": "manifest-list-u-1",
        "commit_user": "u",
        "commit_identifier": BATCH_IDENTIFIER,
        "commit_kind": CommitKind.APPEND,
        "time_millis": 1_795_224_503_394,
        "properties": {"lakehouse.run-id": "é"},
    }
    return Snapshot(**{**given, **fields})


def test_a_snapshot_is_shown_without_the_long_values_of_its_properties():
    shown = repr(a_snapshot(properties={"lakehouse.ledger": "1" * 10_000, "made-by": "the nightly job"}))

    assert "'lakehouse.ledger': '…', 'made-by': 'the nightly job'" in shown
    assert "watermark" not in shown


def without_checksum(data: bytes) -> str:
    return re.sub(r',\n  "lakehouseCrc32" : "[0-9a-f]{8}"', "", data.decode())


@pytest.mark.parametrize(("file", "text"), cases("snapshot") + cases("changelog"))
def test_snapshots_of_java_are_read_and_their_values_kept(file, text):
    snapshot = parse_snapshot(text.encode(), file)
    stored = {name: value for name, value in json.loads(text).items() if name != "logOffsets" and value is not None}

    assert json.loads(without_checksum(serialize_snapshot(snapshot))) == stored
    assert parse_snapshot(serialize_snapshot(snapshot), file) == snapshot


@pytest.mark.parametrize(("file", "text"), cases("snapshot", JAVA_2) + cases("changelog", JAVA_2))
def test_snapshots_are_written_byte_for_byte_as_java_does(file, text):
    assert without_checksum(serialize_snapshot(parse_snapshot(text.encode(), file))) == text


@pytest.mark.parametrize(("file", "text"), cases("tag", JAVA_2))
def test_tags_are_written_byte_for_byte_as_java_does(file, text):
    assert without_checksum(serialize_tag(parse_tag(text.encode(), file))) == text


@pytest.mark.parametrize(("file", "text"), cases("tag"))
def test_tags_of_java_are_read(file, text):
    tag = parse_tag(text.encode(), file)

    assert parse_tag(serialize_tag(tag), file) == tag
    assert (tag.time_retained_millis == 86_400_000) is file.endswith("t1")


@pytest.mark.parametrize(("file", "text"), cases("consumer"))
def test_consumers_of_java_are_read_and_written(file, text):
    next_id = parse_consumer(text.encode(), file)

    assert json.loads(without_checksum(serialize_consumer(next_id))) == json.loads(text)


@pytest.mark.parametrize(("file", "text"), cases("stat"))
def test_statistics_of_java_are_read_and_written_byte_for_byte(file, text):
    assert without_checksum(serialize_statistics(parse_statistics(text.encode(), file))) == text


def test_a_commit_identifier_keeps_all_its_64_bits():
    assert parse_snapshot(serialize_snapshot(a_snapshot()), "f").commit_identifier == 9223372036854775807


def test_explicit_nulls_of_older_java_mean_absent():
    text = json.dumps(json.loads(serialize_snapshot(a_snapshot(properties={}))) | {"changelogManifestList": None})
    text = re.sub(r', "lakehouseCrc32": "[0-9a-f]*"', "", text)

    assert parse_snapshot(text.encode(), "f") == a_snapshot(properties={})
    assert "null" not in serialize_snapshot(a_snapshot()).decode()


def test_unknown_fields_are_ignored():
    text = without_checksum(serialize_snapshot(a_snapshot())).replace(
        '"id"', '"fromTheFuture" : { "x" : [ 1 ] },\n  "id"'
    )

    assert parse_snapshot(text.encode(), "f") == a_snapshot()


def test_a_newer_version_is_refused_as_unsupported():
    with pytest.raises(UnsupportedFeature, match="snapshot version is 4"):
        parse_snapshot(without_checksum(serialize_snapshot(a_snapshot(version=4))).encode(), "snapshot/snapshot-7")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "7"}, "id"),
        ({"id": 0}, "id"),
        ({"id": True}, "id"),
        ({"schemaId": -1}, "schemaId"),
        ({"commitKind": "MERGE"}, "commitKind"),
        ({"commitUser": None}, "commitUser"),
        ({"timeMillis": 1.5}, "timeMillis"),
        ({"version": "3"}, "version"),
        ({"baseManifestList": ""}, "baseManifestList"),
        ({"baseManifestList": "../../etc/passwd"}, "baseManifestList"),
        ({"indexManifest": ".."}, "indexManifest"),
        ({"properties": {"a": 1}}, "properties.a"),
        ({"properties": ["a"]}, "properties"),
    ],
)
def test_a_wrong_field_is_named(change, field):
    document = json.loads(without_checksum(serialize_snapshot(a_snapshot()))) | change

    with pytest.raises(CorruptTable, match=rf"^snapshot/snapshot-7: field {re.escape(field)} is"):
        parse_snapshot(json.dumps(document).encode(), "snapshot/snapshot-7")


@pytest.mark.parametrize("key", ["snapshot/snapshot-8", "branch/branch-b/snapshot/snapshot-8", "changelog/changelog-8"])
def test_a_file_under_the_id_of_another_is_refused(key):
    with pytest.raises(CorruptTable, match="holds snapshot 7, expected 8"):
        parse_snapshot(serialize_snapshot(a_snapshot()), key)


def test_a_name_that_starts_like_a_snapshot_carries_no_id():
    assert parse_snapshot(serialize_snapshot(a_snapshot()), "tag/tag-snapshot-8") == a_snapshot()


def test_a_new_tag_records_local_time_and_retention_only_when_it_ends():
    kept = new_tag(a_snapshot(), name="t", local_now_millis=1_700_000_000_123, retained_millis=90_061_007)

    assert new_tag(a_snapshot(), name="t", local_now_millis=0, retained_millis=None) == Tag(snapshot=a_snapshot())
    assert kept.tag_create_time == (2023, 11, 14, 22, 13, 20, 123_000_000)
    assert kept.tag_time_retained == Decimal("90061.007")
    assert (kept.create_time_millis, kept.time_retained_millis) == (1_700_000_000_123, 90_061_007)


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 10**15))
def test_tags_are_read_back(millis, retained):
    tag = new_tag(a_snapshot(), name="t", local_now_millis=millis // 1000 * 1000, retained_millis=retained)

    assert parse_tag(serialize_tag(tag), "tag/tag-t") == tag


@pytest.mark.parametrize("parts", [[2024, 1, 1, 0], [2024, 13, 1, 0, 0], [2024, 1, 1, 0, 0, 0, 10**9], "x", [True] * 5])
def test_a_tag_made_at_no_time_is_refused(parts):
    document = json.loads(without_checksum(serialize_snapshot(a_snapshot()))) | {"tagCreateTime": parts}

    with pytest.raises(CorruptTable, match="tagCreateTime"):
        parse_tag(json.dumps(document).encode(), "tag/tag-t")


def test_every_flipped_bit_of_a_snapshot_is_noticed_or_changes_nothing():
    data = serialize_snapshot(a_snapshot(changelog_record_count=0, total_record_count=12, next_row_id=0))
    expected = parse_snapshot(data, "f")

    assert survivors(lambda copy: parse_snapshot(copy, "f"), every_flipped_bit(data), expected) == []


@pytest.mark.parametrize("seed", range(5))
def test_damaged_snapshots_and_tags_are_noticed(seed):
    tag = new_tag(a_snapshot(), name="t", local_now_millis=1_700_000_000_123, retained_millis=5)
    data = serialize_tag(tag)

    assert survivors(lambda copy: parse_tag(copy, "f"), damaged(data, seed=seed, count=300), tag) == []


@pytest.mark.parametrize("length", range(0, 120, 7))
def test_a_cut_snapshot_is_corrupt_never_absent(length):
    with pytest.raises(CorruptTable, match=r"^snapshot/snapshot-7: "):
        parse_snapshot(serialize_snapshot(a_snapshot())[:length], "snapshot/snapshot-7")


@pytest.mark.parametrize("text", ["{}", '{"nextSnapshot":0}', '{"nextSnapshot":"1"}', '{"nextSnapshot":true}'])
def test_a_consumer_without_a_snapshot_is_refused(text):
    with pytest.raises(CorruptTable, match="nextSnapshot"):
        parse_consumer(text.encode(), "consumer/consumer-c")


def test_statistics_with_a_wrong_field_are_refused():
    with pytest.raises(CorruptTable, match=r"colStats\.a\.colId"):
        parse_statistics(b'{"snapshotId":1,"schemaId":0,"colStats":{"a":{"colId":"x"}}}', "statistics/stat-1")
