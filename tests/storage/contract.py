"""What every store promises. A store's tests subclass one of the classes and give it a `store` fixture."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_core.errors import InvalidRequest, NotFound, TableDropped, WriteOutcomeUnknown
from lakehouse_core.storage import Children, Folders, ObjectStore, delete_folder, open_store, read_all

HOSTILE_KEYS = [
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "/etc/passwd",
    "a//b",
    "a/",
    ".",
    "a/./b",
    "a\0b",
    "a\\b",
    "\ud800",
]


class Interrupted(Exception):
    """Leaves a block in the middle."""


def folders_of(store: ObjectStore) -> Folders:
    """Return the folders of a store that has some."""
    folders = store.folders
    assert folders is not None
    return folders


class StoreContract:
    def test_the_second_writer_of_a_key_loses_and_changes_nothing(self, store: ObjectStore) -> None:
        assert store.create_new("snapshot/snapshot-1", b"mine")
        assert not store.create_new("snapshot/snapshot-1", b"theirs")

        assert store.read("snapshot/snapshot-1") == b"mine"

    def test_of_many_threads_that_create_one_key_exactly_one_wins(self, store: ObjectStore) -> None:
        start = threading.Barrier(4)

        def race(worker: int) -> list[int]:
            start.wait()
            return [name for name in range(50) if store.create_new(f"snapshot/snapshot-{name}", b"%d" % worker)]

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(race, range(4)))

        assert sorted(name for names in won for name in names) == list(range(50))
        for worker, names in enumerate(won):
            assert all(store.read(f"snapshot/snapshot-{name}") == b"%d" % worker for name in names)

    def test_a_written_object_is_read_back_whole(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 1000
        store.write({"a/b/c": data})

        assert store.read("a/b/c") == data
        assert store.infos(["a/b/c"])["a/b/c"].size == len(data)
        with store.open_read("a/b/c") as file, store.open_read("a/b/c", len(data)) as sized:
            assert file.size() == sized.size() == len(data)
            assert file.read_at(4, 256) == bytes([0, 1, 2, 3])

    def test_writing_again_replaces(self, store: ObjectStore) -> None:
        store.write({"hint": b"12345"})
        store.write({"hint": b"6"})

        assert store.read("hint") == b"6"

    def test_several_objects_are_written_together(self, store: ObjectStore) -> None:
        store.write({"a/old": b"old"})
        store.write({"a/old": b"new", "a/x": b"1", "b/y": b"2"})
        store.write({})

        assert {info.key: store.read(info.key) for info in store.list("")} == {
            "a/old": b"new",
            "a/x": b"1",
            "b/y": b"2",
        }

    def test_a_hint_that_need_not_last_is_read_like_any_other_object(self, store: ObjectStore) -> None:
        store.write({"snapshot/LATEST": b"1"}, durable=False)
        store.write({"snapshot/LATEST": b"12"}, durable=False)

        assert store.read("snapshot/LATEST") == b"12"

    def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        assert store.create_new("empty", b"")

        assert store.read("empty") == b""
        assert store.infos(["empty"])["empty"].size == 0
        assert store.open_read("empty").read() == b""

    @pytest.mark.parametrize("key", ["nothing", "a/nothing", "a/b/c/d", "a/b"])
    def test_what_is_not_there_is_not_found(self, store: ObjectStore, key: str) -> None:
        store.write({"a/b/c": b"x"})

        for ask in (store.read, lambda key: [*read_all(store, ["a/b/c", key])], store.open_read):
            with pytest.raises(NotFound, match=key):
                ask(key)
        assert store.read_versioned(key) is None
        assert store.infos([key]) == {}
        assert store.read_found([key, "a/b/c"]) == {"a/b/c": b"x"}

    def test_several_objects_are_read_and_sized_in_the_order_asked_for(self, store: ObjectStore) -> None:
        store.write({"a/1": b"one", "a/2": b"", "b": b"three"})

        assert list(read_all(store, ["b", "a/1", "b"])) == [b"three", b"one", b"three"]
        assert [*store.infos(["b", "a/nothing", "a/1", "a", "a/2"])] == ["b", "a/1", "a/2"]
        assert {info.key: info for info in store.list("")} == store.infos(["a/1", "a/2", "b"])
        assert [*store.read_found(["b", "a/nothing", "a/2", "a/1"]).items()] == [
            ("b", b"three"),
            ("a/2", b""),
            ("a/1", b"one"),
        ]
        assert list(read_all(store, [])) == []
        assert store.read_found([]) == {}
        assert store.infos([]) == {}

    def test_a_sink_appears_only_when_its_block_ends(self, store: ObjectStore) -> None:
        with store.open_write("bucket-0/data-1") as sink:
            sink.write(b"one ")
            sink.write(b"two")
            assert store.children("bucket-0") == Children((), ())

        assert store.read("bucket-0/data-1") == b"one two"

    def test_a_sink_left_by_an_exception_never_appears(self, store: ObjectStore) -> None:
        def leave(sink: IO[bytes]) -> None:
            sink.write(b"half of it")
            raise Interrupted

        with pytest.raises(Interrupted), store.open_write("bucket-0/data-1") as sink:
            leave(sink)

        assert store.children("bucket-0").files == ()
        assert list(store.list("")) == []

    def test_a_parquet_writer_takes_the_sink_and_a_parquet_reader_the_file(self, store: ObjectStore) -> None:
        table = pa.table({"k": list(range(1000))})
        with store.open_write("bucket-0/data-1.parquet") as sink, pq.ParquetWriter(sink, table.schema) as writer:
            writer.write_table(table)

        with store.open_read("bucket-0/data-1.parquet") as file:
            assert pq.read_table(file).equals(table)

    def test_compare_and_set_takes_only_the_version_that_is_there(self, store: ObjectStore) -> None:
        assert store.replace("lakehouse/boundary", b"1", if_version=None)
        assert not store.replace("lakehouse/boundary", b"x", if_version=None)
        found = store.read_versioned("lakehouse/boundary")
        assert found is not None
        data, version = found

        assert data == b"1"
        assert store.replace("lakehouse/boundary", b"2", if_version=version)
        assert not store.replace("lakehouse/boundary", b"3", if_version=version)
        assert store.read("lakehouse/boundary") == b"2"

    def test_compare_and_set_of_a_missing_object_is_refused(self, store: ObjectStore) -> None:
        assert not store.replace("lakehouse/boundary", b"1", if_version="7")
        assert store.read_versioned("lakehouse/boundary") is None

    def test_of_many_threads_that_count_up_none_is_lost(self, store: ObjectStore) -> None:
        assert store.create_new("lakehouse/count", b"")

        def count(worker: int) -> None:
            for line in (b"%d.%d\n" % (worker, number) for number in range(10)):
                is_added = False
                while not is_added:
                    found = store.read_versioned("lakehouse/count")
                    assert found is not None
                    # True also after an addition whose outcome was unknown.
                    is_added = line in found[0]
                    with suppress(WriteOutcomeUnknown):
                        is_added = is_added or store.replace("lakehouse/count", found[0] + line, if_version=found[1])

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(count, worker) for worker in range(3)]:
                done.result()

        lines = store.read("lakehouse/count").split()
        assert sorted(lines) == sorted(b"%d.%d" % (worker, number) for worker in range(3) for number in range(10))

    def test_children_are_names_sorted_and_not_deep(self, store: ObjectStore) -> None:
        for key in ("t/snapshot/snapshot-2", "t/snapshot/snapshot-1", "t/b.txt", "t/a.txt", "u/x"):
            store.write({key: b""})

        assert store.children("t") == Children(files=("a.txt", "b.txt"), folders=("snapshot",))
        assert store.children("t/snapshot").files == ("snapshot-1", "snapshot-2")
        assert store.children("") == Children(files=(), folders=("t", "u"))

    def test_a_prefix_that_is_not_there_has_no_children(self, store: ObjectStore) -> None:
        store.write({"file": b""})

        assert store.children("nowhere") == Children((), ())
        assert store.children("file") == Children((), ())
        assert list(store.list("nowhere")) == []

    def test_hidden_files_are_listed_but_are_nobodys_children(self, store: ObjectStore) -> None:
        store.write({"t/.snapshot-1.abc.tmp": b"left behind"})
        store.write({"t/shown": b""})

        assert store.children("t").files == ("shown",)
        assert sorted(info.key for info in store.list("t")) == ["t/.snapshot-1.abc.tmp", "t/shown"]

    def test_a_listing_is_deep_and_gives_size_and_age(self, store: ObjectStore) -> None:
        before = store.now_millis()
        for key in ("t/a", "t/b/c", "t/b/d/e", "tt/other"):
            store.write({key: key.encode()})
        found = {info.key: info for info in store.list("t")}

        assert set(found) == {"t/a", "t/b/c", "t/b/d/e"}
        assert found["t/b/d/e"].size == len("t/b/d/e")
        assert all(before - 2000 <= info.modified_millis <= store.now_millis() + 2000 for info in found.values())

    def test_deleting_is_idempotent_and_answers_what_is_left(self, store: ObjectStore) -> None:
        store.write({"a": b""})
        store.write({"b/c": b""})

        assert list(store.delete(["a", "b/c", "never/was"])) == []
        assert list(store.delete(["a", "b/c"])) == []
        assert list(store.list("")) == []

    def test_a_deleted_name_can_be_created_again(self, store: ObjectStore) -> None:
        assert store.create_new("a", b"1")
        store.delete(["a"])

        assert store.create_new("a", b"2")
        assert store.read("a") == b"2"

    def test_a_folder_is_deleted_with_all_that_lies_in_it(self, store: ObjectStore) -> None:
        for key in ("db/t/a", "db/t/b/c", "db/t/.a.0.tmp", "db/tt/a"):
            store.write({key: b""})

        for prefix in ("db/t", "db/t", "nowhere/t"):
            assert list(delete_folder(store, prefix)) == []
        assert [info.key for info in store.list("")] == ["db/tt/a"]
        assert store.children("db").folders == ("tt",)

    def test_what_is_there_and_what_is_not_can_be_made_to_last(self, store: ObjectStore) -> None:
        store.write({"t/a": b"x"})
        store.make_last(["t/a", "t/gone", "nowhere/gone"])

        assert store.read("t/a") == b"x"

    def test_a_deeper_store_sees_its_part_only(self, store: ObjectStore) -> None:
        store.write({"db/t/snapshot/snapshot-1": b"x"})
        table = store.at("db/t")
        table.write({"snapshot/LATEST": b"1"})

        assert table.read("snapshot/snapshot-1") == b"x"
        assert store.read("db/t/snapshot/LATEST") == b"1"
        assert table.children("").folders == ("snapshot",)
        assert {info.key for info in table.list("snapshot")} == {"snapshot/snapshot-1", "snapshot/LATEST"}
        assert store.at("db").at("t").spec == table.spec
        assert store.at("").spec == store.spec

    def test_a_specification_opens_the_same_store(self, store: ObjectStore) -> None:
        table = store.at("db/t")
        table.write({"a/b": b"x"})

        assert open_store(table.spec).read("a/b") == b"x"
        assert open_store(table.spec).spec == table.spec

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_a_key_that_is_no_plain_relative_path_is_refused_by_every_verb(self, store: ObjectStore, key: str) -> None:
        store.write({"a/b": b"x"})
        verbs = [
            lambda: store.at(key),
            lambda: store.uri(key),
            lambda: store.read(key),
            lambda: store.open_read(key),
            lambda: [*read_all(store, [key])],
            lambda: store.read_found([key]),
            lambda: store.infos([key]),
            lambda: store.create_new(key, b""),
            lambda: store.write({key: b""}),
            lambda: store.write({"b": b"", key: b""}),
            lambda: store.open_write(key).__enter__(),
            lambda: store.read_versioned(key),
            lambda: store.replace(key, b"", if_version=None),
            lambda: store.children(key),
            lambda: list(store.list(key)),
            lambda: store.delete([key]),
            lambda: delete_folder(store, key),
            lambda: store.make_last([key]),
        ]
        for verb in verbs:
            with pytest.raises(InvalidRequest, match="Key "):
                verb()

        assert [info.key for info in store.list("")] == ["a/b"]

    @pytest.mark.parametrize(
        "name", ["dt=2013-01-01", "p=a%2Fb", "x y", "日付=é🙂", "-", "a=b=c", "...", "..a", "dt=__DEFAULT_PARTITION__"]
    )
    def test_any_other_name_is_kept_as_it_is(self, store: ObjectStore, name: str) -> None:
        store.write({f"{name}/bucket-0/data": b"x"})

        assert store.read(f"{name}/bucket-0/data") == b"x"
        assert [info.key for info in store.list("")] == [f"{name}/bucket-0/data"]


class FolderContract(StoreContract):
    """What a store with folders promises beside."""

    def test_only_empty_folders_go(self, store: ObjectStore) -> None:
        store.write({"t/dt=1/bucket-0/data": b""})
        store.write({"t/dt=2/bucket-0/data": b""})
        store.delete(["t/dt=1/bucket-0/data"])
        folders = folders_of(store)
        folders.delete_empty("t")
        folders.delete_empty("nowhere")

        assert store.children("t").folders == ("dt=2",)
        assert store.read("t/dt=2/bucket-0/data") == b""

    def test_a_folder_moves_whole_and_never_onto_another(self, store: ObjectStore) -> None:
        store.write({"db/a/x/1": b"1"})
        store.write({"db/b/y": b"2"})
        folders = folders_of(store)

        assert not folders.rename("db/a", "db/b")
        assert folders.rename("db/a", "new/c")
        assert sorted(info.key for info in store.list("")) == ["db/b/y", "new/c/x/1"]
        with pytest.raises(NotFound, match="db/a"):
            folders.rename("db/a", "db/d")

    def test_the_store_of_a_table_makes_no_folder_for_it_and_misses_nothing_once_it_has_moved(
        self, store: ObjectStore
    ) -> None:
        store.write({"db/t/schema/schema-0": b"0"})
        table = store.at("db/t", is_table=True)
        table.write({"snapshot/snapshot-1": b"1"})
        assert table.read("snapshot/snapshot-1") == b"1"
        assert table.read_found(["schema/schema-1"]) == {}
        assert table.children("tag") == Children(files=(), folders=())
        assert folders_of(store).rename("db/t", "db/new")

        verbs: list[Callable[[], object]] = [
            lambda: table.read("schema/schema-0"),
            lambda: table.read_found(["schema/schema-0"]),
            lambda: table.read_versioned("schema/schema-0"),
            lambda: table.open_read("schema/schema-0"),
            lambda: table.infos(["schema/schema-0"]),
            lambda: table.children("schema"),
            lambda: list(table.list("")),
            lambda: table.delete(["schema/schema-0"]),
            lambda: table.create_new("snapshot/snapshot-2", b"2"),
            lambda: table.write({"snapshot/LATEST": b"2"}, durable=False),
            lambda: table.write({"manifest/m": b"m"}),
            lambda: table.replace("lakehouse/boundary", b"2", if_version=None),
            lambda: open_store(table.spec).write({"bucket-0/data": b""}),
        ]
        for verb in verbs:
            with pytest.raises(TableDropped, match="the table was dropped or renamed"):
                verb()
        keys = {info.key for info in store.list("")}
        assert keys == {"db/new/schema/schema-0", "db/new/snapshot/snapshot-1"}
        assert "t" not in store.children("db").folders

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_a_folder_that_is_no_plain_relative_path_is_refused(self, store: ObjectStore, key: str) -> None:
        store.write({"a/b": b"x"})
        folders = folders_of(store)
        verbs = [
            lambda: folders.delete_empty(key),
            lambda: folders.rename(key, "c"),
            lambda: folders.rename("a", key),
        ]
        for verb in verbs:
            with pytest.raises(InvalidRequest, match="Key "):
                verb()

        assert [info.key for info in store.list("")] == ["a/b"]
