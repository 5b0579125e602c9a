"""Commit messages as JSON: the results of tasks, and the body of a staged commit.

Versions 1 to 5. Names follow Paimon's DataFileMeta and commit messages.
Source: docs/semantics/commit.md#commit-message.
"""

from collections.abc import Sequence
from typing import Any

from lakehouse_core.table.commit_codecs import (
    BYTES,
    COUNT,
    INT,
    NAME,
    TEXT,
    VERSION,
    WITHOUT_BASE_TIME,
    WITHOUT_INDEX_FILES,
    WITHOUT_VECTOR_CHECKSUMS,
    RecordCodec,
    decode_int,
    dump,
    list_of,
    load,
    or_none,
    refuse,
    tuple_of,
)
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile, FileSource, SimpleStats
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DeletionVectorRange


def messages_to_json(messages: Sequence[CommitMessage]) -> str:
    """Return the messages of one task as one line of JSON."""
    return dump({"version": version_of(messages), "messages": [MESSAGE.encode(message) for message in messages]})


def messages_from_json(text: str) -> tuple[CommitMessage, ...]:
    """Return the messages in `text`, in order. Raises InvalidRequest naming the field, or UnsupportedFeature."""
    document = load(text, "commit messages")
    if set(document) != {"messages"}:
        refuse("commit messages", sorted(document), "the fields version and messages")
    found = document["messages"]
    if not isinstance(found, list):
        refuse("commit messages: messages", found, "a list")
    return tuple(MESSAGE.decode(item, f"commit messages[{index}]") for index, item in enumerate(found))


def version_of(messages: Sequence[CommitMessage]) -> int:
    """Return the lowest version that can hold all of the messages."""
    if any(message.read_index_files for message in messages):
        return VERSION
    indexes = [index for message in messages for index in message.index_files]
    vectors = (vector for index in indexes for vector in index.deletion_vectors or ())
    if any(vector.checksum is not None for vector in vectors):
        return WITHOUT_BASE_TIME
    return WITHOUT_VECTOR_CHECKSUMS if indexes else WITHOUT_INDEX_FILES


def _decode_source(value: Any, where: str) -> FileSource:
    try:
        return FileSource(decode_int(value, where))
    except ValueError:
        refuse(where, value, "0 (append) or 1 (compact)")


_STATS = RecordCodec(
    SimpleStats,
    {"min_values": BYTES, "max_values": BYTES, "null_counts": or_none(tuple_of(or_none(INT)))},
)
_FILE = RecordCodec(
    DataFile,
    {
        "file_name": NAME,
        "file_size": COUNT,
        "row_count": COUNT,
        "min_key": BYTES,
        "max_key": BYTES,
        "key_stats": (_STATS.encode, _STATS.decode),
        "value_stats": (_STATS.encode, _STATS.decode),
        "min_sequence_number": INT,
        "max_sequence_number": INT,
        "schema_id": COUNT,
        "level": COUNT,
        "extra_files": tuple_of(NAME),
        "creation_time_millis": or_none(INT),
        "delete_row_count": or_none(COUNT),
        "embedded_index": or_none(BYTES),
        "file_source": or_none((int, _decode_source)),
        "value_stats_cols": or_none(tuple_of(TEXT)),
        "external_path": or_none(TEXT),
        "first_row_id": or_none(INT),
        "write_cols": or_none(tuple_of(TEXT)),
        "write_cols_sequences": or_none(tuple_of(INT)),
    },
)
_VECTOR = RecordCodec(
    DeletionVectorRange,
    {
        "data_file_name": NAME,
        "offset": COUNT,
        "length": COUNT,
        "cardinality": or_none(COUNT),
        "checksum": or_none(COUNT),
    },
)
_INDEX = RecordCodec(
    IndexFile,
    {
        "index_type": TEXT,
        "file_name": NAME,
        "file_size": COUNT,
        "row_count": COUNT,
        "deletion_vectors": or_none(list_of(_VECTOR)),
    },
)
MESSAGE = RecordCodec(
    CommitMessage,
    {
        "partition": BYTES,
        "bucket": INT,
        "total_buckets": INT,
        "new_files": list_of(_FILE),
        "deleted_files": list_of(_FILE),
        "changelog_files": list_of(_FILE),
        "compact_before": list_of(_FILE),
        "compact_after": list_of(_FILE),
        "compact_changelog_files": list_of(_FILE),
        "new_index_files": list_of(_INDEX),
        "deleted_index_files": list_of(_INDEX),
        "compact_new_index_files": list_of(_INDEX),
        "compact_deleted_index_files": list_of(_INDEX),
        "read_index_files": list_of(_INDEX),
    },
)
