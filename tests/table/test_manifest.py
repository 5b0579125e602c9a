"""Manifests: Java's files are read and written, later entries undo earlier ones, and columns say what objects say."""

import base64
import io
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.avro_container import build_container, open_container
from lakehouse_core.format.avro_file import read_avro, write_avro
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.table.data_file import EMPTY_ROW, EMPTY_STATS, DataFile, FileSource, SimpleStats
from lakehouse_core.table.manifest import (
    DeletionVectorRange,
    EntryKind,
    GlobalIndex,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
    bucket_rows,
    columns_of,
    concatenate,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_columns,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
    file_identifier,
    merge_columns,
    merge_entries,
)
from lakehouse_core.table.manifest.avro_schemas import MANIFEST_SCHEMA
from lakehouse_core.table.manifest.decoding import FEW_ENTRIES
from lakehouse_core.table.manifest.record_decoding import decode_entries
from lakehouse_core.table.stats import UNREAD_STATS, decode_stats
from tests.damage import damaged, every_flipped_bit, survivors
from tests.vectors.values import section

FILES = section("avro_metadata_files")
LISTS = [case for case in FILES if ":manifest-list" in case["name"]]
MANIFESTS = [case for case in FILES if ":manifest " in case["name"]]
INDEX_MANIFESTS = [case for case in FILES if ":index-manifest" in case["name"]]


