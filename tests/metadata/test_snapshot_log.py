"""The history of a table as it can be asked: hints only help, what expired says so, and damage is never "nothing"."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import (
    CorruptTable,
    InvalidRequest,
    NotFound,
    SnapshotExpired,
    StorageUnavailable,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.hints import write_hint
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.layout import MAIN, manifest_key
from lakehouse_core.table.manifest import EntryKind
from lakehouse_core.table.snapshot import Snapshot, Tag, new_tag, serialize_snapshot, serialize_tag
from tests.contexts import context_of
from tests.execution.commit.commit_vocabulary import CommitTable, commit_table
from tests.limits import HANGS_AFTER_SECONDS


def snapshot(snapshot_id: int) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="base",
        delta_manifest_list="delta",
        commit_user="u",
        commit_identifier=snapshot_id,
        commit_kind=CommitKind.APPEND,
        time_millis=snapshot_id * 1000,
    )


def log_of(
    *ids: int, latest: bytes | None = None, earliest: bytes | None = None, boundary: int | None = None
) -> TableContext:
    """Return the log of a table with these snapshot files, hints and boundary."""
    store = MemoryStore()
    for snapshot_id in ids:
        store.write({MAIN.snapshot(snapshot_id): serialize_snapshot(snapshot(snapshot_id))})
    for key, hint in (("snapshot/LATEST", latest), ("snapshot/EARLIEST", earliest)):
        if hint is not None:
            store.write({key: hint})
    if boundary is not None:
        store.write({"lakehouse/boundary": b"%d" % boundary})
    return context_of(store, VirtualClock())


HINTS = [None, b"", b"1", b"3", b"4", b"5", b"7", b"9", b"x", b"-3", b"0", b"3\n", b"\xff", b"99999999999999999999"]


def test_a_thread_finds_the_newest_snapshot_while_another_lists_them() -> None:
    """The other one looked before there was a snapshot, so that it must list."""
    good = log_of(3, 4, 5)
    earlier = Look(MemoryStore(), [MAIN.boundary, MAIN.hints.latest, MAIN.snapshot(5)])
    begins, lists, ends = Event(), Event(), Event()

    def on_call(call: Call) -> None:
        if call.key == MAIN.snapshot(5):
            begins.set()
            assert lists.wait(HANGS_AFTER_SECONDS)
        elif call.method == "children" and begins.is_set() and not lists.is_set():
            lists.set()
            assert ends.wait(HANGS_AFTER_SECONDS)

    def list_then() -> int | None:
        assert begins.wait(HANGS_AFTER_SECONDS)
        return log.ids.latest(earlier)

    store = FaultyStore(good.store, on_call=on_call)
    log = SnapshotLog(store, MAIN)
    assert log.ids.latest(Look(good.store)) == 5
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(list_then)
        found = log.ids.latest(Look(store))
        ends.set()
        assert (found, other.result()) == (5, 5)


class TestHints:
    @pytest.mark.parametrize("hint", HINTS)
    def test_whatever_the_hints_say_the_answer_is_the_same(self, hint: bytes | None) -> None:
        log = log_of(3, 4, 5, 6, 7, latest=hint, earliest=hint)

        assert (log.snapshots.ids.latest(), log.snapshots.ids.earliest()) == (7, 3)
        assert [one.id for one in log.snapshots.history()] == [3, 4, 5, 6, 7]

    @pytest.mark.parametrize("hint", HINTS)
    def test_what_lies_below_the_boundary_is_gone_for_everybody(self, hint: bytes | None) -> None:
        log = log_of(3, 4, 5, 6, 7, latest=hint, earliest=hint, boundary=5)

        assert (log.snapshots.ids.latest(), log.snapshots.ids.earliest()) == (7, 5)
        assert [one.id for one in log.snapshots.history()] == [5, 6, 7]
        with pytest.raises(SnapshotExpired, match=r"Snapshot 4 is expired\. The earliest available is 5"):
            log.snapshots.snapshot(4)

    @pytest.mark.parametrize("hint", HINTS)
    def test_a_stale_file_below_the_boundary_is_no_latest_snapshot(self, hint: bytes | None) -> None:
        log = log_of(3, 7, 8, latest=hint, boundary=7)

        assert log.snapshots.ids.latest() == 8

    @pytest.mark.parametrize("hint", HINTS)
    def test_a_table_rolled_back_below_the_boundary_is_no_empty_one(self, hint: bytes | None) -> None:
        log = log_of(3, latest=hint, earliest=hint, boundary=7)

        for ask in (
            log.snapshots.latest,
            log.snapshots.ids.earliest,
            log.snapshots.history,
            lambda: log.snapshots.snapshot(3),
        ):
            with pytest.raises(CorruptTable, match="its latest snapshot is 3, below its boundary 7"):
                ask()

    def test_neither_is_one_whose_snapshots_are_all_gone(self) -> None:
        with pytest.raises(CorruptTable, match="its boundary is 7, but its snapshots are missing"):
            log_of(boundary=7).snapshots.latest()

    def test_a_look_that_lacks_the_next_snapshot_answers_alone(self) -> None:
        store = FaultyStore(MemoryStore())
        log = context_of(store, VirtualClock()).snapshots
        store.write({MAIN.snapshot(number): serialize_snapshot(snapshot(number)) for number in range(1, 6)})
        store.write({"snapshot/LATEST": b"5"})
        log.latest()
        store.write({MAIN.snapshot(6): serialize_snapshot(snapshot(6))})
        look = Look(store, log.ids.asked(after=2))
        before = len(store.calls)

        assert log.ids.latest(look) == 6
        assert store.calls[before:] == []

    @pytest.mark.parametrize("hint", HINTS)
    def test_a_table_without_snapshots_has_none(self, hint: bytes | None) -> None:
        log = log_of(latest=hint, earliest=hint)

        assert (
            log.snapshots.ids.latest(),
            log.snapshots.ids.earliest(),
            log.snapshots.latest(),
            log.snapshots.history(),
        ) == (None, None, None, [])

    def test_a_hint_far_behind_is_not_followed_step_by_step(self) -> None:
        log = log_of(*range(1, 101), latest=b"1")
        store = FaultyStore(log.store)

        assert context_of(store, VirtualClock()).snapshots.ids.latest() == 100
        assert len(store.calls) < 50

    def test_a_good_hint_needs_no_listing(self) -> None:
        store = FaultyStore(log_of(*range(1, 101), latest=b"100", earliest=b"1").store)
        log = context_of(store, VirtualClock())

        assert (log.snapshots.ids.latest(), log.snapshots.ids.earliest()) == (100, 1)
        assert {call.method for call in store.calls} == {"read", "infos"}

    def test_a_hint_that_cannot_be_written_fails_nobody(self) -> None:
        log = log_of(1)
        broken = FaultyStore(log.store, [Fault(at=1, kind=FaultKind.EACCES, count=10)])
        write_hint(broken, log.snapshots.layout.hints.latest, 1)

        assert log.snapshots.ids.latest() == 1


# What a store that fails must not answer as if there were nothing.
ASKED: list[Callable[[TableContext], object]] = [
    lambda table: table.snapshots.ids.latest(),
    lambda table: table.snapshots.latest(),
    lambda table: table.snapshots.history(),
    lambda table: table.snapshots.ids.earliest(),
    lambda table: table.snapshots.boundary.first_id(),
    lambda table: table.tags.all(),
    lambda table: table.changelogs.ids(),
]


class TestSnapshots:
    @pytest.mark.parametrize("snapshot_id", [0, -1])
    def test_ids_start_at_one(self, snapshot_id: int) -> None:
        with pytest.raises(InvalidRequest, match="ids start at 1"):
            log_of(1).snapshots.snapshot(snapshot_id)

    @pytest.mark.parametrize(
        ("ids", "asked", "error", "message"),
        [
            ((3, 4), 2, SnapshotExpired, r"Snapshot 2 is expired\. The earliest available is 3"),
            ((3, 4), 5, NotFound, r"Snapshot 5 does not exist yet: the latest is 4"),
            ((), 1, NotFound, "the table has no snapshot yet"),
            ((3, 5), 4, CorruptTable, r"snapshot-4: it is missing between snapshots 3 and 5"),
        ],
    )
    def test_what_is_not_there_says_why(
        self, ids: tuple[int, ...], asked: int, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message) as raised:
            log_of(*ids).snapshots.snapshot(asked)
        assert type(raised.value) is error

    @pytest.mark.parametrize("data", [b"", b"{", b"null", serialize_snapshot(snapshot(2))[:-40]])
    def test_a_damaged_snapshot_is_never_a_missing_one(self, data: bytes) -> None:
        log = log_of(1, 2, latest=b"2")
        log.store.write({MAIN.snapshot(2): data})

        for ask in (lambda: log.snapshots.snapshot(2), log.snapshots.latest, log.snapshots.history):
            with pytest.raises(CorruptTable, match="snapshot-2"):
                ask()

    def test_a_snapshot_under_another_id_is_damage(self) -> None:
        log = log_of(1)
        log.store.write({MAIN.snapshot(1): serialize_snapshot(snapshot(2))})

        with pytest.raises(CorruptTable, match="holds snapshot 2, expected 1"):
            log.snapshots.snapshot(1)

    def test_a_store_that_does_not_answer_is_never_an_empty_table(self) -> None:
        good = log_of(1, 2, 3)
        for call in range(1, 8):
            for ask in ASKED:
                store = FaultyStore(good.store, [Fault(at=call, kind=FaultKind.FAIL_BEFORE, count=100)])
                log = context_of(store, VirtualClock())
                expected = ask(good)
                try:
                    assert ask(log) == expected
                except StorageUnavailable:
                    assert len(store.calls) >= call

    def test_what_expires_while_the_history_is_read_is_as_if_it_had_gone_before(self) -> None:
        good = log_of(*range(1, 7))

        def expire(call: Call) -> None:
            if call.key == MAIN.snapshot(1):
                good.store.delete([MAIN.snapshot(1), MAIN.snapshot(2)])

        assert [
            one.id for one in context_of(FaultyStore(good.store, on_call=expire), VirtualClock()).snapshots.history()
        ] == [
            3,
            4,
            5,
            6,
        ]

    def test_walking_back_stops_where_the_history_does(self) -> None:
        log = log_of(*range(1, 7), boundary=3)

        assert [one.id for one in log.snapshots.newest_first(snapshot(6))] == [6, 5, 4, 3]
        assert [one.id for one in log_of(4, 5, 6).snapshots.newest_first(snapshot(6))] == [6, 5, 4]

    def test_a_range_of_snapshots_comes_oldest_first(self) -> None:
        assert [one.id for one in log_of(*range(1, 7)).snapshots.since(2, 5)] == [3, 4, 5]
        with pytest.raises(SnapshotExpired, match="Snapshot 1 is expired"):
            log_of(*range(2, 7)).snapshots.since(0, 5)


class TestBoundary:
    def test_it_only_rises(self) -> None:
        log = log_of(1)

        assert [
            log.snapshots.boundary.first_id(),
            log.snapshots.boundary.advance(5),
            log.snapshots.boundary.advance(3),
            log.snapshots.boundary.first_id(),
        ] == [0, 5, 5, 5]

    @pytest.mark.parametrize("data", [b"", b"x", b"0", b"-1", b"5\n", b"1.5"])
    def test_a_damaged_one_is_said_to_be(self, data: bytes) -> None:
        log = log_of(1)
        log.store.write({"lakehouse/boundary": data})

        with pytest.raises(CorruptTable, match="lakehouse/boundary: found"):
            log.snapshots.ids.latest()

    def test_of_two_that_raise_it_at_once_the_higher_stays(self) -> None:
        good = log_of(1)
        good.snapshots.boundary.advance(2)

        def other(call: Call) -> None:
            if call.method == "replace" and good.snapshots.boundary.first_id() == 2:
                good.snapshots.boundary.advance(9)

        log = context_of(FaultyStore(good.store, on_call=other), VirtualClock())
        assert log.snapshots.boundary.advance(4) == 9
        assert good.snapshots.boundary.first_id() == 9


class TestTagsAndChangelogs:
    def test_tags_come_sorted_with_their_snapshots(self) -> None:
        log = log_of(1, 2)
        for name, snapshot_id in (("eod", 2), ("a b", 1)):
            tag = new_tag(snapshot(snapshot_id), name=name, local_now_millis=0, retained_millis=None)
            log.store.write({MAIN.tag(name): serialize_tag(tag)})

        assert {name: tag.snapshot.id for name, tag in log.tags.all().items()} == {"a b": 1, "eod": 2}
        assert list(log.tags.all()) == ["a b", "eod"]
        assert log.tags.tag("eod").snapshot == snapshot(2)

    def test_an_unknown_tag_names_those_there_are(self) -> None:
        log = log_of(1)
        with pytest.raises(NotFound, match=r"Tag 'x' does not exist\. The table has no tags\."):
            log.tags.tag("x")
        log.store.write({MAIN.tag("eod"): serialize_tag(Tag(snapshot=snapshot(1)))})
        with pytest.raises(NotFound, match="The tags are: eod"):
            log.tags.tag("x")

    def test_changelogs_outlive_their_snapshots(self) -> None:
        log = log_of(5)
        for snapshot_id in (3, 4):
            log.store.write({MAIN.changelog(snapshot_id): serialize_snapshot(snapshot(snapshot_id))})
        log.changelogs.write_hints(3, 4)

        assert log.changelogs.ids() == [3, 4]
        assert log.changelogs.changelog(3) == snapshot(3)
        with pytest.raises(NotFound, match=r"Changelog 2 is not kept\. Changelogs of expired snapshots: 3 to 4"):
            log.changelogs.changelog(2)


def reader_of(table: CommitTable) -> ManifestReader:
    """Return the reader of another handle, which remembers nothing."""
    return ManifestReader(table.store, MAIN)


class TestManifests:
    def test_a_handle_does_not_read_what_it_wrote_itself(self) -> None:
        table = commit_table()
        table.commit(table.append("f1", identifier=1))
        latest = table.context.snapshots.latest()
        assert latest is not None
        expected = reader_of(table).live_entries(latest)
        manifests = [*table.store.children("manifest").files]
        table.store.delete([manifest_key(name) for name in manifests])

        assert table.context.manifests.live_entries(latest) == expected

    @pytest.fixture
    def table(self) -> CommitTable:
        table = commit_table()
        for identifier in range(1, 13):
            table.commit(table.append(f"f{identifier:02}", identifier=identifier))
        return table

    def test_entries_come_in_the_order_of_their_commits(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None

        names = [entry.file.file_name for entry in table.context.manifests.live_entries(latest)]
        assert names == [f"f{number:02}" for number in range(1, 13)]
        assert len(table.context.manifests.base(latest)) == 11
        assert len(table.context.manifests.delta(latest)) == 1

    def test_a_filter_sees_partition_bucket_and_level(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        seen = set()

        def keep(partition: bytes, bucket: int, level: int) -> bool:
            seen.add((partition, bucket, level))
            return False

        assert table.context.manifests.live_entries(latest, keep=keep) == []
        assert seen == {(bytes(12), 0, 0)}

    def test_columns_hold_what_entries_hold(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        (manifest,) = table.context.manifests.delta(latest)

        columns = table.context.manifests.columns([manifest], with_stats=True)
        assert list(columns.entries()) == table.context.manifests.entries(manifest, with_stats=True)
        assert columns.kinds.tolist() == [EntryKind.ADD]

    def test_a_missing_manifest_is_damage(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        victim = table.context.manifests.of(latest)[3].file_name
        table.store.delete([manifest_key(victim)])

        with pytest.raises(CorruptTable, match=f"{victim}: it is missing, but a snapshot names it"):
            reader_of(table).live_entries(latest)

    @pytest.mark.parametrize("change", ["cut", "longer"])
    def test_a_manifest_of_another_size_is_damage(self, table: CommitTable, change: str) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        for name in (latest.base_manifest_list, table.context.manifests.delta(latest)[0].file_name):
            key = manifest_key(name)
            whole = table.store.read(key)
            table.store.write({key: whole[:-1] if change == "cut" else whole + b"x"})
            with pytest.raises(CorruptTable, match=rf"{name}: it has \d+ bytes, expected {len(whole)}"):
                reader_of(table).live_entries(latest)
            table.store.write({key: whole})

    def test_another_list_of_the_same_size_is_told_by_its_checksum(self, table: CommitTable) -> None:
        table.commit(table.append("x", identifier=20))
        latest = table.context.snapshots.latest()
        assert latest is not None
        key = manifest_key(latest.delta_manifest_list)
        other = bytearray(table.store.read(key))
        other[-1] ^= 1
        table.store.write({key: bytes(other)})

        with pytest.raises(CorruptTable, match=f"{latest.delta_manifest_list}: its blake2b-64 checksum is"):
            reader_of(table).delta(latest)

    def test_a_manifest_under_the_name_of_another_of_its_size_is_told_by_its_list(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        first, second = (manifest_key(manifest.file_name) for manifest in table.context.manifests.base(latest)[:2])
        first_info, second_info = table.store.infos([first, second]).values()
        assert first_info.size == second_info.size
        table.store.write({first: table.store.read(second)})

        with pytest.raises(CorruptTable, match=f"{first}: its blake2b-64 checksum is"):
            table.again().manifests.live_entries(latest)

    def test_a_list_without_checksum_is_taken_as_it_is(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        foreign = latest.model_copy(update={"properties": {}})

        assert table.context.manifests.delta(foreign) == table.context.manifests.delta(latest)

    def test_a_manifest_name_that_leaves_its_folder_is_damage_and_read_by_nobody(self, table: CommitTable) -> None:
        latest = table.context.snapshots.latest()
        assert latest is not None
        table.store.write({"secret": b"not a manifest"})
        hostile = replace(table.context.manifests.delta(latest)[0], file_name="../secret")

        with pytest.raises(CorruptTable, match=r"names '\.\./secret'"):
            table.context.manifests.entries(hostile)


def test_a_snapshot_that_a_rollback_replaced_is_read_anew() -> None:
    log = log_of(3, 4)
    first = log.snapshots.snapshot(4)

    log.store.write({MAIN.snapshot(4): serialize_snapshot(snapshot(4).model_copy(update={"commit_user": "another"}))})

    assert (first.commit_user, log.snapshots.snapshot(4).commit_user) == ("u", "another")
