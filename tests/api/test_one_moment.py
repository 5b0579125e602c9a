"""One moment: verbs that read together, each listing and each object of which is asked for once."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Children, MemoryStore
from tests.round_trips.meter import Meter, MeteredStore, metered

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
OPTIONS = {"bucket": "1", "write-only": "true", "lakehouse.read.grace": "0 s"}


def made(store: MemoryStore, *, commits: int = 3) -> lc.Table:
    catalog = Catalog(store, clock=VirtualClock())
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=OPTIONS)
    for commit in range(commits):
        table.write([{"k": 1, "v": f"{commit}"}])
    return table


def newest(table: lc.Table) -> tuple[int, int, int]:
    """Return the newest snapshot as three verbs tell it: the last one of the list, the latest, and its manifests."""
    snapshot = table.snapshot()
    assert snapshot is not None
    return table.snapshots()[-1].id, snapshot.id, len(table.manifests())


@pytest.fixture(params=["in one place", "far away"])
def opened(request: pytest.FixtureRequest) -> Callable[[MemoryStore], lc.Table]:
    def of(store: MemoryStore) -> lc.Table:
        here = Catalog(store, clock=VirtualClock()).table("db.t")
        return here if request.param == "in one place" else far_away(store)

    return of


def far_away(store: MemoryStore) -> lc.Table:
    with metered() as meter:
        return Catalog(MeteredStore(store, meter), clock=VirtualClock()).table("db.t")


def test_all_verbs_of_a_moment_agree_while_others_commit(opened: Callable[[MemoryStore], lc.Table]) -> None:
    store = MemoryStore(clock=VirtualClock())
    other, table = made(store), opened(store)

    def read(seen: lc.Table) -> list[tuple[int, int, int]]:
        before = newest(seen)
        other.write([{"k": 1, "v": "later"}])
        return [before, newest(seen)]

    assert table.at_one_moment(read) == [(3, 3, 3)] * 2
    assert table.at_one_moment(newest) == (4, 4, 4)


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_commit_that_the_hint_shows_and_the_list_beside_it_does_not_is_in_no_answer(is_warm: bool) -> None:
    store = MemoryStore(clock=VirtualClock())
    other, table = made(store), far_away(store)
    if is_warm:
        table.snapshot()

    listed = store.children("db.db/t/snapshot")
    other.write([{"k": 1, "v": "later"}])
    with mock.patch.object(MemoryStore, "children", older("db.db/t/snapshot", listed)):
        assert table.at_one_moment(newest) == (3, 3, 3)

    assert table.at_one_moment(newest) == (4, 4, 4)


def older(folder: str, listed: Children) -> Callable[[MemoryStore, str], Children]:
    """Return a listing that shows an earlier state of one folder."""
    children = MemoryStore.children

    def shown(store: MemoryStore, prefix: str) -> Children:
        is_it = store.uri(prefix).rstrip("/").endswith(folder)
        return listed if is_it else children(store, prefix)

    return shown


def test_the_next_moment_has_the_file_of_an_id_that_was_used_again(
    opened: Callable[[MemoryStore], lc.Table],
) -> None:
    """Another engine rolls back by deleting snapshots, and its next commit takes their id."""
    store = MemoryStore(clock=VirtualClock())
    other, table = made(store), opened(store)
    assert table.at_one_moment(lambda seen: seen.snapshots()[-1].commit_user) != "again"

    store.delete(["db.db/t/snapshot/snapshot-3"])
    store.write({"db.db/t/snapshot/LATEST": b"2"})
    again = other.stage([{"k": 2, "v": "x"}], commit_user="again", commit_identifier=1)
    other.commit(again)

    assert table.at_one_moment(lambda seen: seen.snapshots()[-1].commit_user) == "again"
    assert table.at_one_moment(lambda seen: seen.buckets()[0].row_count) == 3


def test_a_table_that_was_made_again_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    catalog = lc.connect(str(tmp_path / "lake"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=OPTIONS)
    table.write([{"k": 1, "v": "a"}])
    assert table.at_one_moment(lambda seen: len(seen.schemas())) == 1

    catalog.drop_table("db.t")
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=OPTIONS)

    with pytest.raises(lc.InvalidRequest, match="dropped and created again"):
        table.at_one_moment(lambda seen: seen.schema)


def test_a_moment_that_an_expiry_tears_is_read_again(opened: Callable[[MemoryStore], lc.Table]) -> None:
    store = MemoryStore(clock=VirtualClock())
    other, table = made(store), opened(store)
    attempts = []

    def read(seen: lc.Table) -> list[tuple[str, int]]:
        snapshots = seen.snapshots()
        if not attempts:
            other.compact(full=True)
            other.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
        attempts.append(snapshots[-1].id)
        return [(file.file_name, file.row_count) for file in seen.files()]

    assert [rows for _, rows in table.at_one_moment(read)] == [1]
    assert attempts == [3, 4]


def test_what_the_store_cannot_tell_is_missed_only_where_it_is_asked_for() -> None:
    store = MemoryStore(clock=VirtualClock())
    made(store)
    table, children = far_away(store), MemoryStore.children

    def refused(store: MemoryStore, prefix: str) -> Children:
        if prefix.endswith("consumer"):
            raise lc.StorageUnavailable("no permission")
        return children(store, prefix)

    with mock.patch.object(MemoryStore, "children", refused):
        assert table.at_one_moment(newest) == (3, 3, 3)
        with pytest.raises(lc.StorageUnavailable, match="no permission"):
            table.at_one_moment(lambda seen: seen.system("consumers").to_arrow())


class DyingStore(MeteredStore):
    """Gives no answer after so many questions: each further one waits for a minute."""

    clock = VirtualClock()
    answers = 0

    def at(self, prefix: str, *, is_table: bool = False) -> MeteredStore:
        return DyingStore(self._inner.at(prefix), self._meter, self._prefix)

    def children(self, prefix: str) -> Children:
        self._answer()
        return super().children(prefix)

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        self._answer()
        return super().read_found(keys)

    def read(self, key: str) -> bytes:
        self._answer()
        return super().read(key)

    def _answer(self) -> None:
        DyingStore.answers -= 1
        if DyingStore.answers < 0:
            self.clock.advance(60)
            raise lc.StorageUnavailable("no answer")


@pytest.mark.parametrize("answers", range(7))
def test_a_store_that_does_not_answer_is_not_asked_again(answers: int) -> None:
    store = MemoryStore(clock=VirtualClock())
    made(store)
    DyingStore.answers = 1_000
    table = Catalog(DyingStore(store, Meter()), clock=DyingStore.clock).table("db.t")
    table.at_one_moment(newest)
    begun: list[bool] = []

    def read(seen: lc.Table) -> object:
        begun.append(DyingStore.answers >= 0)
        return newest(seen)

    DyingStore.answers = answers
    with pytest.raises(lc.StorageUnavailable, match="no answer"):
        table.at_one_moment(read)

    assert begun in ([], [True])


def test_rows_are_read_and_counted_at_a_moment(opened: Callable[[MemoryStore], lc.Table]) -> None:
    store = MemoryStore(clock=VirtualClock())
    other = made(store)
    other.write([{"k": 2, "v": "x"}])

    def read(seen: lc.Table) -> tuple[int, list[dict[str, object]]]:
        return seen.scan().count(), seen.scan(where="k = 1").to_arrow().to_pylist()

    assert opened(store).at_one_moment(read) == (2, [{"k": 1, "v": "2"}])


def test_a_handle_of_a_moment_writes_nothing(opened: Callable[[MemoryStore], lc.Table]) -> None:
    store = MemoryStore(clock=VirtualClock())
    made(store)

    with pytest.raises(lc.InvalidRequest, match="reads only"):
        opened(store).at_one_moment(lambda seen: seen.write([{"k": 1, "v": "x"}]))
    with pytest.raises(lc.InvalidRequest, match="reads only"):
        opened(store).at_one_moment(lambda seen: seen.create_tag("t"))
    assert newest(opened(store)) == (3, 3, 3)