def by_name(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def plain(value: Any) -> Any:
    """Return a record of the vectors as a decoder gives it."""
    match value:
        case {"hex": text}:
            return bytes.fromhex(text)
        case {"epoch_millis": millis}:
            return millis
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list():
            return [plain(inner) for inner in value]
    return value


def stored(data: bytes) -> list[dict[str, Any]]:
    """Return the records of a file by an independent decoder, without the fields that are null."""
    schema = open_container(data, "f").schema
    # Without the logical type, for fastavro would make datetimes of numbers.
    plain_schema = json.loads(json.dumps(schema).replace(', "logicalType": "timestamp-millis"', ""))
    file = io.BytesIO(write_avro(plain_schema, read_avro(data, "f"), codec="deflate"))
    return [without_nulls(record) for record in fastavro.reader(file)]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@by_name(FILES)
def test_java_s_files_hold_the_records_that_java_put_there(case: dict[str, Any]) -> None:
    data = base64.b64decode(case["base64"])

    assert read_avro(data, case["name"]) == plain(case["records"])
    assert open_container(data, case["name"]).schema == case["avro_schema"]


@by_name(LISTS)
def test_manifest_lists_are_written_as_they_were_read(case: dict[str, Any]) -> None:
    manifests = decode_manifest_list(base64.b64decode(case["base64"]), case["name"])

    assert stored(encode_manifest_list(manifests)) == [without_nulls(plain(record)) for record in case["records"]]


@by_name(MANIFESTS)
def test_manifests_are_written_as_they_were_read(case: dict[str, Any]) -> None:
    entries = decode_manifest(base64.b64decode(case["base64"]), case["name"], with_stats=True)

    assert stored(encode_manifest(entries)) == [without_nulls(plain(record)) for record in case["records"]]


@by_name(INDEX_MANIFESTS)
def test_index_manifests_are_written_as_they_were_read(case: dict[str, Any]) -> None:
    entries = decode_index_manifest(base64.b64decode(case["base64"]), case["name"])

    assert stored(encode_index_manifest(entries)) == [without_nulls(plain(record)) for record in case["records"]]


def head(name: str) -> dict[str, Any]:
    return next(case for case in FILES if case["name"] == name)


def test_the_schemas_are_java_s_up_to_the_fields_of_later_versions() -> None:
    java = head("head:manifest primary-key")["avro_schema"]
    later = {"_WRITE_COLS_SEQUENCES"}
    java["fields"][5]["type"]["fields"] = [f for f in java["fields"][5]["type"]["fields"] if f["name"] not in later]
    index = [head("head:index-manifest DELETION_VECTORS 32-bit")["avro_schema"]]

    assert open_container(encode_manifest([entry()]), "f").schema == java
    assert (
        open_container(encode_manifest_list([]), "f").schema
        == head("head:manifest-list append partitioned")["avro_schema"]
    )
    assert [open_container(encode_index_manifest([]), "f").schema] == index


def entry(kind: EntryKind = EntryKind.ADD, name: str = "data-1.parquet", **fields: Any) -> ManifestEntry:
    partition, bucket = fields.pop("partition", EMPTY_ROW), fields.pop("bucket", 0)
    given = {"file_size": 100, "row_count": 10, "min_sequence_number": 0, "max_sequence_number": 9, "schema_id": 0}
    file = DataFile(file_name=name, **{**given, **fields})
    return ManifestEntry(kind=kind, partition=partition, bucket=bucket, total_buckets=4, file=file)


# At most 255 bytes in UTF-8.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1, max_size=60).filter(is_file_name)

LONGS = st.integers(-(2**63) + 1, 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
# Rows as partitions and keys have them: an arity, then as many words.
PARTITIONS = st.sampled_from([(2).to_bytes(4, "big") + bytes(8) + bytes([day]) * 16 for day in range(3)])
STATS = st.builds(
    SimpleStats,
    min_values=st.binary(max_size=30),
    max_values=st.binary(max_size=30),
    null_counts=st.none() | st.lists(st.none() | COUNTS, max_size=4).map(tuple),
)
DATA_FILES = st.builds(
    DataFile,
    file_name=NAMES,
    file_size=COUNTS,
    row_count=COUNTS,
    min_key=st.just(EMPTY_ROW) | st.binary(max_size=30),
    max_key=st.just(EMPTY_ROW) | st.binary(max_size=30),
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=LONGS,
    max_sequence_number=LONGS,
    schema_id=COUNTS,
    level=st.integers(0, 5),
    extra_files=st.lists(NAMES, max_size=2).map(tuple),
    creation_time_millis=st.none() | LONGS,
    delete_row_count=st.none() | COUNTS,
    embedded_index=st.none() | st.binary(max_size=20),
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=st.none() | st.lists(st.text(max_size=5), max_size=2).map(tuple),
    external_path=st.none() | st.text(max_size=20),
    first_row_id=st.none() | LONGS,
    write_cols=st.none() | st.lists(st.text(max_size=5), max_size=2).map(tuple),
    write_cols_sequences=st.none() | st.lists(LONGS, max_size=2).map(tuple),
)
ENTRIES = st.builds(
    ManifestEntry,
    kind=st.sampled_from(EntryKind),
    partition=PARTITIONS,
    bucket=st.integers(-2, 2**31 - 1),
    total_buckets=st.integers(-2, 2**31 - 1),
    file=DATA_FILES,
)


@given(st.lists(ENTRIES, max_size=5))
def test_entries_are_read_back(entries: list[ManifestEntry]) -> None:
    assert decode_manifest(encode_manifest(entries), "m", with_stats=True) == entries


@given(st.lists(ENTRIES, min_size=1, max_size=5), st.integers(FEW_ENTRIES, 400))
def test_many_entries_are_read_back_without_an_object_for_each(entries: list[ManifestEntry], count: int) -> None:
    many = [entries[index * index % len(entries)] for index in range(count)]
    data = encode_manifest(many)

    assert decode_manifest(data, "m", with_stats=True) == many
    assert list(decode_manifest_columns(data, "m", with_stats=True).entries()) == many


@given(st.lists(ENTRIES, min_size=1, max_size=5), st.integers(1, 100), st.booleans())
def test_the_vectorised_decoder_agrees_with_the_one_that_goes_record_by_record(
    entries: list[ManifestEntry], count: int, with_stats: bool
) -> None:
    data = encode_manifest([entries[index * index % len(entries)] for index in range(count)])

    def keep(partition: bytes, bucket: int, level: int) -> bool:
        return (partition[-1] + bucket + level) % 2 == 0

    slow = decode_entries(open_container(data, "m"), keep=keep, with_stats=with_stats)

    assert decode_manifest(data, "m", keep=keep, with_stats=with_stats) == slow
    assert list(decode_manifest_columns(data, "m", keep=keep, with_stats=with_stats).entries()) == slow


def test_numbers_of_every_length_are_read_from_columns() -> None:
    many = [
        entry(
            row_count=2**bits - 1,
            min_sequence_number=-(2**bits),
            max_sequence_number=2**bits,
            creation_time_millis=-bits,
        )
        for bits in range(63)
    ]

    assert decode_manifest(encode_manifest(many), "m", with_stats=True) == many


def test_what_looks_like_the_start_of_an_entry_inside_another_misleads_nobody() -> None:
    # Version 2, ADD, a row of twelve bytes: as at the start of each entry of a table without partitions.
    decoy = b"\x04\x00\x18" + bytes(12)
    many = [entry(name=f"f{index}", embedded_index=decoy * (1 + index % 3), min_key=decoy) for index in range(200)]

    assert decode_manifest(encode_manifest(many), "m", with_stats=True) == many


def test_one_object_stands_for_equal_partitions() -> None:
    many = [entry(name=str(index), partition=b"\0\0\0\1" + bytes(16)) for index in range(100)]
    found = decode_manifest(encode_manifest(many), "m")

    assert len({id(one.partition) for one in found}) == 1


@pytest.mark.parametrize("count", [3, 300])
def test_keep_is_asked_before_an_entry_is_made(count: int) -> None:
    many = [entry(name=str(index), bucket=index % 3, level=index % 2) for index in range(count)]
    asked: list[tuple[bytes, int, int]] = []

    def keep(partition: bytes, bucket: int, level: int) -> bool:
        asked.append((partition, bucket, level))
        return bucket == 1

    found = decode_manifest(encode_manifest(many), "m", keep=keep)

    assert [file_identifier(one) for one in found] == [file_identifier(one) for one in many if one.bucket == 1]
    assert set(asked) == {(EMPTY_ROW, one.bucket, one.file.level) for one in many}
    assert len(asked) <= 6


@pytest.mark.parametrize("count", [1, 100])
def test_statistics_that_nobody_asked_for_are_not_read(count: int) -> None:
    data = encode_manifest([entry(value_stats_cols=("a",))] * count)
    found = decode_manifest(data, "m")

    assert all(one.file.key_stats is one.file.value_stats is UNREAD_STATS for one in found)
    assert decode_manifest(data, "m", with_stats=True)[0].file.value_stats == EMPTY_STATS


def test_unread_statistics_are_written_for_a_delete_only() -> None:
    key = b"\0\0\0\1" + bytes(16)
    (added,) = decode_manifest(encode_manifest([entry(min_key=key, max_key=key)]), "m")
    deleted = ManifestEntry(kind=EntryKind.DELETE, partition=EMPTY_ROW, bucket=0, total_buckets=4, file=added.file)

    (found,) = decode_manifest(encode_manifest([deleted]), "m", with_stats=True)

    assert file_identifier(found) == file_identifier(added)
    assert decode_stats(found.file.key_stats, [parse_type("BIGINT")]) == ((None,), (None,), (None,))
    assert (found.file.value_stats, found.file.value_stats_cols) == (EMPTY_STATS, ())
    with pytest.raises(AssertionError, match="with_stats=True"):
        encode_manifest([added])


def record(**changes: Any) -> dict[str, Any]:
    (found,) = read_avro(encode_manifest([entry()]), "m")
    for path, value in changes.items():
        (found["_FILE"] if path in found["_FILE"] else found)[path] = value
    return found


@pytest.mark.parametrize("count", [1, FEW_ENTRIES * 2])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"_KIND": 2}, "_KIND is 2, expected 0"),
        ({"_BUCKET": -3}, "_BUCKET is -3"),
        ({"_FILE_SIZE": -1}, "_FILE_SIZE is -1"),
        ({"_ROW_COUNT": -1}, "_ROW_COUNT is -1"),
        ({"_LEVEL": -1}, "_LEVEL is -1"),
        ({"_FILE_SOURCE": 2}, "_FILE_SOURCE is 2"),
        ({"_DELETE_ROW_COUNT": -5}, "_DELETE_ROW_COUNT is -5"),
    ],
)
def test_a_field_that_cannot_be_is_named_with_its_record(count: int, change: dict[str, Any], reason: str) -> None:
    data = write_avro(MANIFEST_SCHEMA, [*[record()] * (count - 1), record(**change)])

    with pytest.raises(CorruptTable, match=rf"^manifest-x: record {count - 1}.*{reason}"):
        decode_manifest(data, "manifest-x")


