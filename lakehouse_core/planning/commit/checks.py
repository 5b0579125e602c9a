"""Checks of a staged commit: refuse a value that is not one, a malformed one, one that was staged for another table,
and new rows for which the table has no place.

Source: docs/semantics/commit.md#users-and-identifiers, docs/semantics/commit.md#commit-message.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown, written_as
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.stored import check_text, is_int64
from lakehouse_core.planning.commit.ledger import LEDGER_PROPERTY, NONCE_PROPERTY, QUEUE_PROPERTY
from lakehouse_core.planning.partitions import partition_name
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.checksums import CHECKSUMS_PROPERTY
from lakehouse_core.table.commit_message import (
    BATCH_IDENTIFIER,
    Append,
    CommitMessage,
    DynamicOverwrite,
    StaticOverwrite,
)
from lakehouse_core.table.partition_time import check_partition_time
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import SCHEMA_TIME
from lakehouse_core.table.staged_commit import StagedCommit

# The snapshot properties that the committer itself writes.
RESERVED_PROPERTIES: Final = frozenset(
    {LEDGER_PROPERTY, NONCE_PROPERTY, QUEUE_PROPERTY, CHECKSUMS_PROPERTY, SCHEMA_TIME}
)
# A snapshot file is read whole, and has at most 16 MiB.
_MOST_PROPERTY_BYTES: Final = 1 << 20
# A ledger of 48 KiB holds a few dozen users with names of this length.
_LONGEST_USER_BYTES: Final = 1_000


def check_staged_commit(verb: str, staged: object) -> None:
    """Raise InvalidRequest for a value that is not a staged commit."""
    if not isinstance(staged, StagedCommit):
        raise InvalidRequest(f"{verb}({shown(staged)}): expected what stage or StagedCommit.from_json returned.")


def check_staged_commits(name: str, given: object) -> None:
    """Raise InvalidRequest for a value that is not a list of staged commits; `name` is the argument's name."""
    if not isinstance(given, Sequence) or not all(isinstance(each, StagedCommit) for each in given):
        raise InvalidRequest(f"{name}={shown(given)}: expected a list of what stage returned.")


def check_staged(staged: StagedCommit) -> None:
    """Raise InvalidRequest when `staged` cannot be committed to any table."""
    check_commit(staged.commit_user, staged.commit_identifier)
    if not isinstance(staged.mode, Append | StaticOverwrite | DynamicOverwrite):
        raise InvalidRequest(
            f"mode={shown(staged.mode)}: expected Append(), StaticOverwrite(partition) or DynamicOverwrite()."
        )
    check_properties(staged.properties)
    for name in ("base_snapshot_id", "base_time_millis", "watermark"):
        number = getattr(staged, name)
        if number is not None and not is_int64(number):
            raise InvalidRequest(f"staged commit: {name} is {shown(number)}: expected a whole number of 64 bits.")
    if not is_int64(staged.schema_id) or not isinstance(staged.messages, tuple):
        raise InvalidRequest(f"staged commit: schema_id is {shown(staged.schema_id)}, or its messages are not a tuple.")
    if not all(isinstance(message, CommitMessage) for message in staged.messages):
        raise InvalidRequest("staged commit: one of its messages is not a CommitMessage. Stage the data again.")
    if not isinstance(staged.mode, Append) and any(
        message.deleted_files or message.deleted_index_files for message in staged.messages
    ):
        raise InvalidRequest("An overwrite chooses the files to remove itself: its messages may not delete files.")
    for message in staged.messages:
        for file in (*message.new_files, *message.changelog_files, *message.compact_after):
            if file.external_path is not None:
                raise InvalidRequest(
                    f"{file.file_name} is outside the table, at {file.external_path}. Write it below the table's "
                    "folder."
                )


def check_schema(staged: StagedCommit, latest: TableSchema) -> None:
    """Raise InvalidRequest if files were written with a schema that the table does not have."""
    files = (file for message in staged.messages for file in (*message.new_files, *message.compact_after))
    unknown = sorted(number for number in {staged.schema_id, *(file.schema_id for file in files)} if number > latest.id)
    if unknown:
        raise InvalidRequest(
            f"{staged.table}: the commit was written with schema {unknown[0]}, the table's latest is {latest.id}. "
            "It belongs to another table; stage the data again."
        )


def check_commit(commit_user: object, commit_identifier: object) -> None:
    """Raise InvalidRequest unless user and identifier can name a commit."""
    if not isinstance(commit_user, str) or not commit_user:
        raise InvalidRequest(
            f"commit_user is {shown(commit_user)}: expected a name. By it and its identifier a repeated commit is "
            "recognised."
        )
    check_text("The commit user", commit_user, longest=_LONGEST_USER_BYTES)
    if not is_int64(commit_identifier) or not 0 <= commit_identifier <= BATCH_IDENTIFIER:
        raise InvalidRequest(
            f"Commit identifier {shown(commit_identifier)} of {commit_user}: expected 0 to {BATCH_IDENTIFIER}."
        )


def check_properties(properties: object) -> None:
    """Raise InvalidRequest for properties that a snapshot cannot hold beside the committer's own."""
    if not isinstance(properties, Mapping):
        raise InvalidRequest(f"properties={shown(properties)}: expected a dict from names to texts.")
    size = 0
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Snapshot property {shown(name)} = {shown(value)}: names and values are text{written_as(value)}."
            )
        check_text("The name of a snapshot property", name)
        check_text(f"Snapshot property {shown(name)}", value, longest=_MOST_PROPERTY_BYTES)
        size += len(name.encode()) + len(value.encode())
    if size > _MOST_PROPERTY_BYTES:
        raise InvalidRequest(
            f"The snapshot properties have {size} bytes, at most {_MOST_PROPERTY_BYTES} are kept. Store them "
            "elsewhere, and give their address here."
        )
    if taken := sorted(RESERVED_PROPERTIES & properties.keys()):
        raise InvalidRequest(f"Snapshot property {shown(taken[0])} is reserved for the committer. Choose another name.")


def check_bucket_counts(
    table: str, schema: TableSchema, bucket_counts: Mapping[bytes, int], messages: Iterable[CommitMessage]
) -> None:
    """Raise InvalidRequest for rows of a partition that has another bucket count, because reads would search other
    buckets.
    """
    wrong = {}
    for message in messages:
        if not is_placed(message.bucket):
            continue
        found = bucket_counts.get(message.partition, message.total_buckets)
        if found != message.total_buckets:
            wrong[partition_name(message.partition, schema)] = (found, message.total_buckets)
    if wrong:
        # Messages are in no order; all buckets of a partition have one bucket count.
        name = min(wrong)
        found, wanted = wrong[name]
        what, whole = (f"partition {name}", "the partition") if schema.partition_keys else ("the table", "it")
        raise InvalidRequest(
            f"{table}: {what} has files in {found} buckets, and the table's option bucket is now {wanted}. Call "
            f"rescale to bring {whole} to the new number, or set bucket back to {found}."
        )


def check_partition_times(schema: TableSchema, messages: Iterable[CommitMessage]) -> None:
    """Raise InvalidRequest for partitions that are not times, if the table requires that."""
    types = [field.type for field in schema.partition_fields]
    for partition in sorted({message.partition for message in messages}):
        check_partition_time(deserialize_row(partition, types), schema)
