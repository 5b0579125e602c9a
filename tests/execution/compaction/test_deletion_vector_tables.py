"""Tables with deletion vectors from commit to expiry: marks come, are read, fold into compactions, and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.data_files.deletion_vector_writer import IndexFolder, change_vectors
from lakehouse_core.errors import CommitConflict, CorruptTable
from lakehouse_core.execution.commit.loop import commit
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.planning.commit.index_files import index_file_of
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.checksums import checksum
from lakehouse_core.table.commit_message import Append, CommitKind, CommitMessage
from lakehouse_core.table.layout import manifest_key
from lakehouse_core.table.manifest import IndexManifestEntry
from lakehouse_core.table.snapshot import snapshot_checksums
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.runtime import local_runtime
from tests.contexts import context_of


class Marked:
    """An append table with deletion vectors, in memory: `k` from 0 on, ten rows in a file."""

    def __init__(self, **options: str) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        catalog = Catalog(self.store, clock=self.clock)
        catalog.create_database("db")
        named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        self.table = catalog.create_table(
            "db.t",
            {"k": "INT", "v": "STRING"},
            options={
                "deletion-vectors.enabled": "true",
                "lakehouse.read.grace": "0 s",
                "snapshot.num-retained.min": "1",
                **named,
            },
        )
        self.own = self.store.at("db.db/t")
        self.context = context_of(self.own, self.clock)
        self.schemas = self.context.schemas
        self._commits = 0

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            start = 10 * self._commits
            self._commits += 1
            self.table.write([{"k": k, "v": f"v{k}"} for k in range(start, start + 10)])

    def names(self) -> list[str]:
        """The live files, oldest first."""
        latest = self.context.snapshots.latest()
        assert latest is not None
        entries = sorted(
            self.context.manifests.live_entries(latest), key=lambda entry: entry.file.creation_time_millis or 0
        )
        return [entry.file.file_name for entry in entries]

    def indexes(self) -> list[IndexManifestEntry]:
        latest = self.context.snapshots.latest()
        assert latest is not None
        return self.context.manifests.index_entries(latest)

    def marks(self) -> set[str]:
        return {one.data_file_name for index in self.indexes() for one in index.deletion_vectors or ()}

    def message(self, marks: Mapping[str, list[int]]) -> CommitMessage:
        """Write the index files that mark these rows as deleted too; nobody sees them yet."""
        options = self.schemas.latest().table_options
        folder = IndexFolder(store=self.own, options=options.deletion_vectors, has_buckets=options.bucket > 0)
        present = [index_file_of(entry) for entry in self.indexes()]
        rows = {name: np.array(found, np.int64) for name, found in marks.items()}
        change = change_vectors(folder, present, self.clock, marks=rows)
        (entry, *_) = self.context.manifests.live_entries(self.context.snapshots.latest())
        return CommitMessage(
            partition=entry.partition,
            bucket=entry.bucket,
            total_buckets=entry.total_buckets,
            new_index_files=change.new,
            deleted_index_files=change.deleted,
        )

    def engine(self) -> LocalEngine:
        return LocalEngine(local_runtime(self.store, self.clock))

    def commit(self, message: CommitMessage) -> CommitResult:
        self._commits += 1
        staged = StagedCommit(
            table="db.t",
            commit_user="marker",
            commit_identifier=self._commits,
            mode=Append(),
            messages=(message,),
            schema_id=0,
        )
        return commit(self.context, staged)

    def mark(self, marks: Mapping[str, list[int]]) -> CommitResult:
        return self.commit(self.message(marks))

    def numbers(self) -> list[int]:
        return sorted(self.table.scan().to_arrow()["k"].to_pylist())

    def check(self) -> None:
        """Whatever was done, nothing is damaged, and no index file lies about that no snapshot names."""
        assert self.table.verify(data=True).findings == ()
        named = {
            entry.file_name
            for snapshot in self.context.snapshots.history()
            for entry in self.context.manifests.index_entries(snapshot)
        }
        assert set(self.own.children("index").files) == named


BUCKETED = {"bucket": "1", "bucket_key": "k", "write_only": "true"}


@pytest.fixture(params=[{}, BUCKETED], ids=["loose", "bucketed"])
def table(request: pytest.FixtureRequest) -> Marked:
    return Marked(**request.param)


def test_marked_rows_are_gone_from_reads_and_counts_in_an_overwrite_snapshot(table):
    table.write(2)
    first, second = table.names()

    result = table.mark({first: [0, 9], second: [5]})

    assert result.snapshots[0].commit_kind is CommitKind.OVERWRITE
    expected = [k for k in range(20) if k not in (0, 9, 15)]
    assert table.numbers() == expected
    assert table.table.scan().count() == 17
    assert table.table.scan(where="k < 5").to_arrow()["k"].to_pylist() == [1, 2, 3, 4]
    assert table.table.scan(at=lc.AtSnapshot(2)).count() == 20
    table.check()


def test_more_marks_of_the_same_rows_add_up_and_replace_the_index_file(table):
    table.write(2)
    first, second = table.names()
    table.mark({first: [0, 1]})

    table.mark({first: [1, 2], second: [0]})

    assert table.numbers() == [*range(3, 10), *range(11, 20)]
    assert len(table.indexes()) == 1
    table.check()


def test_a_write_leaves_the_index_as_it_is(table):
    table.write()
    table.mark({table.names()[0]: [3]})
    named = table.context.snapshots.latest().index_manifest

    table.write()

    latest = table.context.snapshots.latest()
    assert latest.index_manifest == named
    assert 3 not in table.numbers()
    assert snapshot_checksums(latest, "latest")[named] == checksum(table.context.store.read(manifest_key(named)))


def test_a_compaction_leaves_marked_rows_out_and_their_vectors_go(table):
    table.write(6)
    names = table.names()
    table.mark({names[1]: [0, 1], names[4]: list(range(10))})
    expected = table.numbers()

    report = table.table.compact(full=True)

    assert (report.commit_kind, report.rows_added) == ("COMPACT", 48)
    assert table.numbers() == expected
    assert table.indexes() == []
    assert table.context.snapshots.latest().index_manifest is None
    table.check()


def test_vectors_of_files_that_stay_are_carried_on():
    table = Marked(**{"target-file-size": "2 kb"})
    table.table.write([{"k": -k, "v": f"wide {k * 7919}"} for k in range(1, 3000)])
    (large,) = table.names()
    table.write(6)
    small = [name for name in table.names() if name != large]
    table.mark({large: [0, 1], **{name: [0] for name in small}})
    expected = table.numbers()

    # Minor: of the large file so few rows are gone that it stays.
    table.table.compact(full=False)

    assert large in table.names()
    assert table.marks() == {large}
    assert table.numbers() == expected
    table.check()


def test_a_full_compaction_rewrites_every_marked_file(table):
    table.write()
    name = table.names()[0]
    table.mark({name: [4]})

    report = table.table.compact(full=True)

    assert (report.files_removed, report.rows_removed, report.rows_added) == (1, 10, 9)
    assert table.marks() == set()
    assert table.table.compact(full=True).noop_reason is not None
    table.check()


def test_rows_marked_after_a_compaction_was_planned_make_it_lose(table):
    table.write(6)
    name = table.names()[0]

    class Late(type(table.table._context.engine())):
        def run(self, task, inputs):
            yield from super().run(task, inputs)
            table.mark({name: [7]})

    engine = Late(local_runtime(table.store, table.clock))
    table.table._context = replace(table.table._context, engine=lambda: engine)
    with pytest.raises(CommitConflict, match=r"rows of .* are marked as deleted by"):
        table.table.compact(full=True)

    assert 7 not in table.numbers()
    assert len(table.numbers()) == 59
    table.check()


def test_marks_of_a_file_that_was_compacted_meanwhile_are_refused(table):
    table.write(6)
    late = table.message({table.names()[0]: [7]})
    table.table.compact(full=True)

    with pytest.raises(CommitConflict, match="which is not there any more"):
        table.commit(late)

    assert table.numbers() == list(range(60))


def test_of_two_who_mark_rows_at_once_the_second_must_look_again():
    table = Marked(**BUCKETED)
    table.write(2)
    first, second = table.names()
    late = table.message({second: [1]})
    table.mark({first: [0]})

    with pytest.raises(CommitConflict, match="another commit added a DELETION_VECTORS index to the bucket"):
        table.commit(late)

    table.mark({second: [1]})
    assert table.numbers() == [k for k in range(20) if k not in (0, 11)]


def test_an_overwrite_takes_the_vectors_of_what_it_replaces(table):
    table.write(2)
    table.mark({table.names()[0]: [0]})

    table.table.overwrite([{"k": 1, "v": "only"}])

    assert table.numbers() == [1]
    assert table.indexes() == []
    table.check()


def test_an_index_file_that_is_not_there_is_not_committed(table):
    table.write()
    message = table.message({table.names()[0]: [0]})
    table.own.delete([f"index/{message.new_index_files[0].file_name}"])

    with pytest.raises(CommitConflict, match="the commit adds it, but it is missing"):
        table.commit(message)


def test_expiry_takes_the_index_files_that_no_snapshot_names_any_more(table):
    table.write(2)
    first, second = table.names()
    table.mark({first: [0]})
    table.mark({second: [0]})
    table.mark({first: [1]})
    assert len(table.own.children("index").files) == 3

    table.table.expire_snapshots(retain_max=1)

    assert table.numbers() == [k for k in range(20) if k not in (0, 1, 10)]
    table.check()


def test_files_of_a_commit_not_yet_made_stay(table):
    table.write(2)
    first, second = table.names()
    message = table.message({first: [0]})
    staged = StagedCommit(
        table="db.t", commit_user="later", commit_identifier=1, mode=Append(), messages=(message,), schema_id=0
    )
    table.table.keep_pending(staged)
    table.mark({second: [0]})
    table.table.overwrite([{"k": 1, "v": "only"}])

    table.table.expire_snapshots(retain_max=1)

    assert table.own.children("index").files == (message.new_index_files[0].file_name,)
    assert table.table.pending("later", 1).messages == staged.messages


def test_a_damaged_vector_fails_the_read_and_is_found_by_verify(table):
    table.write()
    table.mark({table.names()[0]: [3]})
    key = f"index/{table.indexes()[0].file_name}"
    data = bytearray(table.own.read(key))
    data[-5] ^= 1
    table.own.write({key: bytes(data)})

    with pytest.raises(CorruptTable, match="its check sum is"):
        table.numbers()

    (finding,) = table.table.verify().findings
    assert str(finding).startswith(f"I11 {key}: it cannot be read")


def test_verify_finds_marks_beyond_the_end_of_their_file(table):
    table.write()
    name = table.names()[0]
    table.mark({name: [3, 10]})

    with pytest.raises(CorruptTable, match="row 10 is marked as deleted, but the file has 10 rows"):
        table.numbers()

    (finding,) = table.table.verify().findings
    assert f"it marks row 10 of {name} as deleted; expected rows 0 to 9" in str(finding)


def test_the_option_changes_once_there_is_data_only_where_the_table_allows_it(table):
    table.write()

    with pytest.raises(lc.InvalidRequest, match=r"unless deletion-vectors\.modifiable is true"):
        table.table.alter(lc.SetOption("deletion-vectors.enabled", "false"))

    table.mark({table.names()[0]: [3]})
    table.table.alter(lc.SetOption("deletion-vectors.modifiable", "true"))
    table.table.alter(lc.SetOption("deletion-vectors.enabled", "false"))
    # Whatever the option says now, what was deleted stays so.
    assert 3 not in table.numbers()


def test_a_full_compaction_of_a_key_table_folds_its_vectors_in():
    catalog = Catalog(MemoryStore(), clock=VirtualClock())
    catalog.create_database("db")
    table = catalog.create_table(
        "db.keyed",
        {"k": "INT", "v": "INT"},
        primary_keys=["k"],
        options={"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
    )
    table.write([{"k": k, "v": 0} for k in range(100)])
    assert table.scan().count() == 0
    table.compact(full=True)
    table.write([{"k": k, "v": 1} for k in range(5)])
    assert table.scan(where="v = 1").count() == 0

    table.compact(full=False)
    marked = table.scan().plan()
    table.compact(full=True)
    folded = table.scan().plan()

    expected = [(k, int(k < 5)) for k in range(100)]
    for plan in (marked, folded):
        found = table.scan(at=lc.AtSnapshot(plan.snapshot_id or 0)).to_arrow()
        assert sorted(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
        assert table.scan(at=lc.AtSnapshot(plan.snapshot_id or 0)).count() == 100
    assert [sum(d.cardinality or 0 for d in split.deletions.values()) for split in marked.splits] == [5]
    assert [dict(split.deletions) for split in folded.splits] == [{}]
    assert table.verify(data=True).findings == ()
