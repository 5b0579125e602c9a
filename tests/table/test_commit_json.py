"""Staged commits survive their JSON unchanged, and nothing half-understood is ever committed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.table.commit_json import messages_from_json, messages_to_json
from lakehouse_core.table.commit_message import (
    BATCH_IDENTIFIER,
    Append,
    CommitMessage,
    DynamicOverwrite,
    StaticOverwrite,
)
from lakehouse_core.table.data_file import DataFile, FileSource, SimpleStats
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DELETION_VECTORS, HASH_INDEX, DeletionVectorRange
from lakehouse_core.table.staged_commit import StagedCommit

I64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
NAME = st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda name: name not in (".", "..")
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
STATS = st.builds(
    SimpleStats,
    min_values=st.binary(),
    max_values=st.binary(),
    null_counts=st.none() | st.lists(st.none() | I64).map(tuple),
)
FILES = st.builds(
    DataFile,
    file_name=NAME,
    file_size=COUNT,
    row_count=COUNT,
    min_key=st.binary(),
    max_key=st.binary(),
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=I64,
    max_sequence_number=I64,
    schema_id=COUNT,
    level=st.integers(0, 5),
    extra_files=st.lists(NAME).map(tuple),
    creation_time_millis=st.none() | I64,
    delete_row_count=st.none() | COUNT,
    embedded_index=st.none() | st.binary(),
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=st.none() | st.lists(TEXT).map(tuple),
    external_path=st.none() | TEXT,
    first_row_id=st.none() | I64,
    write_cols=st.none() | st.lists(TEXT).map(tuple),
    write_cols_sequences=st.none() | st.lists(I64).map(tuple),
)
FEW = st.lists(FILES, max_size=2).map(tuple)
VECTORS = st.builds(DeletionVectorRange, data_file_name=NAME, offset=COUNT, length=COUNT, cardinality=st.none() | COUNT)
INDEXES = st.lists(
    st.builds(
        IndexFile,
        index_type=st.sampled_from([DELETION_VECTORS, HASH_INDEX]),
        file_name=NAME,
        file_size=COUNT,
        row_count=COUNT,
        deletion_vectors=st.none() | st.lists(VECTORS, max_size=2).map(tuple),
    ),
    max_size=1,
).map(tuple)
MESSAGES = st.builds(
    CommitMessage,
    partition=st.binary(),
    bucket=st.integers(-2, 100),
    total_buckets=st.integers(-2, 100),
    new_files=FEW,
    deleted_files=FEW,
    changelog_files=FEW,
    compact_before=FEW,
    compact_after=FEW,
    compact_changelog_files=FEW,
    new_index_files=INDEXES,
    deleted_index_files=INDEXES,
    compact_new_index_files=INDEXES,
    compact_deleted_index_files=INDEXES,
    read_index_files=INDEXES,
)
STAGED = st.builds(
    StagedCommit,
    table=TEXT,
    commit_user=TEXT,
    commit_identifier=I64,
    mode=st.just(Append())
    | st.just(DynamicOverwrite())
    | st.builds(StaticOverwrite, st.dictionaries(TEXT, TEXT, max_size=2)),
    messages=st.lists(MESSAGES, max_size=2).map(tuple),
    schema_id=COUNT,
    base_snapshot_id=st.none() | COUNT,
    properties=st.dictionaries(TEXT, TEXT, max_size=2),
    watermark=st.none() | I64,
)

FILE = DataFile(
    file_name="data-1.parquet",
    file_size=100,
    row_count=3,
    min_key=b"\1",
    max_key=b"\2",
    min_sequence_number=0,
    max_sequence_number=2,
    schema_id=0,
)
MESSAGE = CommitMessage(partition=b"\0\0\0\1", bucket=0, total_buckets=1, new_files=(FILE,))
ONE = StagedCommit(
    table="db.t",
    commit_user="flights/2013-01-01",
    commit_identifier=BATCH_IDENTIFIER,
    mode=Append(),
    messages=(MESSAGE,),
    schema_id=0,
)


@given(STAGED)
def test_a_staged_commit_comes_back_equal(staged: StagedCommit) -> None:
    assert StagedCommit.from_json(staged.to_json()) == staged


@given(st.lists(MESSAGES, max_size=3))
def test_messages_come_back_equal_and_in_order(messages: list[CommitMessage]) -> None:
    assert messages_from_json(messages_to_json(messages)) == tuple(messages)


def test_the_form_of_version_1_never_changes() -> None:
    assert replace(ONE, base_snapshot_id=4, properties={"lakehouse.run-id": "r"}).to_json() == (
        '{"version":1,"table":"db.t","commitUser":"flights/2013-01-01","commitIdentifier":9223372036854775807,'
        '"mode":{"kind":"append"},"messages":[{"partition":"AAAAAQ==","bucket":0,"totalBuckets":1,"newFiles":['
        '{"fileName":"data-1.parquet","fileSize":100,"rowCount":3,"minKey":"AQ==","maxKey":"Ag==",'
        '"minSequenceNumber":0,"maxSequenceNumber":2,"schemaId":0}]}],"schemaId":0,"baseSnapshotId":4,'
        '"properties":{"lakehouse.run-id":"r"}}'
    )


def test_the_form_of_version_2_never_changes() -> None:
    vector = DeletionVectorRange(data_file_name="data-1.parquet", offset=1, length=22, cardinality=1)
    index = IndexFile(
        index_type=DELETION_VECTORS, file_name="index-1", file_size=31, row_count=1, deletion_vectors=(vector,)
    )
    message = CommitMessage(
        partition=b"\0\0\0\1",
        bucket=0,
        total_buckets=1,
        new_index_files=(index,),
        compact_deleted_index_files=(replace(index, deletion_vectors=None),),
    )

    assert messages_to_json([message]) == (
        '{"version":2,"messages":[{"partition":"AAAAAQ==","bucket":0,"totalBuckets":1,"newIndexFiles":['
        '{"indexType":"DELETION_VECTORS","fileName":"index-1","fileSize":31,"rowCount":1,"deletionVectors":['
        '{"dataFileName":"data-1.parquet","offset":1,"length":22,"cardinality":1}]}],"compactDeletedIndexFiles":['
        '{"indexType":"DELETION_VECTORS","fileName":"index-1","fileSize":31,"rowCount":1}]}]}'
    )


def test_vectors_with_checksums_are_version_3() -> None:
    vector = DeletionVectorRange(data_file_name="data-1.parquet", offset=1, length=22, checksum=7)
    index = IndexFile(
        index_type=DELETION_VECTORS, file_name="index-1", file_size=31, row_count=1, deletion_vectors=(vector,)
    )
    message = CommitMessage(partition=b"\0\0\0\1", bucket=0, total_buckets=1, new_index_files=(index,))

    text = messages_to_json([message])
    ((again,),) = (one.new_index_files for one in messages_from_json(text))

    assert text.startswith('{"version":3,')
    assert [one.checksum for one in again.deletion_vectors or ()] == [7]


def changed(path: tuple[str | int, ...], value: Any) -> str:
    """Return the JSON of `ONE` with one place set to `value` (removed when it is `...`)."""
    document = json.loads(ONE.to_json())
    place = document
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


FIRST_FILE = ("messages", 0, "newFiles", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), 0, r"staged commit\.version is 0, expected 1 to 5"),
        (("version",), True, r"staged commit\.version is True"),
        (("version",), ..., r"staged commit\.version is None, expected 1 to 5"),
        (("table",), ..., r"staged commit\.table is None, expected a value"),
        (("commitUser",), 7, r"staged commit\.commitUser is 7, expected a string"),
        (("commitIdentifier",), 2**63, "expected a 64-bit integer"),
        (("commitIdentifier",), True, "expected a 64-bit integer"),
        (("commitIdentifier",), "7", "expected a 64-bit integer"),
        (("surprise",), 1, r"staged commit\.surprise is 1, expected no such field in version 5"),
        (("mode",), "append", "expected the kind append"),
        (("mode",), {"kind": "upsert"}, "expected the kind append"),
        (("mode",), {"kind": "append", "partition": {}}, "expected the kind append"),
        (("mode",), {"kind": "static-overwrite", "partition": {"dt": 1}}, r"partition\.dt is 1, expected a string"),
        (("messages",), {}, r"messages is \{\}, expected a list"),
        (("messages", 0), None, r"messages\[0\] is None, expected an object"),
        (("messages", 0, "partition"), "not base64!", "expected base64"),
        (("messages", 0, "bucket"), ..., r"messages\[0\]\.bucket is None, expected a value"),
        ((*FIRST_FILE, "rowCount"), -1, r"messages\[0\]\.newFiles\[0\]\.rowCount is -1, expected 0 or more"),
        ((*FIRST_FILE, "fileName"), "../../other/t/x", "expected a plain file name"),
        ((*FIRST_FILE, "extraFiles"), [".."], r"extraFiles\[0\] is '\.\.', expected a plain file name"),
        ((*FIRST_FILE, "fileSource"), 2, r"fileSource is 2, expected 0 \(append\) or 1 \(compact\)"),
        ((*FIRST_FILE, "valueStats"), {"nullCounts": [0.5]}, "0.5 is not an integer"),
        (("properties",), {"a": None}, r"properties\.a is None, expected a string"),
    ],
)
def test_a_text_that_is_not_wholly_understood_is_refused(path: tuple[str | int, ...], value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        StagedCommit.from_json(changed(path, value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"version":1',
        '{"version":1,"version":1}',
        '{"version":1,"watermark":NaN}',
        "[" * 100_000,
        '{"version":1,"watermark":' + "9" * 5000 + "}",
        ONE.to_json()[:-1],
        ONE.to_json() + "x",
    ],
)
def test_what_is_not_one_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="staged commit"):
        StagedCommit.from_json(text)


def test_a_newer_version_is_not_guessed() -> None:
    with pytest.raises(UnsupportedFeature, match="its version is 6"):
        StagedCommit.from_json(changed(("version",), 6))


@pytest.mark.parametrize("text", ['{"version":1}', '{"version":1,"messages":3}', '{"version":1,"messages":[],"x":1}'])
def test_messages_are_read_as_strictly(text: str) -> None:
    with pytest.raises(InvalidRequest, match="commit messages"):
        messages_from_json(text)
