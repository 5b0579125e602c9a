"""What each step of a commit does to the table as it is now, and when it does not fit any more."""

import pytest

from lakehouse_core.errors import CommitConflict, InvalidRequest, SnapshotExpired, UnsupportedFeature
from lakehouse_core.options import BucketFunction
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.steps import (
    AppendStep,
    CommitStep,
    CompactStep,
    OverwriteStep,
    RewriteManifestsStep,
    StepState,
    commit_steps,
    expired_error,
    needs_live_files,
    plan_step,
    with_messages,
)
from lakehouse_core.table.bucketing import Fixed, Unaware
from lakehouse_core.table.commit_message import CommitKind, DynamicOverwrite, StaticOverwrite
from lakehouse_core.table.data_file import EMPTY_ROW
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DELETION_VECTORS, DeletionVectorRange, EntryKind, ManifestEntry
from lakehouse_core.table.manifest import IndexManifestEntry as Index
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit
from tests.planning.change_vocabulary import (
    FEB,
    JAN,
    WORKED,
    add,
    append_schema,
    data_file,
    delete,
    key_schema,
    message,
    shown,
    staged,
)

FILE = data_file("a", 1, 2)
NEW = message(new_files=(data_file("a", 1, 9),))
DELETING = message(new_files=(data_file("a", 1, 9),), deleted_files=(data_file("old", 1, 9),))
COMPACTED = message(compact_before=(data_file("a", 1, 9),), compact_after=(data_file("b", 1, 9, level=5),))


def steps(commit: StagedCommit, *, skips_empty: bool = False) -> str:
    """Return the steps as `type kind`, with ? where an empty one makes no snapshot."""
    found = commit_steps(commit, skips_empty=skips_empty)
    return ", ".join(f"{type(one).__name__} {one.kind}{'?' if one.skips_empty else ''}" for one in found)


def only(commit: StagedCommit) -> CommitStep:
    (step,) = commit_steps(commit, skips_empty=True)
    return step


def state(*files: str, schema: TableSchema | None = None, **more: object) -> StepState:
    """Return the state in which files `name` or `name@level`, with keys 1 to 9, are live."""
    names = [text.partition("@")[::2] for text in files]
    live = [add(data_file(name, 1, 9, level=int(level or 0))) for name, level in names]
    return StepState(schema=schema or key_schema(), latest_id=7, live=live, **more)  # type: ignore[arg-type]


def index(name: str, kind: str = DELETION_VECTORS, in_partition: bytes = EMPTY_ROW, *files: str) -> Index:
    vectors = tuple(DeletionVectorRange(data_file_name=one, offset=1, length=10, cardinality=1) for one in files)
    return Index(
        kind=EntryKind.ADD,
        partition=in_partition,
        bucket=0,
        index_type=kind,
        file_name=name,
        file_size=100,
        row_count=1,
        deletion_vectors=vectors,
    )


class TestSteps:
    @pytest.mark.parametrize(
        ("commit", "expected"),
        [
            pytest.param(staged(NEW), "AppendStep APPEND", id="rows"),
            pytest.param(staged(), "AppendStep APPEND", id="nothing"),
            pytest.param(staged(DELETING), "AppendStep OVERWRITE", id="a deletion"),
            pytest.param(staged(NEW, mode=StaticOverwrite()), "OverwriteStep OVERWRITE", id="an overwrite"),
            pytest.param(staged(mode=DynamicOverwrite()), "OverwriteStep OVERWRITE", id="an overwrite by nothing"),
            pytest.param(staged(COMPACTED), "CompactStep COMPACT?", id="a compaction alone"),
            pytest.param(staged(WORKED), "AppendStep APPEND?, CompactStep COMPACT?", id="rows, then their compaction"),
            pytest.param(
                staged(COMPACTED, mode=StaticOverwrite()),
                "OverwriteStep OVERWRITE?, CompactStep COMPACT?",
                id="an overwrite by nothing, and a compaction",
            ),
        ],
    )
    def test_a_commit_is_one_snapshot_for_its_files_and_one_for_its_compactions(
        self, commit: StagedCommit, expected: str
    ) -> None:
        assert steps(commit) == expected

    def test_a_commit_alone_skips_an_empty_snapshot_only_where_the_table_says_so(self) -> None:
        assert steps(staged(NEW), skips_empty=True) == "AppendStep APPEND?"

    def test_messages_that_name_a_file_twice_are_refused_before_anything_is_done(self) -> None:
        twice = message(compact_after=(data_file("b"), data_file("b")))

        with pytest.raises(InvalidRequest, match="adds b of bucket 0 twice"):
            commit_steps(staged(NEW, twice), skips_empty=True)
        with pytest.raises(InvalidRequest, match="adds a of bucket 0 twice"):
            commit_steps(staged(NEW, NEW), skips_empty=True)

    def test_a_step_names_its_commit_and_a_rewrite_of_manifests_what_it_is(self) -> None:
        assert only(staged(NEW)).name == "u/1"
        assert RewriteManifestsStep(staged=staged()).name == "compact_manifests by u"


