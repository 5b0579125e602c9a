"""Random lives of a table: whatever expires, what is still there shows what it always showed.

And an expiry that fails at any of its calls: nothing is lost, and running it again finishes it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CommitConflict, LakehouseError
from lakehouse_core.execution.branches.closing import open_branches
from lakehouse_core.execution.branches.create import create_branch
from lakehouse_core.execution.branches.delete import delete_branch
from lakehouse_core.execution.branches.forward import fast_forward
from lakehouse_core.execution.branches.rename import rename_branch
from lakehouse_core.execution.commit.compact_manifests import compact_manifests
from lakehouse_core.execution.expiry.expire import expire
from lakehouse_core.execution.expiry.orphans import remove_orphans
from lakehouse_core.execution.expiry.tag_changes import rename_tag, replace_tag
from lakehouse_core.execution.read.lineage import load_lineage
from lakehouse_core.execution.rollback import roll_back
from lakehouse_core.planning.read.read_point import AtSnapshot, AtTag
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, ProcessDied
from tests.contexts import context_of
from tests.execution.small_table import HOUR, SmallTable
from tests.oracle.lineage import WatchedFiles
from tests.oracle.reachable import reachable

pytestmark = pytest.mark.slow

DECOUPLED = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "6", "changelog.time-retained": "6 h"}
LIVES = st.fixed_dictionaries(
    {
        "keyed": st.booleans(),
        "partitioned": st.booleans(),
        "options": st.builds(
            lambda *parts: {key: value for part in parts for key, value in part.items()},
            st.sampled_from(
                [{}, {"manifest.merge-min-count": "3"}, {"manifest.full-compaction-threshold-size": "1 b"}]
            ),
            st.sampled_from([{}, DECOUPLED]),
            st.sampled_from([{}, {"lakehouse.read.grace": "1 h"}]),
            st.sampled_from([{}, {"snapshot.expire.limit": "2"}]),
        ),
        "producer": st.sampled_from(["none", "input"]),
    }
)
DT = st.sampled_from(["d", "e"])
STEPS = st.one_of(
    st.tuples(
        st.just("write"), DT, st.dictionaries(st.integers(0, 5), st.none() | st.text("ab", max_size=2), min_size=1)
    ),
    st.tuples(st.just("write"), DT, st.dictionaries(st.integers(0, 5), st.just("x"), min_size=1)),
    st.tuples(st.just("overwrite"), DT, st.dictionaries(st.integers(0, 5), st.just("o"), min_size=1)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("compact manifests")),
    st.tuples(st.just("tag"), st.sampled_from("stu"), st.integers(0, 5), st.none() | st.just(2 * HOUR * 1000)),
    st.tuples(st.just("delete tag"), st.sampled_from("stu")),
    st.tuples(st.just("replace tag"), st.sampled_from("stu"), st.integers(0, 5)),
    st.tuples(st.just("rename tag"), st.sampled_from("stu"), st.sampled_from("stu")),
    st.tuples(st.just("roll back"), st.integers(0, 5)),
    st.tuples(st.just("roll back to a tag"), st.sampled_from("stu")),
    st.tuples(st.just("branch"), st.integers(0, 5)),
    st.tuples(st.just("branch off a tag"), st.sampled_from("stu")),
    st.tuples(
        st.just("change a branch"), st.integers(0, 2), st.dictionaries(st.integers(0, 5), st.just("b"), min_size=1)
    ),
    st.tuples(st.just("expire a branch"), st.integers(0, 2), st.integers(1, 2)),
    st.tuples(st.just("rename a branch"), st.integers(0, 2)),
    st.tuples(st.just("delete a branch"), st.integers(0, 2)),
    st.tuples(st.just("forward to a branch"), st.integers(0, 2)),
    st.tuples(st.just("expire"), st.integers(1, 6)),
    st.tuples(st.just("expire"), st.integers(1, 2)),
    st.tuples(st.just("remove orphans"), DT),
    st.tuples(st.just("sleep"), st.sampled_from([0.3, 1.1, 3.0])),
)


class Life:
    """A table beside what it should show: a state for each snapshot, kept as plain dictionaries."""

    def __init__(self, keyed, partitioned, options, producer, **store):
        if keyed and producer != "none":
            options = {**options, "changelog-producer": producer}
        self.table = SmallTable(keyed=keyed, partitioned=partitioned, options=options, **store)
        self.now = {}
        self.states = {}
        self.changelogs = {}
        self.watched = WatchedFiles()
        # By name: the rows of the latest snapshot, and those of each snapshot.
        self.branches = {}
        # By name: the snapshots of main that a branch continues, the last one last; by id: what a rollback brought.
        self.continued = {}
        self.brought_back = {}
        self._live = {}
        self._next_key = 100
        self._next_branch = 0

    def committed(self, snapshot_id):
        if snapshot_id is not None:
            self.watch(snapshot_id)
            self.states[snapshot_id] = dict(self.now)
            self.changelogs[snapshot_id] = self.table.changelog(self.table.context.snapshots.snapshot(snapshot_id))

    def watch(self, snapshot_id):
        """Note the files of a commit's snapshots: a commit may have made one for its rows and one for its deletions."""
        for made in range(max(self.states, default=0) + 1, snapshot_id + 1):
            snapshot = self.table.context.snapshots.snapshot(made)
            live = self.table.live(snapshot)
            kind = snapshot.commit_kind if snapshot.forwarded_from is None else "FORWARD"
            self.watched.saw(made, kind, self._live, live)
            self._live = live

    def step(self, name, *arguments):
        getattr(self, name.replace(" ", "_"))(*arguments)

    def write(self, dt, rows):
        dt, rows = self._own(dt, rows)
        for key, value in rows.items():
            if value is None:
                self.now.pop((dt, key), None)
            else:
                self.now[dt, key] = value if self.table.schema.primary_keys else f"+{value}"
        self.committed(self.table.write(rows, dt=dt))

    def overwrite(self, dt, rows):
        dt, rows = self._own(dt, rows)
        prefix = "" if self.table.schema.primary_keys else "+"
        self.now = {key: value for key, value in self.now.items() if key[0] != dt}
        self.now |= {(dt, key): f"{prefix}{value}" for key, value in rows.items()}
        self.committed(self.table.overwrite(rows, dt=dt))

    def compact(self):
        self.committed(self.table.compact())

    def compact_manifests(self):
        made = compact_manifests(
            self.table.context,
        )
        self.committed(None if made.snapshot is None else made.snapshot.id)

    def tag(self, name, back, retention_millis):
        ids = self.table.ids()
        if ids and name not in self.table.context.tags.all():
            self.table.tag(name, at=ids[max(0, len(ids) - 1 - back)], retention_millis=retention_millis)

    def delete_tag(self, name):
        if name in self.table.context.tags.all():
            self.table.delete_tag(name)
            self.check()

    def replace_tag(self, name, back):
        ids = self.table.ids()
        if name in self.table.context.tags.all():
            replace_tag(self.table.context, name, snapshot_id=ids[max(0, len(ids) - 1 - back)])
            self.check()

    def rename_tag(self, name, new_name):
        tags = self.table.context.tags.all()
        if name in tags and new_name not in tags:
            rename_tag(self.table.context, name, new_name)
            self.check()

    def roll_back(self, back):
        if ids := self.table.ids():
            self._rolled_back(AtSnapshot(ids[max(0, len(ids) - 1 - back)]))

    def roll_back_to_a_tag(self, name):
        if name in self.table.context.tags.all():
            self._rolled_back(AtTag(name))

    def _rolled_back(self, point):
        self.table.clock.advance(1)
        result = roll_back(self.table.context, point)
        self.now = dict(self.states[result.target.id])
        if result.snapshot is not None:
            self.brought_back[result.snapshot.id] = result.target.id
        self.committed(None if result.snapshot is None else result.snapshot.id)
        self.check()

    def expire(self, retain_max):
        before = self.table.objects()
        plan = self.table.expire(retain_max=retain_max, dry_run=True)
        assert self.table.objects() == before
        result = self.table.expire(retain_max=retain_max)
        assert set(plan.deleted_keys) == set(result.deleted_keys) == before - self.table.objects()
        assert (plan.files_waiting, plan.waiting_keys) == (result.files_waiting, result.waiting_keys)
        self.check()
        return result

    def remove_orphans(self, dt):
        left = [f"{self.table.folder(self._own(dt, {})[0], 1)}/data-left.json"]
        # Without a snapshot it may be that of a lost one.
        left += ["manifest/manifest-left"] if self.table.ids() else []
        self.table.store.write(dict.fromkeys(left, b"left behind"))
        self.table.clock.advance(HOUR)
        before = self.table.objects()
        found = remove_orphans(self.table.context, min_age_millis=HOUR * 1000)
        assert [one.key for one in found.deleted] == sorted(left)
        assert self.table.objects() == before - {*left}

    def branch(self, back):
        if ids := self.table.ids():
            self._branched(AtSnapshot(ids[max(0, len(ids) - 1 - back)]))

    def branch_off_a_tag(self, name):
        if name in self.table.context.tags.all():
            self._branched(AtTag(name))

    def _branched(self, point):
        name = self._fresh_branch()
        first = create_branch(self.table.context, name, point)
        self.branches[name] = {first: dict(self.states[first])}
        self.continued[name] = [first]
        self.check()

    def change_a_branch(self, index, rows):
        if (name := self._branch_at(index)) is None:
            return
        dt, rows = self._own("d", rows)
        states = self.branches[name]
        now = dict(states[max(states)])
        for key, value in rows.items():
            now[dt, key] = value if self.table.schema.primary_keys else f"+{value}"
        table, main = self.table, self.table.context
        table.context = main.on_branch(name)
        try:
            states[table.write(rows, dt=dt)] = now
        finally:
            table.context = main
        self.check()

    def expire_a_branch(self, index, retain_max):
        if (name := self._branch_at(index)) is not None:
            expire(self.table.context.on_branch(name), retain_max=retain_max)
            self.check()

    def rename_a_branch(self, index):
        if (name := self._branch_at(index)) is not None:
            new_name = self._fresh_branch()
            rename_branch(self.table.context, name, new_name)
            self.branches[new_name] = self.branches.pop(name)
            self.continued[new_name] = self.continued.pop(name)
            self.check()

    def delete_a_branch(self, index):
        if (name := self._branch_at(index)) is not None:
            delete_branch(self.table.context, name)
            del self.branches[name]
            self.check()

    def forward_to_a_branch(self, index):
        if (name := self._branch_at(index)) is None:
            return
        self.table.clock.advance(1)
        latest, continued, states = max(self.states), self.continued[name], self.branches[name]
        same = {latest}
        while (id := self.brought_back.get(min(same))) is not None:
            same.add(id)
        try:
            result = fast_forward(self.table.context, name)
        except CommitConflict:
            assert latest != continued[-1]
        else:
            assert same & {*continued}
            assert result.source.id == max(states)
            if result.snapshot is not None:
                self.now = dict(states[max(states)])
                self.continued[name] = [*continued, result.snapshot.id]
                self.committed(result.snapshot.id)
            assert self.table.visible(self.table.context.snapshots.latest()) == states[max(states)]
        self.check()

    def _branch_at(self, index):
        names = sorted(self.branches)
        return names[index] if index < len(names) else None

    def _fresh_branch(self):
        # A name is used once.
        self._next_branch += 1
        return f"b{self._next_branch}"

    def sleep(self, hours):
        self.table.clock.advance(hours * HOUR)

    @property
    def waits(self):
        return self.table.schema.options["lakehouse.read.grace"] != "0 s"

    def check(self):
        """Everything that is there shows what it showed when it was made, and nothing else is there."""
        table = self.table
        history = table.context.snapshots.history()
        assert [snapshot.id for snapshot in history] == sorted(self.states)[len(self.states) - len(history) :]
        for snapshot in history:
            assert table.visible(snapshot) == self.states[snapshot.id]
            assert table.changelog(snapshot) == self.changelogs[snapshot.id]
        for tag in table.context.tags.all().values():
            assert table.visible(tag.snapshot) == self.states[tag.snapshot.id]
        for changelog_id in table.context.changelogs.ids():
            assert table.changelog(table.context.changelogs.changelog(changelog_id)) == self.changelogs[changelog_id]
        self.check_branches()
        self.check_lineage()
        if not self.waits:
            assert files_of(table) == needed_files(table)
            assert not any(key.startswith("lakehouse/plan-") for key in table.objects())

    def check_branches(self):
        """Every branch is there, and its snapshots and tags show what they showed."""
        assert open_branches(self.table.context) == sorted(self.branches)
        for name, states in self.branches.items():
            branch = self.table.context.on_branch(name)
            history = branch.snapshots.history()
            assert [snapshot.id for snapshot in history] == sorted(states)[len(states) - len(history) :]
            for snapshot in history:
                assert self.table.visible(snapshot) == states[snapshot.id], name
            for tag in branch.tags.all().values():
                assert self.table.visible(tag.snapshot) == self.states[tag.snapshot.id], name

    def check_lineage(self):
        """The trail of every file of a retained or tagged snapshot goes as far as the known snapshots tell."""
        context = self.table.context
        known = load_lineage(context)
        left = [*context.snapshots.history(), *(tag.snapshot for tag in context.tags.all().values())]
        names = {name for snapshot in left for names in self.table.live(snapshot).values() for name in names}

        assert {snapshot.id for snapshot in left} <= {*known.snapshots}
        assert self.watched.differences(map(known.lineage.origin, names), {*known.snapshots}) == []

    def _own(self, dt, rows):
        """Without keys, rows are told apart by keys that are never used twice; without partitions all lie in one."""
        if not self.table.schema.primary_keys:
            rows = {self._fresh_key(): value or "n" for value in rows.values()}
        return (dt if self.table.partitioned else "d"), rows

    def _fresh_key(self):
        self._next_key += 1
        return self._next_key


