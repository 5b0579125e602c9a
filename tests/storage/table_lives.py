"""What a table goes through on each server, for tests of stores: the same answers are expected everywhere."""

import multiprocessing
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import ObjectStore
from lakehouse_core.storage.remote import store as remote_store
from tests.storage.remote_process import with_small_parts


def life(catalog: lc.Catalog) -> tuple[object, ...]:
    """Make a table, write, tag, compact, expire; return all that a user sees of it."""
    catalog.create_database("db")
    options = {"bucket": "4", "changelog-producer": "lookup", "lakehouse.read.grace": "0 s"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
    for version in range(4):
        table.write([{"k": key, "v": f"{version}"} for key in range(version, 60, 2)])
    table.create_tag("kept")
    table.compact(full=True)
    changes = table.changes(after=1).to_arrow().num_rows
    table.expire_snapshots(retain_max=2, retain_min=1)
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])
    return rows, table.lookup([{"k": 8}]).to_pylist(), changes, table.verify().findings, catalog.tables("db")


def check_racing_commits(warehouse: str, storage: Mapping[str, str], *, writers: int = 3, commits: int = 8) -> None:
    """Let processes commit to one table at once; all commits must be kept."""
    catalog = lc.connect(warehouse, storage=storage)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT"})
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_commit, args=(warehouse, dict(storage), number, commits)) for number in range(writers)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [worker.exitcode for worker in workers] == [0] * writers
    expected = [worker * 100 + number for worker in range(writers) for number in range(commits)]
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == expected
    assert table.verify().findings == ()


def new_table(warehouse: str, storage: Mapping[str, str]) -> lc.Table:
    """Make a table with the keys 1 and 2 in two snapshots."""
    catalog = lc.connect(warehouse, storage=storage)
    catalog.create_database("db")
    options = {"bucket": "1", "lakehouse.read.grace": "0 s"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    table.write([{"k": 1}])
    table.write([{"k": 2}])
    return table


def read(table: lc.Table) -> object:
    return table.scan().to_arrow()


def write(table: lc.Table) -> object:
    return table.write([{"k": 3}])


def expire(table: lc.Table) -> object:
    return table.expire_snapshots(retain_max=1, retain_min=1)


def check_large_object(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send an object in parts, after another one that is given up, and read it in ranges."""
    with_small_parts(monkeypatch)
    monkeypatch.setattr(remote_store, "_WHOLE_BYTES", 1 << 20)
    with ExitStack() as given_up:
        given_up.enter_context(pytest.raises(ZeroDivisionError))
        given_up.enter_context(store.open_write("given-up")).write(b"x" * (12 << 20))
        raise ZeroDivisionError
    data = bytes(range(256)) * (48 << 10)
    with store.open_write("large") as sink:
        sink.write(data)
        assert list(store.list("")) == []

    assert [(info.key, info.size) for info in store.list("")] == [("large", len(data))]
    with store.open_read("large", len(data)) as file:
        assert file.read() == data


def _commit(warehouse: str, storage: Mapping[str, str], worker: int, commits: int) -> None:
    table = lc.connect(warehouse, storage=storage).table("db.t")
    for number in range(commits):
        table.write([{"k": worker * 100 + number}])
