"""What a SQL catalog does in each real database. Subclass the contract with a fixture `lake`."""

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest

import lakehouse_core as lc
from tests.catalog.sql.sql_tables import COLUMNS, KEYED, ROW, made, write_many
from tests.limits import HANGS_AFTER_SECONDS


class Server(Protocol):
    def new_database(self) -> str: ...
    def restart(self) -> None: ...


class Lake:
    """A warehouse on a disk, and a database of its own for its names. `rows_of`: runs a statement at an address."""

    def __init__(self, server: Server, warehouse: Path, rows_of: Callable[[str, str], list[tuple[Any, ...]]]) -> None:
        self.server, self.warehouse, self.address = server, warehouse, server.new_database()
        self._rows_of = rows_of

    def connect(self, **options: str) -> lc.Catalog:
        return lc.connect(self.warehouse, metastore=self.address, metastore_options=options)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self._rows_of(self.address, statement)


class SqlCatalogContract:
    # How the database writes a time of seconds.
    interval: str
    # What messages show of the address.
    shown_address: str

    def test_of_those_who_create_a_table_at_once_one_wins(self, lake: Lake) -> None:
        def create(number: int) -> bool:
            catalog = lake.connect()
            catalog.create_database("sales", exist_ok=True)
            try:
                catalog.create_table(f"sales.t{number % 3}", COLUMNS, **KEYED)
            except lc.InvalidRequest:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(create, range(12))) == 3
        assert (lake.connect().tables("sales"), lake.connect().check()) == (["t0", "t1", "t2"], [])

    def test_a_listed_table_without_files_and_files_without_a_row_are_told(self, lake: Lake) -> None:
        catalog = lake.connect()
        made(catalog)
        lake.sql("UPDATE paimon_tables SET table_name = 'lost'")

        assert [each.partition(":")[0] for each in catalog.check()] == ["Table 'sales.lost'", "Table 'sales.orders'"]
        with pytest.raises(lc.CorruptTable, match=r"'sales\.lost': the catalog lists it, but"):
            catalog.table("sales.lost")
        catalog.drop_table("sales.lost")
        assert catalog.create_table("sales.orders", COLUMNS, exist_ok=True).scan().to_arrow().to_pylist() == ROW
        assert catalog.check() == []

    def test_processes_that_write_under_the_lock_lose_no_row_while_the_server_restarts(self, lake: Lake) -> None:
        told = written_by_processes(lake, restarts=3)

        assert [error for error in told if self.shown_address not in error] == []

    def test_a_row_that_expired_is_removed_and_one_that_did_not_is_waited_for(self, lake: Lake) -> None:
        catalog = lake.connect(**{"lock.enabled": "true", "lock-acquire-timeout": "1 s"})
        table = made(catalog)

        lake.sql(self._lock_of_another(since=481))
        table.write([{"k": 2, "v": "b"}])
        lake.sql(self._lock_of_another(since=3))
        with pytest.raises(
            lc.StorageUnavailable, match=r"by another writer at .* expires 480 s later\. The lock was not"
        ):
            table.write([{"k": 3, "v": "c"}])
        lake.sql("DELETE FROM paimon_distributed_locks")
        table.write([{"k": 3, "v": "c"}])

        assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]

    def _lock_of_another(self, *, since: int) -> str:
        interval = self.interval.format(since)
        return f"INSERT INTO paimon_distributed_locks VALUES ('jdbc.sales.orders', now() - {interval}, 480)"


def written_by_processes(lake: Lake, *, restarts: int) -> list[str]:
    """Let three processes write under the lock, and restart the server meanwhile; return the errors that they saw."""
    table = made(lake.connect(**{"lock.enabled": "true"}))
    firsts = (100, 200, 300)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        running = [pool.apply_async(write_many, (lake.address, str(lake.warehouse), first)) for first in firsts]
        for _ in range(restarts):
            lake.server.restart()
            running[0].wait(1)
        told = [error for each in running for error in each.get(timeout=HANGS_AFTER_SECONDS)]

    expected = [1, *(first + number for first in firsts for number in range(10))]
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == expected
    assert len([each for each in table.snapshots() if each.commit_kind == "APPEND"]) == len(expected)
    assert table.verify().findings == ()
    return told


def check_refused(lake: Lake, addresses: Iterable[tuple[str, str]], *, secret: str | None = None) -> None:
    """Each of these addresses is refused with its text and what to do, and without the secret."""
    for address, says in addresses:
        with pytest.raises(lc.StorageUnavailable, match=says) as told:
            lc.connect(lake.warehouse, metastore=address).databases()
        assert str(told.value).endswith("Check its address, user and password, and that it runs; then call again.")
        assert secret is None or secret not in str(told.value)
