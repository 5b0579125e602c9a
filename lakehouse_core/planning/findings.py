"""Findings: invariants that a table's metadata breaks, checked on values alone.

Each check takes values that were read and yields findings, none if the values are sound. Invariants have numbers that
reports, tests and the page share.
Source: docs/reliability/invariants.md#invariants.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.boundary import BoundaryMark
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.manifest import ManifestEntry, ManifestFile, Tally
from lakehouse_core.table.snapshot import NO_WATERMARK, Snapshot


class Invariant(StrEnum):
    """The invariants of a table, by number. Stored in reports. Never renumber."""

    DENSE_IDS = "I1"  # no id between the boundary and the latest is missing
    READABLE_ROOTS = "I2"  # a snapshot or changelog has one content for all time, a tag until it is replaced
    COMMITTED_ONCE = "I4"  # a user's identifier is committed at most once per kind
    CONSISTENT_DELTAS = "I7"  # replaying the deltas gives each snapshot's files
    TRUE_COUNTS = "I8"  # counts equal what the manifests say; time and watermark never go down
    LATER_WINS = "I9"  # no compaction changes a result: of two rows of a key the later committed wins, before and after
    NAMED_FILES = "I11"  # every file that a root names exists with its recorded size, and can be read
    REPEATABLE = "I15"  # what a crash interrupted is completed by the same verb again
    HINTS = "I17"  # a hint is a number, and never beyond the latest
    DISJOINT_LEVELS = "I22"  # inside a level above 0 no two files of a bucket share a key
    READABLE_SCHEMAS = "I23"  # the schema of every snapshot and file can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A broken invariant: the object, what was found, what was expected, and the advice."""

    promise: Invariant
    object: str
    found: str
    expected: str
    advice: str

    def __str__(self) -> str:
        return f"{self.promise} {self.object}: {self.found}; expected {self.expected}. {self.advice}"


KEEP_EVIDENCE = "Do not expire; keep a copy of the table and this report."


def id_findings(
    layout: TableLayout, ids: Sequence[int], *, boundary: int, unlinking: Iterable[int]
) -> Iterator[Finding]:
    """Check the ids of the snapshots of a branch, rising; those in `unlinking` are being deleted."""
    leaving = set(unlinking)
    kept = [id for id in ids if id >= boundary]
    if kept:
        advice = "A paused writer left it, or another engine rolled back. No reader uses it. Remove the file."
    else:
        advice = f"Another engine rolled back. Write {min(ids, default=0)} into lakehouse/boundary if that was meant."
    for id in ids:
        if id < boundary and id not in leaving:
            yield Finding(
                promise=Invariant.DENSE_IDS,
                object=layout.snapshot(id),
                found=f"its id is below the boundary {boundary}",
                expected="only ids from the boundary on, for those below count as expired",
                advice=advice,
            )
    for before, after in pairwise(kept):
        if after != before + 1:
            yield Finding(
                promise=Invariant.DENSE_IDS,
                object=layout.snapshot(before + 1),
                found=f"snapshots {before + 1} to {after - 1} are missing, {before} and {after} are there",
                expected="one snapshot for each id from the earliest to the latest",
                advice=KEEP_EVIDENCE,
            )


def changelog_findings(
    layout: TableLayout,
    made: Iterable[int],
    snapshot_ids: Sequence[int],
    changelog_ids: Sequence[int],
    *,
    boundary: int,
) -> Iterator[Finding]:
    """Check the changelogs that unfinished expiries planned to make, `made`; ids are rising.

    A changelog below the first existing one has expired itself.
    """
    first = changelog_ids[0] if changelog_ids else 0
    for id in sorted({*made} - {*changelog_ids}):
        is_there = id in snapshot_ids
        if id >= first and (id < boundary or not is_there):
            yield Finding(
                promise=Invariant.DENSE_IDS,
                object=layout.changelog(id),
                found=f"it is missing, and snapshot {id} has expired",
                expected="a changelog, as the expiry planned it: without it the changes cannot be read",
                advice="Expire snapshots, which makes it." if is_there else "Restore it from a copy of the table.",
            )


def hint_findings(key: str, content: bytes | None, *, latest_id: int | None) -> Iterator[Finding]:
    """Check a hint file; `latest_id` is the latest id in the hint's folder."""
    if content is None:
        return
    text = content.decode("utf-8", "replace")
    if not (text.isascii() and text.isdigit()):
        found, expected = f"it holds {text[:40]!r}", "a number"
    elif latest_id is None or int(text) > latest_id:
        found = f"it says {text}"
        expected = "no hint, because there is no such file" if latest_id is None else f"at most {latest_id}, the latest"
    else:
        return
    yield Finding(
        promise=Invariant.HINTS,
        object=key,
        found=found,
        expected=expected,
        advice="Remove the hint: it costs one listing, and the next commit or expiry writes it again.",
    )