class TestLiveFiles:
    @pytest.mark.parametrize(
        ("kind", "entry", "settings", "expected"),
        [
            (CommitKind.APPEND, add(FILE), {"1"}, False),
            (CommitKind.APPEND, add(FILE, total_buckets=4), {"1", "4"}, True),
            (CommitKind.APPEND, add(FILE, total_buckets=8), {"4"}, True),
            (CommitKind.APPEND, delete(FILE), {"1"}, True),
            (CommitKind.OVERWRITE, add(FILE), {"1"}, True),
            (CommitKind.COMPACT, add(FILE), {"1"}, True),
        ],
    )
    def test_a_plain_append_is_not_compared_with_the_table(
        self, kind: CommitKind, entry: ManifestEntry, settings: set[str], expected: bool
    ) -> None:
        changes, bucketing = FileChanges(kind=kind, entries=(entry,)), Fixed(1, BucketFunction.DEFAULT)

        assert needs_live_files(changes, bucketing=bucketing, bucket_settings=settings) is expected

    def test_without_buckets_an_append_is_never_compared(self) -> None:
        changes = FileChanges(kind=CommitKind.APPEND, entries=(add(FILE),))

        assert not needs_live_files(changes, bucketing=Unaware(), bucket_settings={"-1", "4"})


class TestAppend:
    def test_an_append_that_needs_no_comparison_is_taken_as_it_is(self) -> None:
        plan = plan_step(only(staged(NEW)), StepState(schema=key_schema()))

        assert (shown(plan.changes.entries), plan.conflicts, plan.is_refused) == ("+a@0", (), False)

    def test_it_removes_files_that_are_there(self) -> None:
        assert shown(plan_step(only(staged(DELETING)), state("old")).changes.entries) == "+a@0 -old@0"

    def test_it_is_refused_whole_when_one_is_gone(self) -> None:
        plan = plan_step(only(staged(DELETING)), state("other"))

        assert plan.is_refused
        assert plan.changes.is_empty
        assert [one.reason for one in plan.conflicts] == ["old at level 0 is not there any more"]

    def test_files_of_an_index_that_nobody_here_changes_stay(self) -> None:
        with pytest.raises(UnsupportedFeature, match="h1: bucket 0 has a BTREE index"):
            plan_step(only(staged(DELETING)), state("old", indexes=[index("h1", "BTREE")]))

    def test_other_files_may_take_the_place_of_its_own(self) -> None:
        step = only(staged(NEW))
        assert isinstance(step, AppendStep)
        again = with_messages(step, (message(new_files=(data_file("a2", 1, 9),)),))

        assert shown(again.changes.entries) == "+a2@0"
        assert again.staged.commit_user == "u"


