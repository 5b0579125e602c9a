"""Both directions with real Java Paimon, kind by kind: one cell is one way of working together.

`python -m tests.interop` prints the cells as a matrix. Each cell checks rows at every snapshot, not just the last.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.bucket import Bucket
from tests.interop.engines import TABLE, Java, Ours
from tests.interop.judge import VERSIONS, Judge
from tests.interop.kinds import BY_NAME, KINDS, MERGE_ON_READ, Kind
from tests.storage.s3_stub import S3Stub

pytestmark = pytest.mark.interop

# Old files go at once, so that a reader of a file that should have stayed fails here and now.
NO_GRACE = {"lakehouse.read.grace": "0 s"}

# The newest Java and its file system for S3, with the strict server. A case takes six times as long as on a disk there,
# so the cells that do the most stand for all.
IN_A_BUCKET = "2.0.0 in a bucket"
on_disk_and_in_a_bucket = pytest.mark.parametrize("judge", [*VERSIONS, IN_A_BUCKET], indirect=True)

by_key_kind = pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.primary_keys],
    ids=[kind.name.replace(" ", "-") for kind in KINDS if kind.primary_keys],
)
by_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name.replace(" ", "-") for kind in KINDS])


@pytest.fixture(scope="module", params=VERSIONS)
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param.partition(" ")[0], has_s3=request.param == IN_A_BUCKET) as java:
        yield java


@pytest.fixture(scope="module")
def stub() -> Iterator[S3Stub]:
    with S3Stub() as server:
        yield server


@pytest.fixture
def place(judge: Judge, stub: S3Stub, tmp_path: Path) -> Iterator[Path | Bucket]:
    if not judge.has_s3:
        yield tmp_path
        return
    stub.restart({})
    bucket = Bucket(stub.storage, tmp_path / "names.db")
    yield bucket
    # As `sound_tables` asks of a folder.
    assert bucket.ours.table(TABLE).verify(data=True).findings == ()
    assert bucket.sql("SELECT * FROM paimon_distributed_locks") == []


def same_history(ours: Ours, java: Java, *, lists_files: bool = True) -> None:
    """Both read the same rows at every snapshot, no file is missing for Java, and `verify` finds nothing."""
    ids = java.snapshot_ids()
    assert ids
    assert [snapshot.id for snapshot in ours.table.snapshots()] == ids
    for snapshot_id in ids:
        assert ours.rows(snapshot_id) == java.rows(snapshot_id), f"snapshot {snapshot_id}"
    assert ours.rows() == java.rows()
    if lists_files:
        assert java.missing_files() == []
    assert ours.verify() == []


def same_changes(ours: Ours, java: Java) -> None:
    """Both read the same changelog of every snapshot."""
    for snapshot_id in java.snapshot_ids():
        assert ours.changes(snapshot_id) == java.changes(snapshot_id), f"changes of {snapshot_id}"


def load(writer: Ours | Java, kind: Kind) -> None:
    """Create the table, write its batches one by one, and compact it."""
    writer.create(kind)
    for batch in kind.batches:
        writer.write(list(batch))
    writer.compact()


@by_kind
def test_java_writes_and_we_read(ours: Ours, java: Java, kind: Kind) -> None:
    load(java, kind)

    same_history(ours, java)
    same_changes(ours, java)


@by_kind
def test_we_write_and_java_reads(ours: Ours, java: Java, kind: Kind) -> None:
    load(ours, kind)

    same_history(ours, java)
    same_changes(ours, java)


@by_kind
def test_both_give_the_same_rows_for_the_same_writes(judge: Judge, tmp_path: Path, kind: Kind) -> None:
    ours, java = Ours(tmp_path / "ours"), Java(judge, tmp_path / "java")
    ours.create(kind)
    java.create(kind)

    for batch in kind.batches:
        ours.write(list(batch))
        java.write(list(batch))
        assert ours.rows() == java.rows()


@by_kind
def test_both_write_in_turn_and_both_read(ours: Ours, java: Java, kind: Kind) -> None:
    ours.create(kind)
    for writer, batch in zip(itertools.cycle([ours, java]), kind.batches, strict=False):
        writer.write(list(batch))
    java.compact()
    for writer, batch in zip(itertools.cycle([java, ours]), kind.batches, strict=False):
        writer.write(list(batch))
    ours.compact()

    same_history(ours, java)


@by_kind
@on_disk_and_in_a_bucket
def test_we_compact_expire_and_tag_then_java_goes_on(ours: Ours, java: Java, kind: Kind) -> None:
    ours.create(Kind(**_fields(kind) | {"options": dict(kind.options) | NO_GRACE}))
    first, *later = kind.batches
    ours.write(list(first))
    ours.tag("first")
    tagged = ours.rows()
    for batch in later:
        ours.write(list(batch))
    ours.compact()
    ours.compact_manifests()
    ours.expire(2)

    assert java.tagged("first") == tagged
    same_history(ours, java, lists_files=_lists_files(kind))
    same_changes(ours, java)

    java.write(list(first))
    java.compact()
    java.expire(1)
    same_history(ours, java, lists_files=_lists_files(kind))
    assert ours.tagged("first") == tagged


@by_kind
@on_disk_and_in_a_bucket
def test_java_compacts_and_expires_then_we_go_on(ours: Ours, java: Java, kind: Kind) -> None:
    java.create(Kind(**_fields(kind) | {"options": dict(kind.options) | NO_GRACE}))
    first, *later = kind.batches
    java.write(list(first))
    java.tag("first")
    tagged = java.rows()
    for batch in later:
        java.write(list(batch))
    java.compact()
    java.compact_manifests()
    java.expire(2)

    assert ours.tagged("first") == tagged
    same_history(ours, java, lists_files=_lists_files(kind))
    same_changes(ours, java)

    ours.write(list(first))
    ours.compact()
    ours.compact_manifests()
    ours.expire(1)
    same_history(ours, java, lists_files=_lists_files(kind))
    assert java.tagged("first") == tagged


@by_key_kind
def test_both_compact_a_little_in_turn_and_both_go_on(ours: Ours, java: Java, kind: Kind) -> None:
    # Writers leave all compaction to us and Java, and two runs are enough for it.
    options = dict(kind.options) | {"write-only": "true", "num-sorted-run.compaction-trigger": "2"}
    ours.create(Kind(**_fields(kind) | {"options": options}))
    sides = itertools.cycle([ours, java])
    for batch, compactor in zip([*kind.batches, *kind.batches], sides, strict=False):
        ours.write(list(batch))
        java.write(list(batch))
        compactor.compact(full=False)

    same_history(ours, java)
    for snapshot_id in java.snapshot_ids():
        assert ours.changes(snapshot_id) == java.changes(snapshot_id), f"changes of {snapshot_id}"
    kinds = [snapshot.commit_kind for snapshot in ours.table.snapshots()]
    assert kinds.count("COMPACT") >= len(kind.batches)


def test_rows_that_no_compaction_has_seen_are_read_by_both_where_vectors_are_merged_on_read(tmp_path: Path) -> None:
    with Judge("2.0.0") as judge:
        ours, java = Ours(tmp_path), Java(judge, tmp_path)
        ours.create(Kind(**_fields(MERGE_ON_READ) | {"options": MERGE_ON_READ.options | {"write-only": "true"}}))
        for writer, batch in zip(itertools.cycle([ours, java]), MERGE_ON_READ.batches, strict=False):
            writer.write(list(batch))
        same_history(ours, java)
        assert ours.rows()

        java.compact()
        for writer, batch in zip(itertools.cycle([java, ours]), MERGE_ON_READ.batches, strict=False):
            writer.write(list(batch))
        ours.compact()
        same_history(ours, java)


def test_java_marks_rows_of_an_append_table_and_we_go_on(ours: Ours, java: Java, judge: Judge) -> None:
    kind = BY_NAME["append"]
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}
    java.create(Kind(**_fields(kind) | {"options": options}))
    first, second, third, fourth = ([*batch] for batch in kind.batches)
    java.write(first)
    ours.write(second)
    java.delete({"field": "n", "op": "<", "value": -2})

    same_history(ours, java)
    assert len(ours.rows()) == 6

    ours.write(third)
    java.delete({"field": "k", "op": "=", "value": 1})
    ours.compact()
    java.write(fourth)
    java.delete({"field": "v", "op": "isNull"})
    same_history(ours, java)

    java.compact()
    ours.compact()
    same_history(ours, java)
    assert len(ours.rows()) == 11


# Settings for Flink's jobs, for readers, for how Java packs its files.
FOR_OTHERS = {
    "consumer-id": "job",
    "streaming-read-overwrite": "true",
    "scan.plan-sort-partition": "true",
    "local-merge-buffer-size": "64 mb",
    "sink.savepoint.auto-tag": "true",
    "partition.idle-time-to-done": "1 h",
    "partition.end-input-to-done": "true",
    "end-input.check-partition-expire": "true",
    "commit.force-create-snapshot": "true",
    "commit.user-prefix": "team",
    "file.block-size": "8 mb",
    "file.suffix.include.compression": "true",
    "manifest.delete-file-drop-stats": "true",
    "parquet.block.size": "1048576",
    "parquet.bloom.filter.enabled": "true",
}


@pytest.mark.parametrize("name", ["key", "key partitioned"])
def test_a_table_of_java_with_settings_for_others_is_written_and_compacted_in_turn(
    ours: Ours, java: Java, name: str
) -> None:
    kind = BY_NAME[name]
    java.create(Kind(**_fields(kind) | {"options": kind.options | FOR_OTHERS}))
    for writer, compacts, batch in zip(
        itertools.cycle([java, ours]), itertools.cycle([False, False, ours, java]), kind.batches * 2, strict=False
    ):
        writer.write(list(batch))
        if compacts:
            compacts.compact()

    same_history(ours, java)


def test_a_table_of_hives_metastore_is_maintained_between_writes_of_java(ours: Ours, java: Java) -> None:
    kind = BY_NAME["key partitioned"]
    java.create(Kind(**_fields(kind) | {"options": kind.options | {"metastore.partitioned-table": "true"}}))
    for batch in kind.batches:
        java.write(list(batch))
        ours.compact()

    same_history(ours, java)


def _lists_files(kind: Kind) -> bool:
    # A tag keeps the rows of its snapshot, not its changelog; the judge cannot list the files of such a tag,
    # not even when Java alone wrote, tagged and expired the table.
    return kind.options.get("changelog-producer", "none") == "none"


def _fields(kind: Kind) -> dict[str, object]:
    return {name: getattr(kind, name) for name in Kind.__dataclass_fields__}