@pytest.mark.parametrize(("version", "advice"), [(1, "create the table anew"), (3, "upgrade before reading")])
@pytest.mark.parametrize("count", [1, 100])
def test_other_versions_are_unsupported(version: int, advice: str, count: int) -> None:
    data = write_avro(MANIFEST_SCHEMA, [record(_VERSION=version)] * count)

    with pytest.raises(UnsupportedFeature, match=advice):
        decode_manifest(data, "m")


def renamed(schema: Any, changes: dict[str, Any]) -> Any:
    """Return a schema with some fields given another type, or left out where the type is None."""
    if isinstance(schema, list):
        return [renamed(inner, changes) for inner in schema if not _is_left_out(inner, changes)]
    if isinstance(schema, dict):
        changed = {name: renamed(inner, changes) for name, inner in schema.items()}
        if schema.get("name") in changes:
            return {"name": schema["name"], "type": changes[schema["name"]]}
        return changed
    return schema


def _is_left_out(field: Any, changes: dict[str, Any]) -> bool:
    return isinstance(field, dict) and field.get("name") in changes and changes[field["name"]] is None


@pytest.mark.parametrize("count", [1, 100])
def test_fields_of_later_versions_may_be_missing(count: int) -> None:
    schema = renamed(MANIFEST_SCHEMA, dict.fromkeys(("_EXTERNAL_PATH", "_FIRST_ROW_ID", "_FILE_SOURCE", "_WRITE_COLS")))
    found = decode_manifest(write_avro(schema, [record()] * count), "m")

    assert found[-1].file.file_source is None
    assert (found[-1].file.external_path, found[-1].file.first_row_id, found[-1].file.write_cols) == (None, None, None)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("field", ["_FILE_NAME", "_EXTRA_FILES", "_KEY_STATS", "_BUCKET", "_VERSION"])