def needed_files(table):
    """Return the files that a root of a branch needs."""
    producer = table.schema.options.get("changelog-producer", "none")
    lines = map(table.context.on_branch, (None, *open_branches(table.context)))
    return set().union(*(reachable(line, table.folders, delta_is_changelog=producer == "none") for line in lines))


def files_of(table):
    return {key for key in table.files() if not key.startswith("branch/")}


@given(LIVES, st.lists(STEPS, min_size=5, max_size=30))
def test_what_is_left_after_any_life_shows_what_it_always_showed(life, steps):
    live(Life(**life), steps)


def live(life, steps):
    """Take the steps, then let everything expire: what is there is right after each, and only that is left."""
    for step in steps:
        life.step(*step)

        assert life.table.findings() == []
    # The calm at the end: the waits end, and only what is needed is left.
    for _ in range(40):
        life.sleep(3)
        if life.expire(1).noop_reason is not None and not life.table.expire(retain_max=1).waiting_plan_ids:
            break

    life.check()
    assert files_of(life.table) == needed_files(life.table)
    assert life.table.findings() == []


def eventful_table(**options):
    """A table with everything for one expiry to do: snapshots, changelogs, a tag out of time, dead files."""
    table = SmallTable(options={**DECOUPLED, "changelog.num-retained.max": "5", **options})
    table.write({1: "a", 2: "b"})
    table.write({1: "c"})
    table.expire(retain_max=1)
    table.clock.advance(2 * HOUR)
    table.expire(retain_max=1)
    table.compact()
    table.tag("short", retention_millis=1000)
    table.write({3: "d"})
    table.tag("kept")
    table.write({3: "e", 4: "f"})
    table.compact()
    table.overwrite({9: "g"})
    table.write({8: "h"})
    table.clock.advance(2)
    return table


