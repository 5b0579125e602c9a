"""Without a sequence field the order of commits decides which row of a key is the newest, whoever staged first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.commit.order import CommitOrder
from lakehouse_core.execution.commit.waiting.turn import CommitTurn
from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.storage import (
    Call,
    Fault,
    FaultKind,
    FaultyStore,
    MemoryStore,
    ObjectStore,
    ProcessDied,
)
from lakehouse_core.table.commit_message import Append, CommitMessage
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DELETION_VECTORS
from tests.execution.small_table import SmallTable
from tests.pairs import in_turn

Rows = Sequence[Mapping[str, Any]]

VECTORS = {"deletion-vectors.enabled": "true"}
TABLES = {
    "deduplicate": {},
    "deduplicate, vectors": VECTORS,
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, vectors": {"changelog-producer": "lookup", **VECTORS},
    "full compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
}


class Place:
    """A warehouse in memory with the table `db.t` (k INT, v STRING, n INT)."""

    def __init__(self, options: Mapping[str, str], store: ObjectStore | None = None) -> None:
        self.clock = VirtualClock()
        self.store = store or MemoryStore(clock=self.clock)
        catalog = Catalog(self.store, clock=self.clock)
        catalog.create_database("db")
        columns = {"k": "INT NOT NULL", "v": "STRING", "n": "INT"}
        self.table = catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "1", **options})

    def stage(self, user: str, *rows: tuple[Any, ...], **more: Any) -> lc.StagedCommit:
        """Stage rows (k, v, n) under a name."""
        data = [dict(zip("kvn", row, strict=False)) for row in rows]
        return self.table.stage(data, commit_user=user, commit_identifier=1, **more)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((row["k"], row["v"]) for row in self.table.scan().to_arrow().to_pylist())

    def data_files(self) -> set[str]:
        """Return the names of the data files there are."""
        return {info.key.rpartition("/")[2] for info in self.store.list("db.db/t/bucket-0")}

    def live(self) -> set[str]:
        return {file.file_name for file in self.table.files()}


def replayed(table: lc.Table) -> list[tuple[Any, ...]]:
    """Apply the changelog from the first snapshot on; what it takes away must be what is there."""
    state: dict[int, dict[str, Any]] = {}
    for change in table.changes(after=0).to_arrow().to_pylist():
        kind = change.pop("rowkind")
        if kind in ("-U", "-D"):
            assert state.pop(change["k"]) == change
        else:
            assert table.schema.options.get("changelog-producer") != "lookup" or change["k"] not in state
            state[change["k"]] = change
    return sorted((row["k"], row["v"]) for row in state.values())


@pytest.mark.parametrize("options", in_turn(3, TABLES.values()), ids=TABLES)
def test_the_later_commit_wins_and_the_changelog_leads_to_the_rows(options: dict[str, str]) -> None:
    for order in permutations("abc"):
        place = Place(options)
        place.table.write([{"k": 0, "v": "first"}])
        staged = {
            user: place.stage(user, *((key, user) for key in reversed(range(1, count))))
            for user, count in (("a", 4), ("b", 2), ("c", 3))
        }
        expected = {0: "first"}
        for user in order:
            place.table.commit(staged[user])
            expected |= {key: user for key in range(1, {"a": 4, "b": 2, "c": 3}[user])}

            assert place.rows() == sorted(expected.items())
        place.table.compact(full=True)
        assert replayed(place.table) == place.rows() == sorted(expected.items())
        assert place.table.verify().findings == ()
        # What was staged and replaced is gone, and so is what was written in vain.
        named = {
            file.file_name for one in place.table.snapshots() for file in place.table.files(at=lc.AtSnapshot(one.id))
        }
        assert {name for name in place.data_files() if name.startswith("data-")} == named


def test_the_first_committed_row_of_a_key_is_the_first_row() -> None:
    place = Place({"merge-engine": "first-row", "changelog-producer": "lookup"})
    late, soon = place.stage("a", (1, "late"), (2, "late"), (3, "late")), place.stage("b", (4, "soon"), (1, "soon"))
    place.table.commit(soon)
    place.table.commit(late)

    assert place.rows() == replayed(place.table) == [(1, "soon"), (2, "late"), (3, "late"), (4, "soon")]


def test_partial_updates_come_in_the_order_of_their_commits() -> None:
    place = Place({"merge-engine": "partial-update", "changelog-producer": "lookup"})
    one, other = place.stage("a", (1, "a", 1), (1, None, 2), (2, "a")), place.stage("b", (1, "b", None))
    place.table.commit(one)
    place.table.commit(other)

    assert place.rows() == replayed(place.table) == [(1, "b"), (2, "a")]
    assert place.table.scan(columns=["n"], where="k = 1").to_arrow().to_pylist() == [{"n": 2}]


def test_functions_that_look_at_the_order_see_that_of_the_commits() -> None:
    many_files = {"write-buffer-size": "1 b", "write-buffer-spillable": "false", "write-only": "true"}
    place = Place({"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg", **many_files})
    rows = [pa.table({"k": pa.array([1], pa.int32()), "v": [f"a{number}"]}) for number in (1, 2, 3)]
    first = place.table.stage(
        pa.Table.from_batches([batch for one in rows for batch in one.to_batches()]),
        commit_user="a",
        commit_identifier=1,
    )
    assert len(first.messages[0].new_files) == 3
    place.table.commit(place.stage("b", (1, "b")))
    place.table.commit(first)

    # What one writer wrote stays in its order.
    assert place.rows() == [(1, "b,a1,a2,a3")]


def test_where_a_sequence_field_decides_the_order_of_commits_breaks_its_ties() -> None:
    place = Place({"sequence.field": "n"})
    staged = [place.stage("a", (1, "a", 5), (2, "a", 5), (3, "a", 5)), place.stage("b", (1, "b", 5), (2, "b", 4))]
    for one in staged:
        place.table.commit(one)

    assert place.rows() == [(1, "b"), (2, "a"), (3, "a")]


def test_an_overtaken_delete_deletes() -> None:
    place = Place({"changelog-producer": "lookup"})
    place.table.write([{"k": 1, "v": "old"}])
    update = place.stage("a", (1, "new"), (2, "new"))
    delete = place.table.stage(
        [{"k": 1, "op": "-D"}], commit_user="b", commit_identifier=1, rowkind_column="op"
    )  # fmt: skip
    place.table.commit(update)
    place.table.commit(delete)

    assert place.rows() == replayed(place.table) == [(2, "new")]


def test_what_is_staged_behind_another_stays_behind_it() -> None:
    place = Place({})
    first = place.stage("a", (1, "a1"), (2, "a1"))
    second = place.stage("a2", (1, "a2"), behind=[first])
    other = place.stage("b", *((key, "b") for key in range(1, 9)))
    for staged in (other, first, second):
        place.table.commit(staged)

    assert place.rows()[:3] == [(1, "a2"), (2, "a1"), (3, "b")]


def test_an_append_that_a_large_overwrite_overtook_wins_over_it() -> None:
    place = Place({})
    late = place.stage("a", (1, "late"))
    place.table.overwrite([{"k": key, "v": "overwrite"} for key in range(20)])
    place.table.commit(late)

    assert place.rows()[:3] == [(0, "overwrite"), (1, "late"), (2, "overwrite")]
    # An overwrite counts from 0 again, and what comes after it goes on from there.
    place.table.overwrite([{"k": 1, "v": "again"}])
    place.table.write([{"k": 1, "v": "last"}])
    assert place.rows() == [(1, "last")]
    assert place.table.verify().findings == ()


def test_each_bucket_is_a_matter_of_its_own() -> None:
    place = Place({"bucket": "2", "write-only": "true"})
    late = place.stage("a", *((key, "late") for key in range(8)))
    soon = place.stage("b", (1, "soon"))
    place.table.commit(soon)
    place.table.commit(late)
    anew = {message.bucket for message in late.messages if not names_of(message) & place.live()}

    assert place.rows() == [(key, "late") for key in range(8)]
    assert anew == {message.bucket for message in soon.messages}
    assert len(late.messages) == 2


def names_of(message: CommitMessage) -> set[str]:
    return {file.file_name for file in message.new_files}


@pytest.mark.parametrize(
    ("committed", "staged_stays"),
    [((), True), (((7, "other key"),), True), (((1, "same key"),), False)],
    ids=["nothing", "other keys", "the same key"],
)
def test_only_what_was_overtaken_is_written_anew(committed: tuple[Any, ...], staged_stays: bool) -> None:
    place = Place({"write-only": "true"})
    late = place.stage("a", (1, "late"))
    if committed:
        place.table.commit(place.stage("b", *committed))
    place.table.commit(late)

    assert (names_of(late.messages[0]) <= place.live()) == staged_stays
    assert place.data_files() == place.live()


ITS_OWN = {
    "file_name", "extra_files", "file_size", "creation_time_millis", "min_sequence_number", "max_sequence_number",
}  # fmt: skip


def test_the_new_file_differs_in_its_numbers_alone() -> None:
    options = {
        "write-only": "true",
        "file.format": "orc",
        "file-index.bloom-filter.columns": "v",
        "file-index.in-manifest-threshold": "1 b",
        "metadata.stats-mode": "truncate(3)",
    }
    place = Place(options)
    late = place.stage("a", (1, "late"), (3, "later"))
    place.table.alter(lc.AddColumn("more", "INT"), lc.SetOption("file.format", "parquet"))
    place.table.commit(place.stage("b", (1, "soon"), (2, "soon"), (3, "soon")))
    report = place.table.commit(late)
    (staged,) = late.messages[0].new_files
    made = next(
        file
        for file in place.table._context.manifests.live_entries(place.table.snapshot(), with_stats=True)
        if file.file.max_sequence_number > 2
    ).file
    same = {name: getattr(staged, name) for name in type(staged).__slots__ if name not in ITS_OWN}

    assert report.files_added == 1
    assert (made.min_sequence_number, made.max_sequence_number) == (3, 4)
    assert {name: getattr(made, name) for name in same} == same
    assert made.format == "orc"
    assert [name.rpartition(".")[2] for name in made.extra_files] == ["index"]
    assert place.rows() == [(1, "late"), (2, "soon"), (3, "later")]
    assert {*made.all_names} <= place.data_files()
    assert not {*staged.all_names} & place.data_files()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [1, 40], ids=["few commits", "more than are read one by one"])
@pytest.mark.parametrize("expires", [False, True], ids=["all there", "expired"])
def test_it_does_not_matter_how_long_ago_it_was_staged(count: int, expires: bool) -> None:
    place = Place({"write-only": "true", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"})
    place.table.write([{"k": 0, "v": "first"}])
    late = place.stage("a", (1, "late"))
    for number in range(count):
        place.table.write([{"k": 1, "v": str(number)}, {"k": 2, "v": str(number)}])
    if expires:
        place.table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    place.table.commit(late)

    assert place.rows() == [(0, "first"), (1, "late"), (2, str(count - 1))]


def test_numbers_stay_free_for_the_commits_that_wait_ahead_so_that_they_do_not_overtake_the_rows_again() -> None:
    place = Place({"write-only": "true"})
    staged = place.stage("slow", (1, "slow"))
    place.table.write([{"k": 1, "v": "quick"}])
    order = CommitOrder(place.table._context, staged)

    def numbers(commits_ahead: int) -> tuple[int, set[str]]:
        messages = order.messages_at(
            place.table._context.snapshots.latest(), place.table._context.schemas.latest(), commits_ahead=commits_ahead
        )
        (file,) = messages[0].new_files
        return file.min_sequence_number, {file.file_name}

    first, names = numbers(commits_ahead=2)
    for number in range(20):
        place.table.write([{"k": 1, "v": f"{number}"}])

    assert first == 1 + 2_000
    assert numbers(commits_ahead=1) == (first, names)


def test_a_staged_commit_survives_as_text_and_is_the_same_until_it_is_applied() -> None:
    place = Place({})
    late = place.stage("a", (1, "late"))
    text = late.to_json()
    place.table.commit(place.stage("b", (1, "soon"), (2, "soon")))
    place.table.commit(lc.StagedCommit.from_json(text))
    again = place.table.commit(lc.StagedCommit.from_json(text))

    assert late.to_json() == text
    assert (again.replayed, place.rows()) == (True, [(1, "late"), (2, "soon")])


def test_the_same_files_under_another_name_are_refused_and_stay() -> None:
    place = Place({"write-only": "true"})
    staged = place.stage("a", (1, "once"))
    place.table.commit(staged)

    with pytest.raises(lc.CommitConflict, match="another user or identifier committed the same file"):
        place.table.commit(replace(staged, commit_user="b"))
    assert place.rows() == [(1, "once")]


def test_the_same_files_under_another_name_are_refused_after_many_commits_and_stay_in_older_snapshots() -> None:
    place = Place({"write-only": "true"})
    place.table.write([{"k": 1, "v": "first"}])
    staged = place.stage("a", (1, "once"))
    place.table.commit(staged)
    place.table.compact(full=True)
    for number in range(40):
        place.table.write([{"k": 1, "v": str(number)}])
    with pytest.raises(lc.CommitConflict, match="another user or identifier committed the same file"):
        place.table.commit(replace(staged, commit_user="b"))

    assert place.table.verify().findings == ()
    assert place.table.scan(at=lc.AtSnapshot(2)).to_arrow().to_pylist() == [{"k": 1, "v": "once", "n": None}]


def as_others_commit(place: Place, staged: lc.StagedCommit) -> lc.CommitReport:
    """Commit with the numbers that it was staged with, as a writer that does not look would."""
    return place.table.commit(replace(staged, base_snapshot_id=place.table.snapshot().id))


@pytest.mark.parametrize(
    ("late", "options", "count"),
    [
        ([(1, "late")], {}, 1),
        ([(9, "other keys")], {}, 0),
        ([(1, "late", 5)], {"sequence.field": "n"}, 0),
    ],
    ids=["same keys", "other keys", "sequence field"],
)
def test_verify_names_the_file_of_another_engine_whose_rows_lose_to_earlier_ones(
    late: list[tuple[Any, ...]], options: dict[str, str], count: int
) -> None:
    place = Place({"write-only": "true", **options})
    staged = place.stage("a", *late)
    place.table.commit(place.stage("b", (2, "soon", 1), (1, "soon", 1)))
    as_others_commit(place, staged)
    place.table.write([{"k": 1, "v": "later"}])
    findings = place.table.verify().findings
    (file,) = staged.messages[0].new_files

    assert [finding.object for finding in findings] == [f"snapshot/snapshot-2, bucket-0/{file.file_name}"] * count
    for finding in findings:
        assert str(finding).startswith("I9 ")
        assert "a row of it has sequence number 0, and the row of the same key in" in finding.found
        assert finding.found.endswith("which was committed before it, has 1")


OTHERS = {
    "keys between those of the other": (False, {}),
    "keys between those of a compacted file": (True, {}),
    "keys between those of a compacted file, vectors": (True, VECTORS),
    "keys between those of a compacted file, avro": (True, {"file.format": "avro"}),
}


@pytest.mark.parametrize("lost", [False, True], ids=["others", "same"])
@pytest.mark.parametrize(("compacts", "options"), OTHERS.values(), ids=OTHERS)
def test_verify_looks_at_the_rows_where_ranges_of_keys_and_numbers_cross(
    compacts: bool, options: dict[str, str], lost: bool
) -> None:
    place = Place({"write-only": "true", **options})
    place.table.write([{"k": 1, "v": "first"}])
    staged = place.stage("a", (5, "late"))
    as_others_commit(place, place.stage("b", (9, "soon"), (5 if lost else 6, "soon")))
    if compacts:
        place.table.compact(full=True)
    as_others_commit(place, staged)

    promises = [str(finding.promise) for finding in place.table.verify().findings]
    assert promises == ["I9"] * lost


def test_a_row_that_a_deletion_vector_marks_wins_over_nothing() -> None:
    place = Place({"write-only": "true", **VECTORS})
    staged = place.stage("a", (1, "late"))
    place.table.write([{"k": key, "v": "soon"} for key in (1, 2, 3)])
    place.table.compact(full=True)
    place.table.write([{"k": 1, "v": "gone", "op": "-D"}], rowkind_column="op")
    place.table.compact()
    as_others_commit(place, staged)
    place.table.compact()

    assert place.rows() == [(1, "late"), (2, "soon"), (3, "soon")]
    assert place.table.verify().findings == ()


def test_numbers_that_are_not_those_of_the_rows_are_damage_where_they_decide() -> None:
    place = Place({"write-only": "true"})
    place.table.write([{"k": 1, "v": "first"}, {"k": 2, "v": "first"}])
    staged = place.stage("a", (2, "late"))
    (message,) = staged.messages
    (file,) = message.new_files
    wrong = replace(file, min_sequence_number=0, max_sequence_number=0)
    place.table.commit(replace(staged, messages=(replace(message, new_files=(wrong,)),)))

    (finding,) = place.table.verify().findings
    assert (str(finding.promise), finding.object) == ("I11", f"bucket-0/{file.file_name}")
    assert "it has sequence numbers 2 to 2, and its manifest entry records 0 to 0" in finding.found


def test_where_rows_are_damaged_verify_names_their_file_and_guesses_nothing() -> None:
    place = Place({"write-only": "true"})
    staged = place.stage("a", (1, "late"))
    soon = place.stage("b", (1, "soon"))
    place.table.commit(soon)
    as_others_commit(place, staged)
    (file,) = soon.messages[0].new_files
    key = f"db.db/t/bucket-0/{file.file_name}"
    place.store.write({key: bytes(reversed(place.store.read(key)))})

    (finding,) = place.table.verify().findings
    assert (str(finding.promise), finding.object) == ("I11", f"bucket-0/{file.file_name}")


def test_where_the_rows_cannot_be_read_here_verify_says_that_some_may_lose() -> None:
    table = SmallTable()
    later = table.data_file({1: "late"})
    table.write({1: "soon"})
    table.commit([table.message("d", 0, new_files=(later,))], Append())

    (finding,) = verify(table.context)
    assert str(finding.promise) == "I9"
    assert "may hold the same keys, has numbers up to" in finding.found


def test_where_nobody_can_tell_which_rows_are_deleted_verify_says_that_some_may_lose() -> None:
    place = Place({"write-only": "true", **VECTORS})
    staged = place.stage("a", (1, "late"))
    soon = place.stage("b", (1, "soon"), (2, "soon"))
    unnamed = IndexFile(index_type=DELETION_VECTORS, file_name="index-none", file_size=1, row_count=1)
    place.store.write({"db.db/t/index/index-none": b"?"})
    place.table.commit(replace(soon, messages=(replace(soon.messages[0], new_index_files=(unnamed,)),)))
    as_others_commit(place, staged)

    (found,) = (each.found for each in place.table.verify().findings if str(each.promise) == "I9")
    assert "may hold the same keys, has numbers up to" in found


@pytest.mark.parametrize("options", [TABLES["lookup"], TABLES["lookup, vectors"]], ids=["lookup", "vectors"])
def test_where_others_crossed_their_numbers_the_changelog_leads_to_the_rows_all_the_same(
    options: dict[str, str],
) -> None:
    place = Place(options)
    place.table.write([{"k": 0, "v": "first"}])
    soon, late = place.stage("b", (2, "soon"), (1, "soon")), place.stage("a", (1, "late"))
    for staged in (soon, late):
        as_others_commit(place, staged)

        assert replayed(place.table) == place.rows()
    place.table.compact(full=True)

    assert replayed(place.table) == place.rows() == [(0, "first"), (1, "soon"), (2, "soon")]


@pytest.mark.slow
def test_of_two_that_hold_the_same_commit_one_applies_it_and_the_other_learns_that() -> None:
    """While one looks at the table, the other applies it, and deletes the staged file that another stands for."""
    for call in range(1, 40):
        place = Place({"write-only": "true"})
        late = place.stage("a", (1, "late"))
        place.table.commit(place.stage("b", (1, "soon"), (2, "soon")))

        def meanwhile(now: Call, call: int = call, table: lc.Table = place.table, late: lc.StagedCommit = late) -> None:
            if now.number == call:
                table.commit(late)

        mine = Catalog(FaultyStore(place.store, on_call=meanwhile), clock=VirtualClock(seed=3)).table("db.t")

        assert mine.commit(late).snapshot_ids == (2,)
        assert place.rows() == [(1, "late"), (2, "soon")]
        assert place.data_files() == place.live()
        assert place.table.verify().findings == ()


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    in_turn(
        2,
        [FaultKind.FAIL_BEFORE, FaultKind.LOST_BEFORE, FaultKind.FAIL_AFTER, FaultKind.DIE_BEFORE, FaultKind.DIE_AFTER],
    ),
)
def test_a_fault_at_any_call_leaves_the_later_commit_applied_or_not_and_repeating_it_applies_it_once(
    kind: FaultKind,
) -> None:
    def make() -> tuple[Place, lc.StagedCommit]:
        place = Place({"write-only": "true"})
        late = place.stage("a", (1, "late"), (3, "late"))
        place.table.commit(place.stage("b", (1, "soon"), (2, "soon")))
        return place, late

    before, after = [(1, "soon"), (2, "soon")], [(1, "late"), (2, "soon"), (3, "late")]
    place, late = make()
    store = FaultyStore(place.store)
    Catalog(store, clock=VirtualClock(seed=3)).table("db.t").commit(late)
    assert place.rows() == after
    for call in range(1, len(store.calls) + 1):
        place, late = make()
        faulty = Catalog(FaultyStore(place.store, [Fault(at=call, kind=kind)]), clock=VirtualClock(seed=3))
        told: BaseException | None = None
        try:
            faulty.table("db.t").commit(late)
        except (lc.LakehouseError, ProcessDied) as error:
            told = error
        seen = place.rows()
        assert seen in (before, after), f"call {call}"
        assert told is not None or seen == after, f"call {call}"
        assert not isinstance(told, lc.StorageUnavailable | lc.CommitTimeout) or seen == before, f"call {call}"
        FaultyStore(place.store)
        place.table.commit(late)

        assert place.rows() == after, f"call {call}"
        assert sum(one.commit_user == "a" for one in place.table.snapshots()) == 1
        assert place.live() <= place.data_files()
        assert place.table.verify().findings == ()


def test_a_commit_that_nothing_overtook_opens_no_data_file() -> None:
    place = Place({"write-only": "true"})
    staged = place.stage("a", (1, "a"))
    place.table.write([{"k": 2, "v": "b"}])
    store = FaultyStore(place.store)
    Catalog(store, clock=VirtualClock(seed=3)).table("db.t").commit(staged)

    assert {call.method for call in store.calls if "bucket-0/" in call.key} == {"infos"}


def test_parts_of_one_commit_keep_their_order_while_others_wait_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first part must be written anew: numbers left free for others would lift it above the second part."""
    monkeypatch.setattr(CommitTurn, "commits_ahead", 2)
    place = Place({"write-buffer-size": "1 b", "write-buffer-spillable": "false", "write-only": "true"})
    files = [pa.table({"k": pa.array([key], pa.int32()), "v": ["first"]}) for key in (1, 7, 8, 9)]
    first = place.table.stage(
        pa.Table.from_batches([batch for file in files for batch in file.to_batches()]),
        commit_user="a",
        commit_identifier=1,
    )
    assert len(first.messages[0].new_files) == 4
    second = place.stage("b", (1, "second"), behind=[first])
    place.table.commit(place.stage("c", (1, "other")))

    place.table.commit_together([first, second], commit_user="joint", commit_identifier=1)

    assert place.rows() == [(1, "second"), (7, "first"), (8, "first"), (9, "first")]