def stamp_findings(
    snapshots: Sequence[tuple[str, Snapshot]], modified: Mapping[str, int], *, now_millis: int, max_skew_millis: int
) -> Iterator[Finding]:
    """Yield a finding for each snapshot of one history whose time rose ahead of now; later snapshots only repeat that
    time.

    `now_millis`: this machine's clock; if it is behind the first snapshot, it is wrong itself. Only then `modified`
    counts: by key, the times at which files were written, by the storage's clock. An unpacked archive may have any file
    times.
    """
    reached: int | None = None
    is_right = not snapshots or snapshots[0][1].time_millis <= now_millis + max_skew_millis
    for key, snapshot in snapshots:
        written = now_millis if is_right else modified.get(key, snapshot.time_millis)
        if snapshot.time_millis > written + max_skew_millis and (reached is None or snapshot.time_millis > reached):
            ahead_seconds = (snapshot.time_millis - written) / 1000
            yield Finding(
                promise=Invariant.TRUE_COUNTS,
                object=key,
                found=f"its time is {ahead_seconds:.0f} s ahead of {'now' if is_right else 'its file'}",
                expected=f"at most {max_skew_millis / 1000:g} s (lakehouse.expire.max-skew)",
                advice=f"Correct the clock of the machine that commits as {snapshot.commit_user}. Until then, "
                "reads by time do not find it or later snapshots, and expiry uses the times of the files.",
            )
        reached = snapshot.time_millis


def history_findings(snapshots: Sequence[tuple[str, Snapshot]]) -> Iterator[Finding]:
    """Check adjacent snapshots of one history; `snapshots` are keys and snapshots with consecutive ids."""
    committed: dict[tuple[str, int, str], str] = {}
    for key, snapshot in snapshots:
        # All batch commits share one identifier, which identifies no commit.
        if snapshot.commit_identifier != BATCH_IDENTIFIER:
            identity = (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind.value)
            if identity in committed:
                yield Finding(
                    promise=Invariant.COMMITTED_ONCE,
                    object=key,
                    found=f"{identity[2]} commit {identity[1]} of {identity[0]} is in {committed[identity]} too",
                    expected="each identifier of a user at most once per kind",
                    advice="Its rows may be in the table twice: compare both snapshots' deltas, roll back the "
                    "later one.",
                )
            committed[identity] = key
    for (_, before), (key, after) in pairwise(snapshots):
        if after.time_millis < before.time_millis:
            yield _count(key, f"timeMillis is {after.time_millis}", f"at least {before.time_millis}, as before it")
        if (after.watermark or NO_WATERMARK) < (before.watermark or NO_WATERMARK):
            yield _count(key, f"the watermark is {after.watermark}", f"at least {before.watermark}, as before it")


def manifest_findings(named_by: str, manifest: ManifestFile, found: Tally) -> Iterator[Finding]:
    """Check the description of a manifest in its manifest list against `found`, the tally of its entries."""
    recorded = (manifest.num_added_files, manifest.num_deleted_files)
    if recorded != (found.added, found.deleted):
        yield _count(
            f"manifest/{manifest.file_name}",
            f"it adds {found.added} and deletes {found.deleted} files",
            f"{recorded[0]} and {recorded[1]}, as {named_by} records",
        )
    if found.newest_schema_id is not None and found.newest_schema_id > manifest.schema_id:
        yield _count(
            f"manifest/{manifest.file_name}",
            f"its newest schema is {found.newest_schema_id}",
            f"{manifest.schema_id}, as {named_by} records",
        )


def vector_findings(
    index_key: str, vectors: Iterable[tuple[str, int]], row_counts: Mapping[str, int]
) -> Iterator[Finding]:
    """Check that vectors stay within their data files; `vectors` are names of data files and highest positions.

    A vector of a deleted file is ignored: Java leaves some behind.
    """
    for name, highest in vectors:
        if name in row_counts and highest >= row_counts[name]:
            yield Finding(
                promise=Invariant.NAMED_FILES,
                object=index_key,
                found=f"it marks row {highest} of {name} as deleted",
                expected=f"rows 0 to {row_counts[name] - 1}, which the file has",
                advice="Restore it from a copy of the table; until then read snapshots that do not need it.",
            )


def keys_without_index(key: str, folder: str, count: int) -> Finding:
    """Return the finding for keys of a dynamic bucket whose hashes its index lacks."""
    return Finding(
        promise=Invariant.DISJOINT_LEVELS,
        object=f"{key}, {folder}",
        found=f"the index of the bucket lacks {count} of its keys",
        expected="the hash of every key of the bucket, by which later rows of the key find it",
        advice="Two writers of another engine ran at the same time. A further row of such a key may go to another "
        "bucket, and the key would be there twice: rescale the partition.",
    )


def doubled_keys(key: str, folder: str, other: str, count: int) -> Finding:
    """Return the finding for keys that are in two dynamic buckets of a partition."""
    return Finding(
        promise=Invariant.DISJOINT_LEVELS,
        object=f"{key}, {folder}",
        found=f"{count} of its keys are in {other} too",
        expected="each key in one bucket of its partition",
        advice="Two writers of another engine ran at the same time, and reads return both rows of such a key: "
        "rescale the partition, which merges them.",
    )


