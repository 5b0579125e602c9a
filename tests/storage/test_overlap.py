"""Requests of one task at once: objects are read ahead and closed behind, and fail as they do one by one."""

import io
import multiprocessing
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, NotFound, StorageFull, StorageUnavailable
from lakehouse_core.storage import LocalStore, MemoryStore, overlap
from lakehouse_core.storage.keys import joined
from lakehouse_core.storage.overlap import Sinks, closing_behind, drawing_ahead, reading_ahead
from lakehouse_core.storage.remote.files import RangeFile
from tests.limits import HANGS_AFTER_SECONDS
from tests.pairs import in_turn

AT_ONCE = 4


class Wide(MemoryStore):
    """A store that answers four requests in the time of one. `before_write(key)` runs before an object appears."""

    before_write: Callable[[str], None] = staticmethod(lambda key: None)

    requests_at_once = AT_ONCE
    sinks_at_once = AT_ONCE

    def at(self, prefix: str, *, is_table: bool = False) -> "Wide":
        deeper = Wide(self._name, prefix=joined(self._prefix, prefix), is_table=is_table)
        deeper.before_write = self.before_write
        return deeper

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        with super().open_write(key) as sink:
            yield sink
            self.before_write(key)


def filled(count: int) -> tuple[Wide, list[tuple[str, int]]]:
    store = Wide()
    store.write({f"{number}": b"%d" % number for number in range(count)})
    return store, [(info.key, info.size) for info in sorted(store.list(""), key=lambda info: int(info.key))]


@pytest.mark.parametrize(
    "order", [range(9), range(8, -1, -1), [4, 0, 8, 4, 4, 1]], ids=["in order", "reversed", "some"]
)
def test_objects_are_opened_in_any_order_once_or_more_often(order: Sequence[int]) -> None:
    store, objects = filled(9)
    with reading_ahead(store, objects) as ahead:
        assert [ahead.open_read(f"{number}").read() for number in order] == [b"%d" % number for number in order]


def test_an_object_that_is_missing_is_told_when_it_is_opened_and_the_others_are_read() -> None:
    store, objects = filled(5)
    store.delete(["2"])
    with reading_ahead(store, objects) as ahead:
        assert ahead.open_read("1").read() == b"1"
        with pytest.raises(NotFound):
            ahead.open_read("2")
        assert ahead.open_read("4").read() == b"4"


def test_what_was_fetched_and_never_asked_for_is_closed() -> None:
    opened: list[pa.NativeFile] = []

    class Watched(Wide):
        def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
            opened.append(super().open_read(key, size))
            return opened[-1]

    store = Watched()
    store.write({f"{number}": b"x" for number in range(6)})
    with reading_ahead(store, [(f"{number}", 1) for number in range(6)]) as ahead, ahead.open_read("3"):
        pass
    assert opened
    assert all(file.closed for file in opened)


def test_few_bytes_wait_to_be_asked_for() -> None:
    fetched: list[str] = []

    class Watched(Wide):
        def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
            fetched.append(key)
            return super().open_read(key, size)

    store = Watched()
    store.write({f"{number}": b"x" for number in range(9)})
    mebibytes = 30 << 20
    with reading_ahead(store, [(f"{number}", mebibytes) for number in range(9)]) as ahead:
        ahead.open_read("0").close()
    assert len(fetched) <= 3


def test_sinks_are_closed_at_once_and_all_objects_exist_when_they_have_settled() -> None:
    store = Wide()
    together = threading.Barrier(AT_ONCE, timeout=HANGS_AFTER_SECONDS)
    store.before_write = lambda key: (together.wait(), None)[1]
    with closing_behind(store) as sinks:
        for number in range(AT_ONCE):
            with sinks.open_write(f"{number}") as sink:
                sink.write(b"%d" % number)
        sinks.settle()
        assert {info.key: store.read(info.key) for info in store.list("")} == {
            f"{number}": b"%d" % number for number in range(AT_ONCE)
        }