class TestOverwrite:
    schema = key_schema(partitioned=True)

    def plan(self, base_id: int | None = 7, *, latest_id: int | None = 7, since: tuple[object, ...] = ()) -> str:
        new = message(JAN, new_files=(data_file("a", 1, 9),))
        step = only(staged(new, mode=StaticOverwrite({"dt": "2024-01"}), base_snapshot_id=base_id))
        live = [add(data_file("old", 1, 9), in_partition=JAN)]
        found = StepState(
            schema=self.schema,
            latest_id=latest_id,
            live=live if latest_id is not None else None,
            indexes=[index("v1", DELETION_VECTORS, JAN, "old"), index("v2", DELETION_VECTORS, FEB, "else")],
            covers=JAN.__eq__,
            since_staged=since,  # type: ignore[arg-type]
        )
        plan = plan_step(step, found)
        return f"{shown(plan.changes.entries)} {' '.join(f'-{one.file_name}' for one in plan.changes.indexes)}"

    def test_it_removes_what_its_partitions_hold_with_the_vectors_of_it(self) -> None:
        assert self.plan() == "-old@0 +a@5 -v1", "its own file needs no merge, so it goes to the top level"

    def test_it_removes_nothing_where_it_covers_nothing(self) -> None:
        step = only(staged(message(JAN, new_files=(data_file("a", 1, 9),)), mode=DynamicOverwrite()))

        assert shown(plan_step(step, StepState(schema=self.schema, latest_id=7)).changes.entries) == "+a@0"

    def test_a_compaction_staged_with_it_finds_its_files_at_level_0(self) -> None:
        first, _ = commit_steps(staged(NEW, COMPACTED, mode=StaticOverwrite()), skips_empty=True)
        plan = plan_step(first, state(covers=lambda _: True))

        assert shown(plan.changes.entries) == "+a@0"

    def test_a_file_that_its_writer_cannot_have_seen_stops_it(self) -> None:
        unseen = ((CommitKind.APPEND, [add(data_file("late"), in_partition=JAN)]),)

        with pytest.raises(CommitConflict, match=r"Since snapshot 5.*1 files.*late in partition dt=2024-01, bucket 0"):
            self.plan(5, since=unseen)

    def test_a_file_of_another_partition_does_not(self) -> None:
        elsewhere = ((CommitKind.APPEND, [add(data_file("late"), in_partition=FEB)]),)

        assert self.plan(5, since=elsewhere).startswith("-old@0")

    def test_a_table_that_was_rolled_back_stops_it(self) -> None:
        with pytest.raises(CommitConflict, match=r"staged at snapshot 8, and the latest is 7 now: .* rolled back"):
            self.plan(8)

    def test_in_an_empty_table_there_is_nothing_to_have_seen(self) -> None:
        assert self.plan(8, latest_id=None).startswith("+a@5")

    def test_a_past_that_cannot_be_read_any_more_stops_it(self) -> None:
        error = expired_error(5, SnapshotExpired("Snapshot 6 is expired."))

        assert "staged at snapshot 5" in str(error)
        assert "Snapshot 6 is expired." in str(error)

    def test_vectors_of_another_index_file_are_no_matter_of_the_overwrite(self) -> None:
        assert "v2" not in self.plan()


class TestCompact:
    def test_it_is_applied_where_its_input_is_live(self) -> None:
        plan = plan_step(only(staged(COMPACTED)), state("a"))

        assert shown(plan.changes.entries) == "-a@0 +b@5"
        assert plan.conflicts == ()

    def test_it_is_given_up_in_buckets_that_another_commit_changed(self) -> None:
        other = message(
            bucket=1,
            compact_before=(data_file("gone", 1, 9),),
            compact_after=(data_file("c", 1, 9, level=5),),
        )
        plan = plan_step(only(staged(COMPACTED, other)), state("a"))

        assert shown(plan.changes.entries) == "-a@0 +b@5"
        assert [one.bucket for one in plan.conflicts] == [1]
        assert not plan.is_refused

    def test_it_is_refused_when_nothing_of_it_is_left(self) -> None:
        assert plan_step(only(staged(COMPACTED)), state("other")).is_refused

    def test_in_an_empty_table_nothing_is_left(self) -> None:
        assert plan_step(only(staged(COMPACTED)), StepState(schema=key_schema())).is_refused

    def test_index_files_go_with_the_data_files_they_mark(self) -> None:
        vectors = IndexFile(
            index_type=DELETION_VECTORS,
            file_name="v1",
            file_size=100,
            row_count=1,
            deletion_vectors=(DeletionVectorRange(data_file_name="a", offset=1, length=10, cardinality=1),),
        )
        compacted = message(total_buckets=-1, compact_before=(data_file("a"),), compact_deleted_index_files=(vectors,))
        found = StepState(
            schema=append_schema(),
            latest_id=7,
            live=[add(data_file("a"), total_buckets=-1)],
            indexes=[index("v1", DELETION_VECTORS, EMPTY_ROW, "a")],
        )

        assert [one.file_name for one in plan_step(only(staged(compacted)), found).changes.indexes] == ["v1"]


def test_a_rewrite_of_manifests_changes_no_file() -> None:
    step = RewriteManifestsStep(staged=staged())
    plan = plan_step(step, StepState(schema=key_schema(), latest_id=7))

    assert plan.changes.is_empty
    assert plan.rewrites_manifests
    assert step.kind is CommitKind.COMPACT


def test_steps_are_values() -> None:
    assert only(staged(NEW)) == only(staged(NEW))
    assert isinstance(only(staged(COMPACTED)), CompactStep)
    assert isinstance(only(staged(NEW, mode=StaticOverwrite())), OverwriteStep)