def test_fields_of_every_version_may_not_be_missing(field: str, count: int) -> None:
    data = write_avro(renamed(MANIFEST_SCHEMA, {field: None}), [record()] * count)

    with pytest.raises(CorruptTable, match=field):
        decode_manifest(data, "m", with_stats=True)


@pytest.mark.parametrize("count", [1, 100])
def test_a_field_of_another_type_is_corrupt_and_not_believed(count: int) -> None:
    data = write_avro(renamed(MANIFEST_SCHEMA, {"_ROW_COUNT": "string"}), [record(_ROW_COUNT="7")] * count)

    with pytest.raises(CorruptTable, match="_ROW_COUNT is '7'"):
        decode_manifest(data, "m")


@pytest.mark.parametrize("count", [1, 100])
def test_nullability_and_unknown_fields_of_other_writers_do_not_matter(count: int) -> None:
    schema = renamed(MANIFEST_SCHEMA, {"_BUCKET": ["null", "int"], "_DELETE_ROW_COUNT": "long"})
    schema["fields"].insert(1, {"name": "_FUTURE", "type": ["null", {"type": "map", "values": "long"}]})
    data = write_avro(schema, [{**record(), "_FUTURE": {"a": 1}}] * count)

    assert decode_manifest(data, "m", with_stats=True) == [entry()] * count


def test_every_flipped_bit_of_a_manifest_is_noticed_or_changes_nothing() -> None:
    entries = [entry(), entry(EntryKind.DELETE, "data-2.parquet", level=5)]
    data = encode_manifest(entries)

    assert survivors(lambda copy: decode_manifest(copy, "m", with_stats=True), every_flipped_bit(data), entries) == []


@pytest.mark.parametrize("seed", range(3))
def test_damage_to_a_long_manifest_is_noticed_or_changes_nothing(seed: int) -> None:
    entries = [entry(name=f"data-{index}", bucket=index % 7) for index in range(200)]
    data = encode_manifest(entries)

    assert (
        survivors(lambda c: decode_manifest(c, "m", with_stats=True), damaged(data, seed=seed, count=300), entries)
        == []
    )


def test_damage_that_checksums_cannot_show_ends_in_entries_or_in_corrupt() -> None:
    # Whoever writes without checksums leaves the decoders alone with the bytes: here the blocks themselves are hit.
    container = open_container(encode_manifest([entry(name=f"data-{index}") for index in range(100)]), "m")
    (block,) = container.blocks
    schema = json.dumps(container.schema)

    for content in damaged(block.data, seed=3, count=300):
        file = build_container(schema, [(block.count, content)], codec="null", metadata={})
        fast = _outcome(partial(decode_manifest, file, "m", with_stats=True))
        slow = _outcome(partial(decode_entries, open_container(file, "m"), keep=None, with_stats=True))
        assert fast == slow


def _outcome(read: Callable[[], list[ManifestEntry]]) -> object:
    try:
        return read()
    except (CorruptTable, UnsupportedFeature) as error:
        return str(error)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(EntryKind),
        st.sampled_from(["a", "b", "c", "data-with-a-longer-name-1", "data-with-a-longer-name-2"]),
        st.integers(0, 1),
        st.sampled_from([(), ("x.index",)]),
    ),
    max_size=12,
)


def merged(merge: Callable[[], Any]) -> Any:
    try:
        return list(merge())
    except CorruptTable as error:
        return str(error)