def test_a_block_that_fails_sends_nothing() -> None:
    store = Wide()
    with closing_behind(store) as sinks:
        with suppress(ZeroDivisionError), sinks.open_write("a") as sink:
            sink.write(b"half")
            raise ZeroDivisionError
        sinks.settle()
    assert not list(store.list(""))


def test_the_first_error_is_raised_when_the_sinks_settle_and_delete_waits_for_the_others() -> None:
    store = Wide()

    def full(key: str) -> None:
        if key == "1":
            raise StorageFull(f"{key}: no space left.")

    store.before_write = full
    with closing_behind(store) as sinks:
        for number in range(3):
            with sinks.open_write(f"{number}") as sink:
                sink.write(b"x")
        with pytest.raises(StorageFull, match="1: no space left"):
            sinks.settle()
        sinks.delete(["0", "1", "2"])
    assert not list(store.list(""))


def test_after_an_error_no_further_object_is_sent() -> None:
    store = Wide()
    sent: list[str] = []

    def away(key: str) -> None:
        sent.append(key)
        raise StorageUnavailable(f"{key}: the store does not answer.")

    def send(sinks: Sinks) -> None:
        for number in range(200):
            with sinks.open_write(f"{number}") as sink:
                sink.write(b"x")
        sinks.settle()

    store.before_write = away
    with closing_behind(store) as sinks:
        with pytest.raises(StorageUnavailable, match="does not answer"):
            send(sinks)
        sinks.delete(f"{number}" for number in range(200))
    assert len(sent) <= AT_ONCE
    assert not list(store.list(""))


def test_small_files_of_a_disk_are_written_sixteen_by_a_call_and_an_error_is_told(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    groups: list[int] = []
    write = store.write
    store.write = lambda objects: (groups.append(len(objects)), write(objects))[1]  # type: ignore[method-assign]
    keys = [f"{number // 4}/{number}" for number in range(40)]
    with closing_behind(store) as sinks:
        for key in keys:
            sinks.put(key, lambda key=key: key.encode(), size_bytes=9)
        sinks.settle()
        assert {info.key: store.read(info.key) for info in store.list("")} == {key: key.encode() for key in keys}
        assert sorted(groups) == [1, 7, 16, 16]

        def full() -> bytes:
            raise StorageFull("9/full: no space left.")

        sinks.put("9/full", full, size_bytes=9)
        with pytest.raises(StorageFull, match="no space left"):
            sinks.settle()
        sinks.put("9/never", lambda: b"x", size_bytes=9)
        sinks.delete([*keys, "9/full", "9/never"])
    assert not list(store.list(""))


ROWS: list[dict[str, Any]] = [{"k": key, "v": f"{key}"} for key in range(200)]
OPTIONS = {"bucket": "6", "lakehouse.read.grace": "0 s"}


def table_on(store: MemoryStore, **options: str) -> lc.Table:
    catalog = Catalog(store, clock=VirtualClock())
    catalog.create_database("db")
    columns = {"k": "INT NOT NULL", "v": "STRING"}
    return catalog.create_table("db.t", columns, primary_keys=["k"], options={**OPTIONS, **options})


@pytest.mark.parametrize(
    ("producer", "largest_ahead"),
    in_turn(3, [("none", 32 << 20), ("lookup", 32 << 20), ("full-compaction", 32 << 20), ("lookup", 0)]),
)
def test_a_table_has_the_same_life_where_requests_run_at_once(
    producer: str, largest_ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "_LARGEST_AHEAD", largest_ahead)

    def life(store: MemoryStore) -> object:
        table = table_on(store, **{"changelog-producer": producer})
        for version in range(4):
            table.write([{**row, "v": f"{version}-{row['k']}"} for row in ROWS[version * 20 :]])
        table.compact(full=True)
        table.write(ROWS[:5])
        table.expire_snapshots(retain_max=2)
        return (
            sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]),
            table.verify().findings,
            [(one.id, one.commit_kind, one.total_record_count) for one in table.snapshots()],
            sorted(info.key for info in store.list("")),
        )

    assert life(Wide()) == life(MemoryStore())