def run(store, clock):
    return expire(context_of(store, clock), retain_max=2)


FAULTS = [
    FaultKind.DIE_BEFORE,
    pytest.param(FaultKind.DIE_AFTER, marks=pytest.mark.long),
    pytest.param(FaultKind.FAIL_BEFORE, marks=pytest.mark.long),
    pytest.param(FaultKind.FAIL_AFTER, marks=pytest.mark.long),
    pytest.param(FaultKind.LOST_BEFORE, marks=pytest.mark.long),
    pytest.param(FaultKind.ENOSPC, marks=pytest.mark.long),
]


@pytest.mark.parametrize("kind", FAULTS)
def test_an_expiry_that_fails_at_any_call_loses_nothing_and_is_finished_by_the_next(kind):
    original = eventful_table()
    counting = FaultyStore(original.copy().store)
    whole = run(counting, original.clock)
    assert all((whole.snapshot_ids, whole.made_changelog_ids, whole.changelog_ids, whole.tags))
    expected = {snapshot.id: original.visible(snapshot) for snapshot in original.context.snapshots.history()}
    tagged = original.visible(original.context.tags.tag("kept").snapshot)
    for number in numbers(counting, kind):
        table = original.copy()
        fails(FaultyStore(table.store, [Fault(at=number, kind=kind)]), table.clock)

        check_after_a_crash(table, expected, tagged, f"call {number}")

        before = table.objects()
        plan = table.expire(retain_max=2, dry_run=True)
        result = table.expire(retain_max=2)
        assert set(plan.deleted_keys) == set(result.deleted_keys) == before - table.objects(), f"call {number}"
        assert table.ids() == sorted(expected)[-2:]
        assert table.files() == needed_files(table), f"call {number}"
        assert {key for key in table.objects() if key.startswith("lakehouse/")} == {"lakehouse/boundary"}
        assert table.context.changelogs.ids() == list(range(table.context.changelogs.ids()[0], table.ids()[0]))
        check_after_a_crash(table, expected, tagged, f"call {number}, again")