@given(STEPS)
def test_columns_merge_as_entries_do(steps: list[tuple[EntryKind, str, int, tuple[str, ...]]]) -> None:
    entries = [entry(kind, name, level=level, extra_files=extra) for kind, name, level, extra in steps]

    assert merged(lambda: merge_columns(columns_of(entries)).entries()) == merged(lambda: merge_entries(entries))


def test_a_file_that_was_added_and_deleted_is_gone_and_one_deleted_elsewhere_stays_as_a_delete() -> None:
    add, delete, unknown = entry(), entry(EntryKind.DELETE), entry(EntryKind.DELETE, "other")

    assert merge_entries([add, unknown, delete]) == [unknown]


def test_a_file_may_come_back() -> None:
    assert merge_entries([entry(), entry(EntryKind.DELETE), entry()]) == [entry()]


def test_a_file_moved_to_another_level_is_live_there() -> None:
    upgraded = entry(level=5)

    assert merge_entries([entry(), entry(EntryKind.DELETE), upgraded]) == [upgraded]


def test_a_live_file_added_again_is_corrupt() -> None:
    with pytest.raises(CorruptTable, match=r"data-1\.parquet in bucket 0 at level 0 is added twice"):
        merge_entries([entry(), entry()])
    with pytest.raises(CorruptTable, match=r"data-1\.parquet in bucket 0 at level 0 is added twice"):
        merge_columns(columns_of([entry(), entry()]))


@given(st.lists(st.lists(ENTRIES, max_size=3), max_size=4))
def test_columns_of_several_manifests_are_joined_in_order(parts: list[list[ManifestEntry]]) -> None:
    together = concatenate(columns_of(part) for part in parts)

    assert list(together.entries()) == [one for part in parts for one in part]


@given(st.lists(st.tuples(PARTITIONS, st.integers(-2, 2)), max_size=12))
def test_buckets_come_in_the_order_in_which_they_occur(places: list[tuple[bytes, int]]) -> None:
    columns = columns_of([entry(partition=partition, bucket=bucket) for partition, bucket in places])

    found = [((group.partition, group.bucket), group.rows.tolist()) for group in bucket_rows(columns)]

    assert found == [
        (place, [row for row, other in enumerate(places) if other == place]) for place in dict.fromkeys(places)
    ]


def test_columns_without_variety_take_no_memory() -> None:
    columns = decode_manifest_columns(encode_manifest([entry(name=str(index)) for index in range(200)]), "m")

    assert columns.first_row_ids.strides == columns.schema_ids.strides == (0,)
    assert columns.min_keys is None
    assert np.array_equal(columns.take(np.array([3, 1])).file_names.to_pylist(), ["3", "1"])


def test_index_manifests_keep_every_field() -> None:
    ranges = (DeletionVectorRange(data_file_name="a", offset=1, length=22, cardinality=3),)
    index = GlobalIndex(row_range_start=0, row_range_end=9, index_field_id=2, extra_field_ids=(3,), index_meta=b"m")
    entries = [
        IndexManifestEntry(
            partition=EMPTY_ROW,
            bucket=0,
            index_type="DELETION_VECTORS",
            file_name="index-1",
            file_size=30,
            row_count=1,
            deletion_vectors=ranges,
            external_path="file:/x",
            global_index=index,
        )
    ]

    assert decode_index_manifest(encode_index_manifest(entries), "i") == entries


@by_name(LISTS[:1] + INDEX_MANIFESTS[:1])
def test_damage_to_lists_is_noticed_or_changes_nothing(case: dict[str, Any]) -> None:
    data = base64.b64decode(case["base64"])
    decode: Callable[[bytes, str], Any] = decode_manifest_list if case in LISTS else decode_index_manifest
    encode: Callable[[Any], bytes] = encode_manifest_list if case in LISTS else encode_index_manifest
    expected = decode(data, "f")

    assert survivors(lambda copy: decode(copy, "f"), damaged(encode(expected), seed=1, count=400), expected) == []


def test_a_manifest_list_keeps_what_was_not_recorded_apart_from_zero() -> None:
    manifests = [
        ManifestFile(
            file_name="manifest-1",
            file_size=10,
            num_added_files=1,
            num_deleted_files=0,
            partition_stats=EMPTY_STATS,
            schema_id=0,
            min_bucket=0,
        )
    ]

    assert decode_manifest_list(encode_manifest_list(manifests), "l") == manifests