@pytest.mark.parametrize("nth", range(6))
@pytest.mark.parametrize("verb", ["write", "compact"])
def test_a_file_that_cannot_be_written_fails_the_verb_and_leaves_no_file(verb: str, nth: int) -> None:
    store = Wide()
    table_on(store).write(ROWS)
    if verb == "compact":
        Catalog(store, clock=VirtualClock(seed=2)).table("db.t").write(ROWS)
    before = sorted(info.key for info in store.list(""))
    seen = []
    lock = threading.Lock()

    def full(key: str) -> None:
        with lock:
            seen.append(key)
            if len(seen) == nth + 1:
                raise StorageFull(f"{key}: no space left.")

    store.before_write = full
    table = Catalog(store, clock=VirtualClock(seed=3)).table("db.t")
    with pytest.raises(StorageFull, match="no space left"):
        table.write(ROWS) if verb == "write" else table.compact(full=True)

    assert len(seen) > nth
    assert sorted(info.key for info in store.list("")) == before


def test_of_a_large_object_the_end_is_read_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []

    class Seen(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            read.append((self.tell(), size or 0))
            return super().read(size)

    class Ranged(Wide):
        def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
            return pa.PythonFile(Seen(self.read(key)), mode="r")

    monkeypatch.setattr(overlap, "_LARGEST_AHEAD", 100)
    store = Ranged()
    store.write({"small": b"s", "large": bytes(200) + b"the end."})
    with reading_ahead(store, [("small", 1), ("large", 208)]) as ahead:
        ahead.open_read("small", 1)
        opened = ahead.open_read("large", 208)

        assert (read, opened.tell()) == ([(200, 8)], 0)
        assert opened.read(4) == bytes(4)


LARGE = 1 << 30


def test_sources_of_large_objects_begin_together_and_keep_their_order() -> None:
    together = threading.Barrier(AT_ONCE, timeout=HANGS_AFTER_SECONDS)

    def source(number: int) -> Generator[str, None, None]:
        for item in range(3):
            together.wait()
            yield f"{number}-{item}"

    with drawing_ahead(Wide(), [source(number) for number in range(AT_ONCE)], object_bytes=LARGE) as drawn:
        assert [list(items) for items in zip(*drawn, strict=True)] == [
            [f"{number}-{item}" for number in range(AT_ONCE)] for item in range(3)
        ]


@pytest.mark.parametrize("store", [Wide(), MemoryStore()], ids=["many at once", "one by one"])
def test_a_block_that_ends_early_closes_its_sources_and_draws_one_item_more_at_most(store: MemoryStore) -> None:
    seen: list[str] = []

    def source(name: str) -> Generator[str, None, None]:
        try:
            for item in range(9):
                seen.append(f"{name}{item}")
                yield f"{name}{item}"
        finally:
            seen.append(f"{name} closed")

    sources = [source("a"), source("b")]
    with drawing_ahead(store, sources, object_bytes=LARGE) as (first, second):
        assert (next(first), next(second), next(first)) == ("a0", "b0", "a1")
    for each in sources:
        each.close()

    assert {"a closed", "b closed"} <= set(seen)
    assert {"a3", "b2"}.isdisjoint(seen)


def test_an_error_of_a_source_is_raised_where_its_item_is_asked_for() -> None:
    def source() -> Generator[int, None, None]:
        yield 1
        raise StorageFull("no space left.")

    with drawing_ahead(Wide(), [source()], object_bytes=LARGE) as (items,):
        assert next(items) == 1
        with pytest.raises(StorageFull):
            next(items)


def drawing_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("drawing")]