@pytest.mark.parametrize("kind", [FaultKind.DIE_AFTER, pytest.param(FaultKind.DIE_BEFORE, marks=pytest.mark.long)])
def test_the_same_while_readers_are_waited_for(kind):
    original = eventful_table(**{"lakehouse.read.grace": "1 h"})
    counting = FaultyStore(original.copy().store)
    run(counting, original.clock)
    expected = {snapshot.id: original.visible(snapshot) for snapshot in original.context.snapshots.history()}
    tagged = original.visible(original.context.tags.tag("kept").snapshot)
    reading = original.context.snapshots.snapshot(original.ids()[1])
    for number in numbers(counting, kind):
        table = original.copy()
        fails(FaultyStore(table.store, [Fault(at=number, kind=kind)]), table.clock)
        table.clock.advance(HOUR / 2)
        run(table.store, table.clock)

        # Whoever planned a read before the crash reads on.
        assert table.visible(reading) == expected[reading.id]
        check_after_a_crash(table, expected, tagged, f"call {number}")

        for _ in range(2):
            table.clock.advance(2 * HOUR)
            run(table.store, table.clock)
        assert table.files() == needed_files(table), f"call {number}"
        assert {key for key in table.objects() if key.startswith("lakehouse/")} == {"lakehouse/boundary"}