def keys_in_two_partitions(key: str, folder: str, other: str, count: int) -> Finding:
    """Return the finding for keys that are in two places, though they move between partitions."""
    return Finding(
        promise=Invariant.DISJOINT_LEVELS,
        object=f"{key}, {folder}",
        found=f"{count} of its keys are in {other} too",
        expected="each key in one partition of the table",
        advice="Two writers of another engine ran at the same time, or cross-partition-upsert.index-ttl let a key be "
        "forgotten. Reads return both rows of such a key, and a write of the key is refused: delete one of the two by "
        "a condition on key and partition.",
    )


def lost_rows(object: str, later: DataFile, earlier: DataFile, row: tuple[int, int] | None) -> Finding:
    """Return the finding for a file with rows that lose to rows that were committed before.

    `row`: the sequence numbers of such a row and of the one that it loses to; None: the rows cannot be read.
    """
    advice = "No file is damaged. Two writers of another engine ran at the same time."
    if row is None:
        found = f"its sequence numbers begin at {later.min_sequence_number}, and {earlier.file_name}, which was "
        found += f"committed before it and may hold the same keys, has numbers up to {earlier.max_sequence_number}"
        advice += " For a key in both files, reads may return the row that was committed first:"
    else:
        found = f"a row of it has sequence number {row[0]}, and the row of the same key in {earlier.file_name}, which "
        found += f"was committed before it, has {row[1]}"
        advice += " Where both files have a key, reads may return the row that was committed first:"
    return Finding(
        promise=Invariant.LATER_WINS,
        object=object,
        found=found,
        expected="numbers above those of all rows of the same keys that were committed before",
        advice=f"{advice} write the rows that should win again.",
    )


def row_count_findings(
    key: str, snapshot: Snapshot, *, total: int, delta: int, changelog: int | None
) -> Iterator[Finding]:
    """Check the counts of a snapshot against the rows in its files; `changelog` None: the changelog was not read."""
    for name, recorded, counted in (
        ("totalRecordCount", snapshot.total_record_count, total),
        ("deltaRecordCount", snapshot.delta_record_count, delta),
        ("changelogRecordCount", snapshot.changelog_record_count, changelog),
    ):
        if recorded is not None and counted is not None and recorded != counted:
            yield _count(key, f"{name} is {recorded}", f"{counted}, the rows in its files")


def key_findings(key: str, folder: str, entry: ManifestEntry, key_types: Sequence[DataType]) -> Iterator[Finding]:
    """Check that the keys of a file have the table's types; every reader fails at a key that has not."""
    try:
        key_range(entry, key_types)
    except CorruptTable as error:
        yield Finding(
            promise=Invariant.NAMED_FILES,
            object=f"{key}, {folder}/{entry.file.file_name}",
            found=f"its smallest or greatest key cannot be decoded: {error}",
            expected="keys of the types that the table's schema has",
            advice="A writer of another table may have committed it: read an earlier snapshot.",
        )


def key_range(entry: ManifestEntry, key_types: Sequence[DataType]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the smallest and the greatest key of a file. Raises CorruptTable."""
    low, high = (deserialize_row(key, key_types) for key in (entry.file.min_key, entry.file.max_key))
    if None in low or None in high:
        raise CorruptTable(f"{entry.file.file_name}: a column of its smallest or greatest key is NULL.")
    return low, high


def unreadable(promise: Invariant, object: str, error: Exception) -> Finding:
    """Return the finding for stored bytes that a reader refuses."""
    return Finding(
        promise=promise,
        object=object,
        found=f"it cannot be read: {error}",
        expected="a whole file of the format",
        advice="Keep it as evidence and restore it from a copy of the table.",
    )


def no_schema(layout: TableLayout) -> Finding:
    """Return the finding for a branch that cannot be read."""
    return Finding(
        promise=Invariant.READABLE_SCHEMAS,
        object=layout.folders.schemas,
        found="the branch has no schema",
        expected="at least one, written before the branch is used",
        advice="It was not created or dropped completely: finish creating the branch, or remove its folder.",
    )


def interrupted_branch(layout: TableLayout, mark: BoundaryMark, *, since_millis: int) -> Finding:
    """Return the finding for a branch on which a verb has worked for so long that it was interrupted."""
    return Finding(
        promise=Invariant.REPEATABLE,
        object=layout.folder,
        found=f"a verb has been {mark.work} the branch for {since_millis // 60_000} minutes; it was interrupted",
        expected="a verb that has ended",
        advice=f"If none works on it any more, {mark.advice}. Until then the branch keeps its files.",
    )


def schema_missing(object: str, schema_id: int) -> Finding:
    """Return the finding for a snapshot or file whose schema cannot be read."""
    return Finding(
        promise=Invariant.READABLE_SCHEMAS,
        object=object,
        found=f"it needs schema {schema_id}",
        expected="a schema file that can be read",
        advice=f"Restore schema/schema-{schema_id} from a copy of the table.",
    )


def _count(object: str, found: str, expected: str) -> Finding:
    return Finding(
        promise=Invariant.TRUE_COUNTS,
        object=object,
        found=found,
        expected=expected,
        advice="Rows are not affected; statistics and plans are. Keep this report and find the writer.",
    )
