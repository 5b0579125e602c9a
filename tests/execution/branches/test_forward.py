"""fast_forward: main gets the newest state of a branch in one snapshot, whoever else is at work and wherever it ends;
a main with commits of its own is refused, and no file that a branch or main needs is deleted.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any, Self

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.metadata.roots import branch_names
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, ObjectStore, ProcessDied
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.snapshot import ROLLBACK_TAG
from tests.execution.branches.test_races import KILLS
from tests.execution.memory_place import MemoryPlace
from tests.execution.test_rollback_to import COLUMNS, KINDS, ROWS, Place
from tests.pairs import each_with_one, in_turn

Rows = list[tuple[Any, ...]]
Event = Callable[[lc.Table], object]
NEVER = timedelta(0)
REFUSED = (lc.CommitConflict, lc.NotFound, lc.InvalidRequest, lc.SnapshotExpired)
UNKNOWN = (lc.WriteOutcomeUnknown, lc.CommitOutcomeUnknown, ProcessDied)


def rows_of(table: lc.Table, at: lc.ReadPoint | None = None) -> Rows:
    found = table.scan(at=at or lc.Latest()).to_arrow().to_pylist()
    return sorted((row["k"], row["p"], row["v"]) for row in found)


class Lines(Place):
    """A table with the branch `b`, which has one snapshot of its own and a schema of its own."""

    def __init__(self, kind: str = "key", **options: str) -> None:
        super().__init__(kind, **options)
        table = self.table()
        table.write(ROWS)
        self.base = table.snapshots()[-1].id
        table.create_branch("b", at=self.base)
        self.branch().write([{"k": 1, "p": 1, "v": "b"}, {"k": 20, "p": 0, "v": "b"}])
        self.branch().alter(lc.AddColumn("w", "INT"))

    def copy(self) -> Self:
        twin = super().copy()
        twin.base = self.base
        return twin

    def branch(self, store: ObjectStore | None = None, name: str = "b") -> lc.Table:
        return self.table(store).branch(name)

    def lines(self) -> dict[str, Rows]:
        names = [branch.name for branch in self.table().branches()]
        return {"": rows_of(self.table()), **{name: rows_of(self.branch(name=name)) for name in names}}

    def mark(self) -> object:
        return self.table()._context.on_branch("b").snapshots.boundary.mark().work

    def check_sound(self) -> None:
        assert self.table().verify(data=True).findings == ()


def expire(table: lc.Table) -> None:
    table.expire_snapshots(retain_max=1, older_than=NEVER)


@pytest.mark.parametrize("kind", in_turn(4, KINDS, first=2))
def test_main_has_the_rows_and_the_schema_of_the_branch_and_both_go_on(kind: str) -> None:
    place = Lines(kind)
    states = {place.base: rows_of(place.table())}
    for number in range(3):
        place.branch().write([{"k": 30 + number, "p": 0, "v": "c", "w": number}])
        if "aggregation" not in kind:
            place.branch().delete(f"k = {number + 2}")
        place.branch().compact(full=number == 1)
        expected = rows_of(place.branch())
        plan = place.table().fast_forward("b", dry_run=True)

        report = place.table().fast_forward("b", properties={"why": "tried"})

        figures = ("files_added", "files_removed", "rows_added", "rows_removed", "branch", "branch_snapshot_id")
        assert [getattr(plan, name) for name in figures] == [getattr(report, name) for name in figures]
        latest = place.table().snapshot()
        assert latest is not None
        assert (latest.id, latest.forwarded_from, latest.properties["why"]) == (place.base + number + 1, "b", "tried")
        assert (report.snapshot_id, report.commit_kind) == (latest.id, "OVERWRITE")
        assert rows_of(place.table()) == rows_of(place.branch()) == expected
        assert list(place.table().schema.column_names) == ["k", "p", "v", "w"]
        states[latest.id] = expected
        again = place.table().fast_forward("b")
        assert again.noop_reason == (
            f"the table has the files of snapshot {report.branch_snapshot_id} of branch 'b' already"
        )
        place.check_sound()
    assert {id: rows_of(place.table(), lc.AtSnapshot(id)) for id in states} == states
    place.branch().overwrite([{"k": 90, "p": 0, "v": "d"}], dynamic=False)
    main = rows_of(place.table())
    expire(place.branch())
    expire(place.table())
    assert rows_of(place.table()) == main
    place.table().write([{"k": 91, "p": 0, "v": "e"}])
    main = rows_of(place.table())
    place.table().delete_branch("b")
    expire(place.table())
    assert rows_of(place.table()) == main
    place.check_sound()


def test_what_a_branch_continues_is_known_after_the_branch_has_expired_it() -> None:
    place = Lines()
    place.branch().write([{"k": 40, "p": 0, "v": "x"}])
    expire(place.branch())
    assert place.table().fast_forward("b").snapshot_id == 2
    for key in (50, 51):
        place.branch().write([{"k": key, "p": 0, "v": "x"}])
    expire(place.branch())
    place.table().rename_branch("b", "c")

    assert place.table().fast_forward("c").snapshot_id == 3
    assert rows_of(place.table()) == rows_of(place.branch(name="c"))


def test_a_copy_of_a_table_knows_what_its_branches_continue() -> None:
    place = Lines()
    place.branch().write([{"k": 40, "p": 0, "v": "x"}])
    expire(place.branch())
    catalog = Catalog(place.store, clock=place.clock)
    catalog.copy_table(place.table(), "db.copy")
    copied = catalog.table("db.copy")

    assert copied.fast_forward("b").snapshot_id == 2
    assert rows_of(copied) == rows_of(place.branch())


def test_a_table_without_snapshots_takes_any_branch() -> None:
    place = Place()
    place.table().create_branch("b")
    place.table().branch("b").write(ROWS)

    assert place.table().fast_forward("b").snapshot_id == 1
    assert place.rows() == sorted((row["k"], row["p"], row["v"]) for row in ROWS)


def write_main(table: lc.Table) -> None:
    table.write([{"k": 70, "p": 0, "v": "main"}])


def test_main_with_commits_of_its_own_is_refused_until_they_are_rolled_back() -> None:
    place = Lines()
    write_main(place.table())
    before = {info.key for info in place.store.list("")}

    with pytest.raises(lc.CommitConflict, match=r"latest snapshot is 2.*continues snapshot 1.*roll the table back to"):
        place.table().fast_forward("b")

    assert {info.key for info in place.store.list("")} == before
    place.table().rollback_to(1)
    place.table().fast_forward("b")
    assert rows_of(place.table()) == rows_of(place.branch())


def alter_both(place: Lines) -> None:
    place.table().alter(lc.AddColumn("other", "INT"))


def empty(place: Lines) -> None:
    place.table().create_branch("none")


@pytest.mark.parametrize(
    ("prepare", "name", "error", "message"),
    [
        (lambda place: None, "nix", lc.NotFound, "Branch 'nix' does not exist. The branches are: b"),
        (lambda place: None, "main", lc.NotFound, "Branch 'main' does not exist"),
        (lambda place: None, "", lc.NotFound, "does not exist"),
        (lambda place: None, 7, lc.InvalidRequest, "expected a text as its name"),
        (empty, "none", lc.InvalidRequest, "branch 'none' has no snapshot"),
        (alter_both, "b", lc.InvalidRequest, "schema 1 of the table is not schema 1 of branch 'b'"),
    ],
)
def test_what_cannot_be_forwarded_is_refused_and_changes_nothing(
    prepare: Callable[[Lines], object], name: Any, error: type[Exception], message: str
) -> None:
    place = Lines()
    prepare(place)
    before = {info.key: place.store.read(info.key) for info in place.store.list("")}

    for dry_run in (True, False):
        with pytest.raises(error, match=message):
            place.table().fast_forward(name, dry_run=dry_run)

    assert {info.key: place.store.read(info.key) for info in place.store.list("")} == before


def test_no_bucket_count_comes_to_a_table_whose_rows_wait_for_their_buckets() -> None:
    """With it the table could not be read between the schema and the snapshot."""
    place = MemoryPlace(COLUMNS, (["k"], [], {"bucket": "-2"}), {})
    table = place.table()
    table.write(ROWS)
    table.create_branch("b", at=1)
    table.branch("b").compact()
    table.branch("b").alter(lc.SetOption("bucket", "1"))
    before = {info.key: place.store.read(info.key) for info in place.store.list("")}

    for dry_run in (True, False):
        with pytest.raises(
            lc.InvalidRequest, match=r"8 of its rows wait.*schema 2 of branch 'b' sets option bucket to 1"
        ):
            place.table().fast_forward("b", dry_run=dry_run)

    assert {info.key: place.store.read(info.key) for info in place.store.list("")} == before
    table.compact()
    table.create_branch("c", at=2)
    table.branch("c").alter(lc.SetOption("bucket", "1"))
    table.branch("c").write([{"k": 60, "p": 0, "v": "c"}])
    place.table().fast_forward("c")
    assert rows_of(place.table()) == rows_of(table.branch("c"))


def test_a_branch_is_not_forwarded_to_itself_or_to_another_branch() -> None:
    place = Lines()

    with pytest.raises(lc.InvalidRequest, match=r"this is a branch. Call it on db\.t"):
        place.branch().fast_forward("b")


def test_a_branch_of_a_branch_follows_after_the_branch() -> None:
    place = Lines()
    place.branch().create_branch("c", at=2)
    place.branch(name="c").write([{"k": 60, "p": 0, "v": "c"}])
    with pytest.raises(lc.CommitConflict, match="branch 'c' continues snapshot 2"):
        place.table().fast_forward("c")

    place.table().fast_forward("b")
    place.table().fast_forward("c")

    assert rows_of(place.table()) == rows_of(place.branch(name="c"))


def test_files_that_come_back_are_kept_by_a_tag_from_the_expiry_of_other_engines() -> None:
    place = Lines()
    place.branch().overwrite([{"k": 1, "p": 1, "v": "c"}], dynamic=False)
    place.table().fast_forward("b")
    assert place.table().tags() == []
    place.branch().rollback_to(1)

    place.table().fast_forward("b")

    assert [(tag.name.startswith(ROLLBACK_TAG), tag.snapshot_id) for tag in place.table().tags()] == [(True, 1)]
    place.branch().rollback_to(3)
    place.table().fast_forward("b")
    assert sorted(tag.snapshot_id for tag in place.table().tags()) == [1, 2]
    expire(place.table())
    assert place.table().tags() == []
    place.check_sound()


def test_an_earlier_fast_forward_may_expire_while_its_changes_are_read() -> None:
    made = Lines()
    made.branch().overwrite([{"k": 1, "p": 1, "v": "c"}], dynamic=False)
    made.table().fast_forward("b")
    made.branch().rollback_to(1)
    made.table().fast_forward("b")
    made.branch().rollback_to(3)
    earlier = made.table().snapshots()[-2].delta_manifest_list
    counting = FaultyStore(made.copy().store)
    forward(made.copy().table(counting))
    reads = [call.number for call in counting.calls if call.key.endswith(f"/{earlier}")]
    assert reads
    for number in reads:
        place = made.copy()

        def interrupt(call: Call, number: int = number, place: Lines = place) -> None:
            if call.number == number:
                clock = VirtualClock(seed=3, now_millis=place.clock.now_millis())
                expire(Catalog(place.store, clock=clock).table("db.t"))

        forward(place.table(FaultyStore(place.store, on_call=interrupt)))

        assert rows_of(place.table()) == rows_of(place.branch()), number
        place.check_sound()


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_followers_see_no_change_by_the_fast_forward_and_every_change_after_it(producer: str) -> None:
    place = Lines(**{"changelog-producer": producer})
    made = place.table().fast_forward("b").snapshot_id
    assert made is not None
    place.table().write([{"k": 1, "p": 0, "v": "c"}])

    assert place.table().changes(after=made - 1, until=made).to_arrow().to_pylist() == []
    told = [(row["rowkind"], row["v"]) for row in place.table().changes(after=made).to_arrow().to_pylist()]
    assert told == ([("-U", "b"), ("+U", "c")] if producer == "lookup" else [("+I", "c")])


@pytest.mark.parametrize("kind", ["append", "key", "key, dynamic"])
def test_rows_that_were_staged_for_main_before_are_committed_after_it(kind: str) -> None:
    place = Lines(kind)
    staged = place.table().stage([{"k": 1, "p": 0, "v": "late"}], commit_user="late", commit_identifier=1)
    place.table().fast_forward("b")
    rows = rows_of(place.table())

    place.table().commit(staged)

    kept = rows if kind == "append" else [row for row in rows if row[0] != 1]
    assert rows_of(place.table()) == sorted([*kept, (1, 0, "late")])
    place.check_sound()


def forward(table: lc.Table) -> None:
    table.fast_forward("b")


def expire_branch(table: lc.Table) -> None:
    table.branch("b").write([{"k": 80, "p": 0, "v": "z"}])
    table.branch("b").overwrite([{"k": 81, "p": 0, "v": "z"}], dynamic=False)
    expire(table.branch("b"))


def delete_branch(table: lc.Table) -> None:
    table.delete_branch("b")


def rename_branch(table: lc.Table) -> None:
    table.rename_branch("b", "c")


def alter_main(table: lc.Table) -> None:
    table.alter(lc.AddColumn("other", "INT"))


def forward_and_delete(table: lc.Table) -> None:
    forward(table)
    delete_branch(table)


EVENTS: list[Event] = [
    write_main,
    forward,
    expire_branch,
    delete_branch,
    rename_branch,
    alter_main,
    expire,
    forward_and_delete,
]
QUICK_ENDS = [(FaultKind.DIE_AFTER, forward)]


def calls_of(run: Event, place: Lines) -> int:
    counting = FaultyStore(place.store)
    run(place.table(counting))
    return len(counting.calls)


def finish(place: Lines) -> None:
    """End what was left, as a user does, and compare the files with those that a root needs."""
    for name in branch_names(place.table()._context.store):
        with suppress(*REFUSED):
            place.table().fast_forward(name)
    for name in branch_names(place.table()._context.store):
        with suppress(lc.NotFound):
            place.table().delete_branch(name)
    rows = rows_of(place.table())
    expire(place.table())
    assert rows_of(place.table()) == rows
    place.check_sound()
    assert not [info.key for info in place.store.list("") if "/lakehouse/plan-" in info.key]


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS)
def test_whoever_comes_between_any_two_calls_nothing_is_lost(event: Event, every: int) -> None:
    made = Lines()
    before = made.lines()
    outcomes = set()
    for number in range(1, calls_of(forward, made.copy()) + 1, every):
        place = made.copy()
        failed: list[BaseException] = []

        def interrupt(call: Call, number: int = number, place: Lines = place, failed: list[Any] = failed) -> None:
            if call.number == number:
                clock = VirtualClock(seed=3, now_millis=place.clock.now_millis())
                try:
                    event(Catalog(place.store, clock=clock).table("db.t"))
                except REFUSED as error:
                    failed.append(error)

        told: BaseException | None = None
        try:
            forward(place.table(FaultyStore(place.store, on_call=interrupt)))
        except REFUSED as error:
            told = error
        rows = rows_of(place.table())
        outcomes.add(type(told))
        if event is write_main:
            assert (70, 0, "main") in rows, number
            assert ((20, 0, "b") in rows) is (told is None), number
        elif told is None:
            assert (20, 0, "b") in rows or (81, 0, "z") in rows, number
        elif event is not forward_and_delete:
            assert rows == before[""], number
        place.check_sound()
        finish(place)
    assert type(None) in outcomes


@pytest.mark.parametrize(
    ("kind", "then"),
    [
        pytest.param(kind, then, marks=[pytest.mark.long] * ((kind, then) not in QUICK_ENDS))
        for kind in KILLS
        for then in (forward, write_main, delete_branch, expire_branch)
    ],
)
def test_a_call_that_ends_anywhere_is_completed_or_refused_by_the_next(
    kind: FaultKind, then: Event, every: int
) -> None:
    made = Lines()
    before = made.lines()
    whole = made.copy()
    number_of_calls = calls_of(forward, whole)
    expected = whole.lines()
    for number in range(1, number_of_calls + 1, every):
        place = made.copy()
        told: BaseException | None = None
        try:
            forward(place.table(FaultyStore(place.store, [Fault(at=number, kind=kind)])))
        except (lc.LakehouseError, ProcessDied) as error:
            told = error
        found = place.lines()
        assert found in (before, expected), number
        if told is None:
            assert found == expected, number
        elif not isinstance(told, UNKNOWN):
            assert found == before, number
        place.check_sound()
        failed = None
        try:
            then(place.table())
        except REFUSED as error:
            failed = error
        if then is delete_branch and failed is not None:
            # The call may go on somewhere: its branch stays until it is completed, or main has another commit.
            assert isinstance(failed, lc.CommitConflict), number
            assert "the table has no snapshot after 1, so that it may still publish" in str(failed), number
            assert found == before, number
        if then is write_main and found == before:
            with pytest.raises(lc.CommitConflict, match="the table has changed since"):
                forward(place.table())
        elif then is not delete_branch or failed is not None:
            with suppress(lc.CommitConflict):
                forward(place.table())
            assert (20, 0, "b") in rows_of(place.table()) or (81, 0, "z") in rows_of(place.table()), number
        if "b" in place.lines():
            assert place.mark() is None, number
        finish(place)


@pytest.mark.long
def test_a_paused_call_publishes_nothing_after_another_one_has_ended_and_the_branch_is_gone() -> None:
    """Each pause of the first call: a second one completes, the branch is deleted, and its files with it."""
    made = Lines()
    for pause in count(1):
        place = made.copy()
        paused = FaultyStore(
            place.store,
            on_call=lambda call, pause=pause, place=place: (
                call.number == pause and (forward(place.table()), delete_branch(place.table()), expire(place.table()))
            ),
        )
        with suppress(*REFUSED, lc.WriteOutcomeUnknown):
            forward(place.table(paused))
        assert (20, 0, "b") in rows_of(place.table()), pause
        place.check_sound()
        if len(paused.calls) < pause:
            break


@pytest.mark.long
def test_an_expiry_finds_the_files_that_main_takes_over_from_a_branch_while_it_reads_the_roots() -> None:
    """The fast-forward comes between any two calls of an expiry, and the branch, which had the files, goes at once."""
    made = Lines()
    made.branch().overwrite([{"k": 1, "p": 1, "v": "c"}], dynamic=False)
    made.branch().rollback_to(2)
    made.branch().write([{"k": 25, "p": 1, "v": "d"}])

    def run(table: lc.Table) -> None:
        expire(table.branch("b"))

    def end_before_the_files(call: Call) -> None:
        if gone and gone[-1] is not call:
            gone.clear()
            raise ProcessDied
        if call.method == "delete" and call.key.endswith("branch-b/lakehouse/boundary"):
            gone.append(call)

    gone: list[Call] = []
    expected = rows_of(made.branch())
    for number in range(1, calls_of(run, made.copy()) + 1):
        place = made.copy()

        def interrupt(call: Call, number: int = number, place: Lines = place) -> None:
            if call.number == number:
                clock = VirtualClock(seed=3, now_millis=place.clock.now_millis())
                # It ends before it finishes what the expiry has begun.
                ending = FaultyStore(place.store, on_call=end_before_the_files)
                with suppress(*REFUSED):
                    forward(Catalog(place.store, clock=clock).table("db.t"))
                    with suppress(ProcessDied):
                        delete_branch(Catalog(ending, clock=clock).table("db.t"))

        with suppress(*REFUSED, lc.WriteOutcomeUnknown, lc.StorageUnavailable):
            run(place.table(FaultyStore(place.store, on_call=interrupt)))
        if place.table().snapshots()[-1].id > 1:
            assert rows_of(place.table()) == expected, number
        place.check_sound()
        finish(place)


@pytest.mark.parametrize("maker", ["this package", "java"])
def test_an_expiry_finds_the_files_that_main_takes_over_from_a_branch_that_java_then_drops(maker: str) -> None:
    """Java drops the folder of a branch without a plan, so neither branches nor plans change while roots are read."""
    made = Lines()
    if maker == "java":
        made.store.delete([f"db.db/t/{TableLayout('b').used_name}"])
    made.branch().overwrite([{"k": 1, "p": 1, "v": "c"}], dynamic=False)
    made.branch().rollback_to(2)
    made.branch().write([{"k": 25, "p": 1, "v": "d"}])
    expected = rows_of(made.branch())
    counting = FaultyStore(made.copy().store)
    expire(made.copy().branch(counting))
    keys = [call.key for call in counting.calls]
    first = keys.index("db.db/t/snapshot")
    for number in range(first + 2, keys.index("db.db/t/branch", first) + 2):
        place = made.copy()

        def interrupt(call: Call, number: int = number, place: Lines = place) -> None:
            if call.number == number:
                clock = VirtualClock(seed=3, now_millis=place.clock.now_millis())
                forward(Catalog(place.store, clock=clock).table("db.t"))
                place.store.delete([info.key for info in place.store.list("db.db/t/branch/branch-b")])

        expire(place.branch(FaultyStore(place.store, on_call=interrupt)))

        assert rows_of(place.table()) == expected, number
        place.check_sound()


def test_a_refused_call_tells_what_ends_the_record_of_a_killed_one_and_a_refused_rename_uses_no_name() -> None:
    made = Lines()
    killed_with_its_record(made)
    alter_main(made.table())
    for _ in range(2):
        with pytest.raises(lc.CommitConflict, match="a fast_forward is forwarding it, or was interrupted"):
            rename_branch(made.table())

    with pytest.raises(
        lc.InvalidRequest,
        match=r"both were altered.*cannot be renamed or deleted before the table has another.*Write to the table f",
    ):
        forward(made.table())

    write_main(made.table())
    with pytest.raises(lc.CommitConflict) as told:
        forward(made.table())
    assert "cannot be renamed" not in str(told.value)
    rename_branch(made.table())
    assert made.table().branches()[0].name == "c"


def killed_with_its_record(place: MemoryPlace) -> None:
    """Let a fast-forward of `place` end just after it has written its record."""
    boundary = f"db.db/t/{TableLayout('b').boundary}"
    twin = place.copy()
    counting = FaultyStore(twin.store)
    forward(twin.table(counting))
    number = next(call.number for call in counting.calls if call.key == boundary and call.writes)
    with pytest.raises(ProcessDied):
        forward(place.table(FaultyStore(place.store, [Fault(at=number, kind=FaultKind.DIE_AFTER)])))


@pytest.mark.parametrize("then", [forward, write_main])
@pytest.mark.parametrize("verb", [delete_branch, rename_branch])
def test_a_branch_of_a_killed_call_goes_once_main_has_left_its_base(verb: Event, then: Event) -> None:
    place = Lines()
    killed_with_its_record(place)
    before = {info.key: place.store.read(info.key) for info in place.store.list("")}
    told = r"table has no snapshot after 1, so.*call fast_forward again to have.*or write to the table to keep"
    with pytest.raises(lc.CommitConflict, match=told):
        verb(place.table())
    with pytest.raises(lc.CommitConflict, match=told):
        place.table().delete_branch("b", dry_run=True)
    assert {info.key: place.store.read(info.key) for info in place.store.list("")} == before

    # The schema of the branch comes to the table with what makes it leave the base.
    then(place.table())
    expected = rows_of(place.table())
    verb(place.table())

    assert [branch.name for branch in place.table().branches()] == ([] if verb is delete_branch else ["c"])
    assert rows_of(place.table()) == expected
    finish(place)


def test_a_record_in_a_table_without_snapshots_is_told_as_such() -> None:
    place = Place()
    place.table().create_branch("b")
    place.table().branch("b").write(ROWS)
    killed_with_its_record(place)

    with pytest.raises(lc.CommitConflict, match="the table has no snapshot, so that it may still publish"):
        delete_branch(place.table())

    place.table().write(ROWS)
    delete_branch(place.table())
    assert place.table().branches() == []


def overtaken() -> Lines:
    """Return a table whose branch a call that was killed after its snapshot still forwards, with rows for the next."""
    place = Lines()
    twin = place.copy()
    counting = FaultyStore(twin.store)
    forward(twin.table(counting))
    calls = (call for call in counting.calls if call.key.endswith("/t/snapshot/snapshot-2") and call.writes)
    with pytest.raises(ProcessDied):
        forward(place.table(FaultyStore(place.store, [Fault(at=next(calls).number, kind=FaultKind.DIE_AFTER)])))
    assert place.mark() == "forwarding"
    place.branch().write([{"k": 21, "p": 0, "v": "b"}])
    return place


GOING = [(delete_branch, forward)]


@pytest.mark.parametrize(
    ("verb", "event"),
    [
        pytest.param(verb, event, marks=[pytest.mark.long] * ((verb, event) not in GOING))
        for verb in (delete_branch, rename_branch)
        for event in (forward, write_main, delete_branch, expire_branch)
    ],
)
def test_whoever_comes_between_any_two_calls_of_a_verb_that_ends_a_record_nothing_is_lost(
    verb: Event, event: Event, every: int
) -> None:
    made = overtaken()
    before = made.lines()
    for number in range(1, calls_of(verb, made.copy()) + 1, every):
        place = made.copy()
        ends: list[bool] = []

        def interrupt(call: Call, number: int = number, place: Lines = place, ends: list[bool] = ends) -> None:
            if call.number == number:
                clock = VirtualClock(seed=3, now_millis=place.clock.now_millis())
                with suppress(*REFUSED, lc.WriteOutcomeUnknown):
                    event(Catalog(place.store, clock=clock).table("db.t"))
                    ends.append(True)

        goes = False
        with suppress(*REFUSED, lc.WriteOutcomeUnknown):
            verb(place.table(FaultyStore(place.store, on_call=interrupt)))
            goes = True

        rows = rows_of(place.table())
        assert set(before[""]) <= set(rows), number
        assert ((21, 0, "b") in rows) is (event is forward and bool(ends)), number
        assert ((70, 0, "main") in rows) is (event is write_main), number
        lines = place.lines()
        if goes:
            assert "b" not in lines, number
        if verb is rename_branch and goes and event is not expire_branch:
            assert lines["c"] == before["b"], number
        place.check_sound()
        finish(place)


@pytest.mark.parametrize(("verb", "kind"), each_with_one([delete_branch, rename_branch], KILLS, step=2))
def test_a_verb_that_ends_a_record_and_ends_anywhere_is_completed_by_the_next(
    verb: Event, kind: FaultKind, every: int
) -> None:
    made = overtaken()
    before = made.lines()
    for number in range(1, calls_of(verb, made.copy()) + 1, every):
        place = made.copy()
        with suppress(lc.LakehouseError, ProcessDied):
            verb(place.table(FaultyStore(place.store, [Fault(at=number, kind=kind)])))

        assert rows_of(place.table()) == before[""], number
        try:
            verb(place.table())
        except lc.InvalidRequest:
            # The new name is used, and the old branch closed.
            place.table().rename_branch("b", "c-2")
        except lc.NotFound:
            assert "b" not in place.lines(), number
        if verb is rename_branch:
            assert [rows for name, rows in place.lines().items() if name] == [before["b"]], number
        else:
            assert place.lines() == {"": before[""]}, number
        place.check_sound()
        finish(place)


def test_the_record_of_what_a_branch_continues_is_parsed_whole_or_refused() -> None:
    place = Lines()
    key = f"db.db/t/{TableLayout('b').branch_base}"
    place.store.write({key: place.store.read(key)[:-1]})

    with pytest.raises(lc.CorruptTable, match=r"lakehouse/base: found .* expected the id and the delta"):
        place.table().fast_forward("b")


def test_a_schema_alone_is_brought_without_a_snapshot() -> None:
    place = Place()
    place.table().write(ROWS)
    place.table().create_branch("b", at=1)
    place.table().branch("b").alter(lc.AddColumn("w", "INT"))

    report = place.table().fast_forward("b")

    assert (report.snapshot_id, report.noop_reason) == (None, None)
    assert list(place.table().schema.column_names) == ["k", "p", "v", "w"]
    assert place.table().fast_forward("b").noop_reason is not None