# One of them for each call, in turn; `make test-long` takes all.
@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.long)])
def test_a_bit_that_flips_while_an_expiry_reads_loses_nothing(step):
    original = eventful_table()
    counting = FaultyStore(original.copy().store)
    run(counting, original.clock)
    expected = {snapshot.id: original.visible(snapshot) for snapshot in original.context.snapshots.history()}
    tagged = original.visible(original.context.tags.tag("kept").snapshot)
    for call in counting.calls:
        if call.method in ("read", "read_versioned"):
            for position in (5, 333, 4001)[call.number % step :: step]:
                table = original.copy()
                flip = Fault(at=call.number, kind=FaultKind.FLIP_BIT, position=position)
                fails(FaultyStore(table.store, [flip]), table.clock)

                check_after_a_crash(table, expected, tagged, f"call {call.number}, bit {position}")


def numbers(counting, kind):
    """Return the calls at which a fault can matter: where nothing is written, only an error does."""
    return [call.number for call in counting.calls if call.writes or kind is FaultKind.FAIL_BEFORE]


def fails(store, clock):
    """Expire; an error or the end of the process is one of the answers."""
    try:
        run(store, clock)
    except (LakehouseError, ProcessDied):
        return


def check_after_a_crash(table, expected, tagged, when):
    assert table.findings() == [], when
    for snapshot in table.context.snapshots.history():
        assert table.visible(snapshot) == expected[snapshot.id], when
    assert table.visible(table.context.tags.tag("kept").snapshot) == tagged, when