def test_where_a_source_fails_or_rows_are_no_longer_asked_for_no_thread_stays() -> None:
    def source() -> Generator[int, None, None]:
        yield 1
        raise StorageFull("no space left.")

    kept = None
    with drawing_ahead(Wide(), [source(), source()], object_bytes=LARGE) as drawn:
        assert [next(items) for items in drawn] == [1, 1]
        try:
            next(drawn[1])
        except StorageFull as error:
            kept = error
    assert (str(kept), drawing_threads()) == ("no space left.", [])


@pytest.mark.parametrize("consumed", [0, 1])
def test_a_scan_that_is_given_up_or_fails_ends_its_threads(consumed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_LARGEST_AHEAD", 0)
    store = Wide()
    table = table_on(store)
    for _ in range(3):
        table.write(ROWS)
    batches = table.scan().to_batches()
    for _ in range(consumed):
        next(batches)
    batches.close()
    assert drawing_threads() == []

    lost = next(info.key for info in store.list("") if info.key.endswith(".parquet"))
    store.delete([lost])
    with pytest.raises(CorruptTable, match="missing") as kept:
        list(table.scan().to_batches())
    assert (lost in str(kept.value), drawing_threads()) == (True, [])


def told_in_a_fork(work: Callable[[], object]) -> str:
    """Return the text of the error that `work` raises in a forked process."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_told, args=(work, answers))
    child.start()
    try:
        return str(answers.get(timeout=HANGS_AFTER_SECONDS))
    finally:
        child.kill()
        child.join()


def _told(work: Callable[[], object], answers: Any) -> None:
    try:
        work()
    except StorageUnavailable as error:
        answers.put(str(error))


def test_a_forked_process_does_not_wait_for_what_its_parent_began_to_open() -> None:
    goes_on = threading.Event()

    class Slow(Wide):
        def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
            if key == "second":
                goes_on.wait(HANGS_AFTER_SECONDS)
            return super().open_read(key, size)

    store = Slow()
    store.write({"first": b"1", "second": b"2"})
    with reading_ahead(store, [("first", 1), ("second", 1)]) as opener:
        assert opener.open_read("first").read() == b"1"
        assert "spawn" in told_in_a_fork(lambda: opener.open_read("second"))
        goes_on.set()
        assert opener.open_read("second").read() == b"2"


def test_a_forked_process_does_not_wait_for_a_piece_that_its_parent_asked_for() -> None:
    goes_on = threading.Event()
    data = bytes(range(256)) * (16 << 12)

    def read_range(start: int, length: int) -> bytes:
        if start:
            goes_on.wait(HANGS_AFTER_SECONDS)
        return data[start : start + length]

    with RangeFile(read_range, len(data)) as file:
        assert file.read(9) == data[:9]
        assert "spawn" in told_in_a_fork(lambda: file.read(3 << 20))
        goes_on.set()
        assert file.read(3 << 20) == data[9 : 9 + (3 << 20)]


def _go_on(items: Iterator[int], block: ExitStack, answers: Any) -> None:
    try:
        next(items)
    except StorageUnavailable as error:
        answers.put(str(error))
    block.close()
    answers.put("ended")


def test_a_forked_process_says_to_use_spawn_and_can_end_the_block() -> None:
    goes_on = threading.Event()

    def source() -> Generator[int, None, None]:
        yield 1
        goes_on.wait(HANGS_AFTER_SECONDS)
        yield 2

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with ExitStack() as block:
        (items,) = block.enter_context(drawing_ahead(Wide(), [source()], object_bytes=LARGE))
        assert next(items) == 1
        child = context.Process(target=_go_on, args=(items, block, answers))
        child.start()
        told = [answers.get(timeout=HANGS_AFTER_SECONDS) for _ in range(2)]
        child.join(HANGS_AFTER_SECONDS)
        goes_on.set()
        assert (next(items), list(items)) == (2, [])
    assert "spawn" in told[0]
    assert told[1] == "ended"
