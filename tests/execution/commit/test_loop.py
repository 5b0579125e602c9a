"""What a commit promises to its caller: once, whole, and judged against what the table is when it is applied."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lakehouse_core.api.report_building import commit_report
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import (
    CommitConflict,
    CommitTimeout,
    CorruptTable,
    InvalidRequest,
    StaleCommit,
    UnsupportedFeature,
)
from lakehouse_core.execution.compaction.after_commit import WriteCompaction
from lakehouse_core.planning.commit.ledger import LEDGER_PROPERTY, ledger_of
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.commit_message import (
    BATCH_IDENTIFIER,
    CommitKind,
    CommitMessage,
    DynamicOverwrite,
    StaticOverwrite,
)
from lakehouse_core.table.layout import MAIN, manifest_key
from lakehouse_core.table.snapshot import Snapshot, serialize_snapshot
from lakehouse_core.table.staged_commit import StagedCommit
from tests.execution.commit.commit_vocabulary import CommitTable, another_actor, commit_table
from tests.planning.change_vocabulary import append_schema, data_file, key_schema, partition


@pytest.fixture
def table() -> CommitTable:
    return commit_table()


def test_the_first_commit_makes_snapshot_1_and_its_hint(table: CommitTable) -> None:
    result = table.commit(table.append("a", "b"))

    assert (result.snapshot_ids, result.replayed, result.snapshot_id_before) == ((1,), False, None)
    assert table.live() == "a@0 b@0"
    assert table.store.read("snapshot/LATEST") == b"1"
    assert table.store.children("snapshot").files == ("LATEST", "snapshot-1")


def test_commits_add_up(table: CommitTable) -> None:
    for identifier, name in enumerate("abc", 1):
        table.commit(table.append(name, identifier=identifier))

    assert table.history() == "1 APPEND, 2 APPEND, 3 APPEND"
    assert [table.live(number) for number in (1, 2, 3)] == ["a@0", "a@0 b@0", "a@0 b@0 c@0"]
    assert [one.total_record_count for one in table.context.snapshots.history()] == [10, 20, 30]


def test_the_first_base_list_is_there_and_empty(table: CommitTable) -> None:
    (snapshot,) = table.commit(table.append("a")).snapshots

    listed = manifest_key(snapshot.base_manifest_list)
    assert snapshot.base_manifest_list_size == table.store.infos([listed])[listed].size
    assert table.context.manifests.base(snapshot) == []
    assert len(table.context.manifests.delta(snapshot)) == 1


def test_the_callers_properties_and_watermark_are_in_the_snapshot(table: CommitTable) -> None:
    staged = replace(table.append("a"), properties={"lakehouse.run-id": "r1"}, watermark=17)
    (snapshot,) = table.commit(staged).snapshots

    assert snapshot.properties["lakehouse.run-id"] == "r1"
    assert snapshot.watermark == 17
    assert set(snapshot.properties) == {
        "lakehouse.run-id",
        "lakehouse.nonce",
        "lakehouse.checksums",
        "lakehouse.schema-time",
        "lakehouse.ledger",
    }


def test_properties_of_one_commit_are_not_those_of_the_next(table: CommitTable) -> None:
    table.commit(replace(table.append("a"), properties={"lakehouse.run-id": "r1"}))
    (snapshot,) = table.commit(table.append("b", identifier=2)).snapshots

    assert "lakehouse.run-id" not in snapshot.properties


class TestRepeating:
    def test_the_same_commit_twice_is_applied_once(self, table: CommitTable) -> None:
        staged = table.append("a")
        first = table.commit(staged)
        again = another_actor(table).commit(staged)

        assert (first.replayed, again.replayed) == (False, True)
        assert again.snapshots == first.snapshots
        assert table.history() == "1 APPEND"
        assert table.unreferenced() == []

    def test_it_is_recognised_after_its_snapshot_expired(self, table: CommitTable) -> None:
        staged = table.append("a")
        table.commit(staged)
        for identifier in range(2, 5):
            table.commit(table.append(f"f{identifier}", identifier=identifier, user="other"))
        table.context.snapshots.boundary.advance(4)
        table.store.delete([MAIN.snapshot(number) for number in (1, 2, 3)])
        again = table.commit(staged)

        assert (again.replayed, again.snapshot_ids, again.snapshots) == (True, (1,), ())
        assert table.live() == "a@0 f2@0 f3@0 f4@0"

    def test_both_snapshots_of_a_pair_are_given_back(self, table: CommitTable) -> None:
        staged = pair(table)
        first = table.commit(staged)
        again = table.commit(staged)

        assert first.snapshot_ids == again.snapshot_ids == (2, 3)
        assert again.replayed

    def test_an_earlier_identifier_is_found_while_its_snapshot_lives(self, table: CommitTable) -> None:
        first = table.append("a", identifier=1)
        table.commit(first)
        table.commit(table.append("b", identifier=2))
        again = table.commit(first)

        assert (again.replayed, again.snapshot_ids) == (True, (1,))

    def test_an_earlier_identifier_that_was_never_committed_is_stale(self, table: CommitTable) -> None:
        skipped = table.append("a", identifier=1)
        table.commit(table.append("b", identifier=2))

        with pytest.raises(StaleCommit, match="user has committed 2 already, which is later than 1"):
            table.commit(skipped)
        assert table.live() == "b@0"

    def test_users_do_not_know_each_other(self, table: CommitTable) -> None:
        table.commit(table.append("a", user="one", identifier=5))
        table.commit(table.append("b", user="two", identifier=3))

        assert table.live() == "a@0 b@0"

    def test_one_identifier_may_have_an_append_and_later_a_compaction_of_its_own(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        compaction = table.staged(compacting(table, "a", "x"))

        assert not table.commit(compaction).replayed
        assert table.commit(compaction).replayed
        assert table.history() == "1 APPEND, 2 COMPACT"
        assert table.live() == "x@5"

    def test_a_batch_commit_is_recognised_by_its_user(self, table: CommitTable) -> None:
        staged = table.append("a", user="3fb2", identifier=BATCH_IDENTIFIER)
        table.commit(staged)

        assert table.commit(staged).replayed

    def test_a_batch_commit_that_the_ledger_forgot_is_found_by_walking(self, table: CommitTable) -> None:
        staged = table.append("a", user="first", identifier=BATCH_IDENTIFIER)
        table.commit(staged)
        forget(table)

        assert table.commit(staged).snapshot_ids == (1,)
        assert table.commit(staged).replayed

    def test_what_nobody_can_know_any_more_is_refused(self, table: CommitTable) -> None:
        staged = table.append("a", user="first", identifier=BATCH_IDENTIFIER)
        table.commit(staged)
        forget(table)
        table.context.snapshots.boundary.advance(2)
        table.store.delete([MAIN.snapshot(1)])

        with pytest.raises(StaleCommit, match="staged at snapshot 0, and the snapshots up to 1 are expired"):
            table.commit(staged)

    def test_a_fresh_user_commits_whatever_the_ledger_forgot(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        forget(table)
        table.context.snapshots.boundary.advance(2)
        table.store.delete([MAIN.snapshot(1)])

        assert not table.commit(table.append("b", user="fresh")).replayed


def forget(table: CommitTable) -> None:
    """Let the ledger of the latest snapshot forget everybody, as many later users would."""
    latest = table.context.snapshots.latest()
    assert latest is not None
    ledger = f'{{"v":1,"dropped":{latest.id},"users":{{}}}}'
    claim_by_hand(table, latest.id + 1, latest, **{LEDGER_PROPERTY: ledger})


def claim_by_hand(table: CommitTable, snapshot_id: int, like: Snapshot, **properties: str) -> Snapshot:
    """Publish a snapshot as another engine does: without our properties unless given."""
    update = {"id": snapshot_id, "properties": properties, "commit_user": "java", "commit_identifier": 77}
    made = like.model_copy(update=update)
    assert table.store.create_new(MAIN.snapshot(snapshot_id), serialize_snapshot(made))
    return made


class TestForeignWriters:
    def test_the_ledger_is_rebuilt_when_another_engine_dropped_it(self, table: CommitTable) -> None:
        staged = table.append("a")
        (first,) = table.commit(staged).snapshots
        claim_by_hand(table, 2, first)

        assert table.commit(staged).replayed
        (third,) = table.commit(table.append("b", user="other")).snapshots
        ledger = ledger_of(third, "snapshot-3")
        assert ledger is not None
        assert {user: entry.identifier for user, entry in ledger.entries.items()} == {"user": 1, "java": 77, "other": 1}

    def test_a_hint_that_lags_behind_is_followed(self, table: CommitTable) -> None:
        (first,) = table.commit(table.append("a")).snapshots
        claim_by_hand(table, 2, first)
        claim_by_hand(table, 3, first)

        assert table.commit(table.append("b", user="other")).snapshot_ids == (4,)


def compacting(table: CommitTable, before: str, after: str, *, bucket: int = 0, total: int = 1) -> CommitMessage:
    return table.message(
        bucket=bucket,
        total_buckets=total,
        compact_before=tuple(data_file(name, 1, 9) for name in before.split()),
        compact_after=(data_file(after, 1, 9, level=5),),
    )


def pair(table: CommitTable) -> StagedCommit:
    """Stage an append whose writer also compacted, as the worked example of the specification does."""
    table.commit(table.append("f1", user="earlier"))
    new = data_file("f3", 1, 9, min_sequence_number=10, max_sequence_number=19)
    message = table.message(
        new_files=(new,),
        compact_before=(data_file("f1", 1, 9), new),
        compact_after=(data_file("f4", 1, 9, level=5),),
    )
    return table.staged(message)


class TestCompaction:
    def test_an_append_with_compaction_output_makes_two_snapshots(self, table: CommitTable) -> None:
        result = table.commit(pair(table))

        assert [(one.id, one.commit_kind) for one in result.snapshots] == [
            (2, CommitKind.APPEND),
            (3, CommitKind.COMPACT),
        ]
        assert (table.live(2), table.live(3)) == ("f1@0 f3@0", "f4@5")
        assert [one.commit_identifier for one in result.snapshots] == [1, 1]

    def test_when_the_compaction_loses_the_append_stays(self, table: CommitTable) -> None:
        staged = pair(table)
        table.commit(table.staged(compacting(table, "f1", "theirs"), user="other"))
        result = table.commit(staged)

        assert result.snapshot_ids == (3,)
        assert [one.file_name for one in result.conflicts if one.file_name] == ["f1"]
        report = commit_report(staged, result, WriteCompaction())
        assert (report.snapshot_ids, report.noop_reason) == ((3,), None)
        assert str(report.compaction_failure).startswith(
            "the rows are committed, but the compaction staged with them is not: Another commit changed"
        )
        assert table.live() == "f3@0 theirs@5"
        assert table.unreferenced() == []

    def test_of_a_pair_that_loses_some_buckets_the_report_says_how_many(self) -> None:
        table = commit_table(key_schema(bucket="2"))
        for bucket in (0, 1):
            table.commit(table.append(f"a{bucket}", bucket=bucket, total_buckets=2, identifier=bucket + 1))
        new = data_file("b0", 1, 9, min_sequence_number=10, max_sequence_number=19)
        rows = table.message(bucket=0, total_buckets=2, new_files=(new,))
        mine = table.staged(
            rows,
            compacting(table, "a0", "x0", bucket=0, total=2),
            compacting(table, "a1", "x1", bucket=1, total=2),
            user="one",
        )
        table.commit(table.staged(compacting(table, "a1", "theirs", bucket=1, total=2), user="two"))
        report = commit_report(mine, table.commit(mine), WriteCompaction())

        assert table.live() == "b0@0 theirs@5 x0@5"
        assert str(report.compaction_failure).startswith(
            "the rows are committed; another commit changed 1 of the buckets that the staged compaction rewrites, "
            "which stay as they are: a1 at level 0"
        )

    def test_a_compaction_alone_makes_one_snapshot(self, table: CommitTable) -> None:
        table.commit(table.append("a", "b"))
        result = table.commit(table.staged(compacting(table, "a b", "x"), user="compactor"))

        assert (result.snapshot_ids, table.live()) == ((2,), "x@5")

    def test_a_compaction_whose_input_is_gone_is_a_conflict_that_names_it(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        mine = table.staged(compacting(table, "a", "mine"), user="one")
        table.commit(table.staged(compacting(table, "a", "theirs"), user="two"))

        with pytest.raises(CommitConflict, match="bucket 0: a at level 0 is not there any more"):
            table.commit(mine)
        assert table.live() == "theirs@5"
        assert table.unreferenced() == []

    def test_the_buckets_that_did_not_conflict_are_kept(self) -> None:
        table = commit_table(key_schema(bucket="2"))
        for bucket in (0, 1):
            table.commit(table.append(f"a{bucket}", bucket=bucket, total_buckets=2, identifier=bucket + 1))
        mine = table.staged(
            compacting(table, "a0", "x0", bucket=0, total=2),
            compacting(table, "a1", "x1", bucket=1, total=2),
            user="one",
        )
        table.commit(table.staged(compacting(table, "a1", "theirs", bucket=1, total=2), user="two"))
        result = table.commit(mine)

        assert table.live() == "theirs@5 x0@5"
        assert {one.bucket for one in result.conflicts} == {1}

    def test_new_files_of_others_do_not_hinder_a_compaction(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        mine = table.staged(compacting(table, "a", "mine"), user="one")
        table.commit(table.append("b", user="two"))
        table.commit(mine)

        assert table.live() == "b@0 mine@5"


class TestOverwrite:
    @pytest.fixture
    def days(self) -> CommitTable:
        table = commit_table(append_schema(partitioned=True))
        for identifier, (name, day) in enumerate([("a", "1"), ("b", "2"), ("n", None)], 1):
            files = (data_file(name),)
            message = table.message(in_partition=partition(day), total_buckets=-1, new_files=files)
            table.commit(table.staged(message, identifier=identifier))
        return table

    def new(self, table: CommitTable, name: str, day: str | None) -> CommitMessage:
        return table.message(in_partition=partition(day), total_buckets=-1, new_files=(data_file(name),))

    @pytest.mark.parametrize(
        ("mode", "day", "live"),
        [
            (StaticOverwrite({"dt": "1"}), "1", "b@0 n@0 x@0"),
            (StaticOverwrite(), "1", "x@0"),
            (DynamicOverwrite(), "2", "a@0 n@0 x@0"),
            (DynamicOverwrite(), None, "a@0 b@0 x@0"),
            (DynamicOverwrite(), "3", "a@0 b@0 n@0 x@0"),
        ],
    )
    def test_it_replaces_its_partitions_only(
        self, days: CommitTable, mode: StaticOverwrite | DynamicOverwrite, day: str | None, live: str
    ) -> None:
        result = days.commit(days.staged(self.new(days, "x", day), mode=mode, user="w"))

        assert days.live() == live
        assert result.snapshots[0].commit_kind is CommitKind.OVERWRITE

    def test_without_new_rows_a_static_one_empties_its_partition(self, days: CommitTable) -> None:
        days.commit(days.staged(mode=StaticOverwrite({"dt": "1"}), user="w"))

        assert days.live() == "b@0 n@0"

    @pytest.mark.parametrize("mode", [DynamicOverwrite(), StaticOverwrite({"dt": "9"})])
    def test_what_replaces_nothing_by_nothing_is_a_noop(
        self, days: CommitTable, mode: StaticOverwrite | DynamicOverwrite
    ) -> None:
        result = days.commit(days.staged(mode=mode, user="w"))

        assert (result.snapshots, result.noop_reason) == ((), "there is nothing to commit")
        assert days.context.snapshots.ids.latest() == 3

    def test_a_file_that_its_writer_has_not_seen_makes_it_fail(self, days: CommitTable) -> None:
        mine = days.staged(self.new(days, "x", "1"), mode=DynamicOverwrite(), user="w")
        days.commit(days.staged(self.new(days, "unseen", "1"), user="other"))

        with pytest.raises(CommitConflict, match=r"Since snapshot 3.*1 files.*unseen in partition dt=1, bucket 0"):
            days.commit(mine)
        assert days.live() == "a@0 b@0 n@0 unseen@0"

    def test_a_file_in_another_partition_does_not(self, days: CommitTable) -> None:
        mine = days.staged(self.new(days, "x", "1"), mode=DynamicOverwrite(), user="w")
        days.commit(days.staged(self.new(days, "b2", "2"), user="other"))
        days.commit(mine)

        assert days.live() == "b2@0 b@0 n@0 x@0"

    def test_neither_does_a_compaction_of_what_was_seen(self, days: CommitTable) -> None:
        mine = days.staged(self.new(days, "x", "1"), mode=DynamicOverwrite(), user="w")
        compaction = days.message(
            in_partition=partition("1"), total_buckets=-1,
            compact_before=(data_file("a"),), compact_after=(data_file("a2"),),
        )  # fmt: skip
        days.commit(days.staged(compaction, user="other"))
        days.commit(mine)

        assert days.live() == "b@0 n@0 x@0"

    def test_when_the_history_since_is_gone_it_cannot_be_proven_and_fails(self, days: CommitTable) -> None:
        mine = days.staged(self.new(days, "x", "1"), mode=DynamicOverwrite(), user="w")
        for number in (1, 2):
            days.commit(days.staged(self.new(days, f"b{number}", "2"), user="other", identifier=number))
        days.context.snapshots.boundary.advance(5)
        days.store.delete([MAIN.snapshot(number) for number in range(1, 5)])

        with pytest.raises(CommitConflict, match=r"some later snapshots have expired.*stage the overwrite again"):
            days.commit(mine)

    def test_when_the_table_was_rolled_back_since_it_fails(self, days: CommitTable) -> None:
        mine = days.staged(self.new(days, "x", "1"), mode=DynamicOverwrite(), user="w", base_snapshot_id=9)

        with pytest.raises(CommitConflict, match="staged at snapshot 9, and the latest is 3 now"):
            days.commit(mine)

    def test_rows_of_another_partition_are_refused(self, days: CommitTable) -> None:
        mine = days.staged(self.new(days, "x", "2"), mode=StaticOverwrite({"dt": "1"}), user="w")

        with pytest.raises(InvalidRequest, match="The overwrite of dt=1 has rows of other partitions"):
            days.commit(mine)

    def test_disjoint_new_files_of_a_key_table_go_to_the_top_level(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        message = table.message(new_files=(data_file("x", 1, 4), data_file("y", 5, 9)))
        table.commit(table.staged(message, mode=StaticOverwrite(), user="w"))

        assert table.live() == "x@5 y@5"

    def test_unless_the_table_forbids_it(self) -> None:
        table = commit_table(key_schema(overwrite_upgrade="false"))
        message = table.message(new_files=(data_file("x", 1, 4),))
        table.commit(table.staged(message, mode=StaticOverwrite()))

        assert table.live() == "x@0"

    def test_it_may_change_the_bucket_count(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        message = table.message(bucket=3, total_buckets=4, new_files=(data_file("x", 1, 4),))
        table.commit(table.staged(message, mode=StaticOverwrite(), user="w"))

        assert table.live() == "x@5"


class TestRefusing:
    def test_a_missing_file(self, table: CommitTable) -> None:
        staged = table.append("a")
        table.store.delete(["bucket-0/a"])

        with pytest.raises(CommitConflict, match="bucket-0/a: the commit adds it, but it is missing"):
            table.commit(staged)
        assert table.context.snapshots.ids.latest() is None
        assert table.unreferenced() == []

    def test_a_file_of_another_size(self, table: CommitTable) -> None:
        staged = table.append("a")
        table.store.write({"bucket-0/a": b"cut short"})

        with pytest.raises(CorruptTable, match=r"bucket-0/a: it has 9 bytes, its writer recorded 100"):
            table.commit(staged)

    def test_a_missing_side_file(self, table: CommitTable) -> None:
        message = table.message(new_files=(data_file("a", 1, 9, extra_files=("a.index",)),))

        with pytest.raises(CommitConflict, match=r"bucket-0/a\.index: .* missing"):
            table.commit(table.staged(message))

    def test_a_name_that_leaves_its_folder(self, table: CommitTable) -> None:
        message = CommitMessage(
            partition=bytes(12), bucket=0, total_buckets=1, new_files=(data_file("../../other/t/x", 1, 2),)
        )
        with pytest.raises(InvalidRequest, match=r"'\.\.' is not allowed"):
            table.commit(table.staged(message))

    def test_a_schema_of_the_future(self, table: CommitTable) -> None:
        with pytest.raises(InvalidRequest, match="written with schema 4, the table's latest is 0"):
            table.commit(replace(table.append("a"), schema_id=4))

    def test_another_bucket_count(self, table: CommitTable) -> None:
        table.commit(table.append("a"))

        with pytest.raises(CommitConflict, match="it has 1 buckets, the new files were written for 4"):
            table.commit(table.append("b", bucket=3, total_buckets=4, user="other"))

    def test_another_bucket_count_after_an_alteration(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        assert table.schemas.create(replace(table.schemas.latest(), id=1, options={"bucket": "4"}))

        with pytest.raises(CommitConflict, match="it has 1 buckets, the new files were written for 4"):
            table.commit(table.append("b", bucket=3, total_buckets=4, user="other"))

    def test_the_same_file_again_under_another_name_of_the_user(self, table: CommitTable) -> None:
        table.commit(table.append("a"))
        again = table.staged(table.message(new_files=(data_file("a", 1, 9),), deleted_files=()), user="other")

        # A plain append is not compared with the table; but what deletes is, and then it shows.
        overwriting = replace(
            again,
            messages=(replace(again.messages[0], deleted_files=(data_file("gone", 1, 2),)),),
        )
        with pytest.raises(CommitConflict, match="a at level 0 is there already"):
            table.commit(overwriting)

    def test_a_table_that_asks_for_what_is_not_written_yet(self) -> None:
        table = commit_table()
        options = {"bucket": "1", "row-tracking.enabled": "true"}
        assert table.schemas.create(replace(table.schemas.latest(), id=1, options=options))

        with pytest.raises(UnsupportedFeature, match=r"row-tracking\.enabled"):
            table.commit(table.append("a"))
        assert table.context.snapshots.ids.latest() is None

    def test_a_commit_without_a_user(self, table: CommitTable) -> None:
        with pytest.raises(InvalidRequest, match="expected a name"):
            table.commit(table.append("a", user=""))


class TestEmpty:
    def test_nothing_is_a_noop_that_says_so(self, table: CommitTable) -> None:
        result = table.commit(table.staged())

        assert (result.snapshots, result.noop_reason) == ((), "there is nothing to commit")
        assert list(table.store.list("snapshot")) == []
        assert list(table.store.list("manifest")) == []

    def test_unless_the_table_wants_a_snapshot_of_it(self) -> None:
        table = commit_table(key_schema(**{"snapshot.ignore_empty_commit": "false"}))
        result = table.commit(table.staged())

        assert result.snapshot_ids == (1,)
        assert table.commit(table.staged()).replayed


class TestHistory:
    def test_time_never_goes_back_though_the_clock_does(self) -> None:
        clock = VirtualClock(now_millis=1_000_000)
        table = commit_table(clock=clock)
        (first,) = table.commit(table.append("a")).snapshots
        clock.advance(-500)
        (second,) = table.commit(table.append("b", identifier=2)).snapshots

        assert second.time_millis == first.time_millis

    def test_changelog_files_have_a_list_of_their_own(self) -> None:
        table = commit_table(key_schema(changelog_producer="input"))
        message = table.message(new_files=(data_file("a", 1, 9),), changelog_files=(data_file("log", 1, 9),))
        (snapshot,) = table.commit(table.staged(message)).snapshots

        assert snapshot.changelog_record_count == 10
        (manifest,) = table.context.manifests.changelog(snapshot)
        assert [one.file.file_name for one in table.context.manifests.entries(manifest)] == ["log"]
        assert table.live() == "a@0"

    def test_the_latest_schema_is_the_snapshots(self, table: CommitTable) -> None:
        staged = table.append("a")
        assert table.schemas.create(replace(table.schemas.latest(), id=1, comment="changed"))
        (snapshot,) = table.commit(staged).snapshots

        assert snapshot.schema_id == 1

    def test_a_lagging_or_broken_hint_costs_no_commit(self, table: CommitTable) -> None:
        for identifier in (1, 2, 3):
            table.commit(table.append(f"f{identifier}", identifier=identifier))
        for hint in (b"1", b"99", b"", b"abc", b"-1", b"0"):
            table.store.write({"snapshot/LATEST": hint})
            assert table.context.snapshots.ids.latest() == 3
        table.store.delete(["snapshot/LATEST"])

        assert table.commit(table.append("f4", identifier=4)).snapshot_ids == (4,)


class TestGivingUp:
    def test_a_writer_that_loses_every_race_says_so_and_leaves_nothing(self) -> None:
        store = AlwaysLosing()
        table = commit_table(store=store)
        staged = table.append("a")
        store.loses = True
        before = table.clock.monotonic_seconds()

        with pytest.raises(CommitTimeout, match=r"user/1: lost \d+ races in a row, nothing was applied"):
            table.commit(staged)
        assert 119 < table.clock.monotonic_seconds() - before < 125
        assert table.store.children("manifest").files == ()

    def test_a_table_may_limit_the_retries(self) -> None:
        store = AlwaysLosing()
        table = commit_table(key_schema(**{"commit.max_retries": "3"}), store=store)
        staged = table.append("a")
        store.loses = True

        with pytest.raises(CommitTimeout, match="lost 4 races"):
            table.commit(staged)


class HintsRefused(MemoryStore):
    """The hint cannot be written under its name, as where it is a link that leads out of the table."""

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        if "snapshot/LATEST" in objects:
            raise InvalidRequest("snapshot/LATEST: it leads elsewhere.")
        super().write(objects, durable=durable)


def test_a_hint_that_is_refused_leaves_the_commit_as_it_is() -> None:
    table = commit_table(store=HintsRefused())
    result = table.commit(table.append("a"))

    assert result.snapshot_ids == (1,)
    assert table.live() == "a@0"


class AlwaysLosing(MemoryStore):
    """Every snapshot id is taken just before we come, and its snapshot is gone again after."""

    loses = False

    def create_new(self, key: str, data: bytes) -> bool:
        return False if self.loses and key.startswith("snapshot/") else super().create_new(key, data)


def test_commit_is_a_function_of_its_arguments() -> None:
    """Same seed, same clock, same bytes (docs/reliability/invariants.md#i29-runs-can-be-repeated)."""
    stores = []
    for _ in range(2):
        table = commit_table(clock=VirtualClock(seed=5))
        table.commit(table.append("a"))
        stores.append({info.key: table.store.read(info.key) for info in table.store.list("")})

    assert stores[0] == stores[1]
