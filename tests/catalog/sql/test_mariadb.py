"""A SQL catalog in a real MariaDB, by the driver of MySQL: names and case, the lock, deadlocks, a server that dies."""

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import lakehouse_core as lc
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.tables import ALL, LOCKS
from tests.catalog.sql.mariadb_server import PASSWORD, MariadbServer, mariadb_server, rows_of
from tests.catalog.sql.sql_tables import COLUMNS, KEYED, ROW, made, write_many

pytestmark = pytest.mark.mariadb


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with mariadb_server() as running:
        yield running


class Lake:
    """A warehouse on a disk, and a database of its own for its names."""

    def __init__(self, server: MariadbServer, warehouse: Path) -> None:
        self.server, self.warehouse, self.address = server, warehouse, server.new_database()

    def connect(self, **options: str) -> lc.Catalog:
        return lc.connect(self.warehouse, metastore=self.address, metastore_options=options)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return rows_of(self.address, statement)


@pytest.fixture
def lake(server: MariadbServer, tmp_path: Path) -> Lake:
    return Lake(server, tmp_path / "lake")


def test_names_are_made_listed_renamed_and_dropped(lake: Lake) -> None:
    catalog = lake.connect()
    assert catalog.databases() == []
    catalog.create_database("sales", properties={"owner": "ann"})
    made(catalog)
    made(catalog, "archive.items")

    assert (catalog.databases(), catalog.tables("sales"), catalog.check()) == (["archive", "sales"], ["orders"], [])
    assert catalog.database_properties("sales") == {"location": f"{lake.warehouse}/sales.db", "owner": "ann"}
    assert catalog.rename_table("sales.orders", "sales.old").scan().to_arrow().to_pylist() == ROW
    assert lake.sql("SELECT count(*) FROM paimon_table_properties WHERE table_name = 'old'") == [(3,)]
    catalog.drop_table("sales.old")
    catalog.drop_database("sales")
    assert catalog.databases() == ["archive"]
    assert PASSWORD not in repr(catalog)


def test_our_sql_tables_tell_case_apart_and_fit_into_a_database_of_four_byte_characters(lake: Lake) -> None:
    made(lake.connect())

    for table in ALL:
        ddl = lake.sql(f"SHOW CREATE TABLE {table.name}")[0][1]
        assert "DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_bin" in ddl
    assert lake.sql("SELECT count(*) FROM paimon_tables WHERE table_name = 'ORDERS'") == [(0,)]


# As Java makes it in a database whose collation ignores case and accents.
IGNORING = "CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci"


def test_names_that_a_collation_takes_for_the_same_are_told_and_never_mixed_up(lake: Lake) -> None:
    catalog = lake.connect()
    made(catalog)
    for table in ALL:
        lake.sql(f"ALTER TABLE {table.name} CONVERT TO {IGNORING}")

    for wrong in ("sales.ORDERS", "Sales.orders", "sales.örders"):
        with pytest.raises(lc.NotFound):
            catalog.table(wrong)
        with pytest.raises(lc.NotFound):
            catalog.drop_table(wrong)
    with pytest.raises(lc.InvalidRequest, match="differs only by case"):
        catalog.create_table("sales.Orders", COLUMNS)
    with pytest.raises(lc.InvalidRequest, match=r"'örders': to mysql://.* it is the same as that of another table\. "):
        catalog.create_table("sales.örders", COLUMNS)
    with pytest.raises(lc.InvalidRequest, match=r"'sáles': to mysql://.* it is the same as that of another database"):
        catalog.create_database("sáles")
    assert (catalog.databases(), catalog.tables("sales")) == (["sales"], ["orders"])
    assert catalog.table("sales.orders").scan().to_arrow().to_pylist() == ROW


def test_a_listed_table_without_files_and_files_without_a_row_are_told(lake: Lake) -> None:
    catalog = lake.connect()
    made(catalog)
    lake.sql("UPDATE paimon_tables SET table_name = 'lost'")

    assert [each.partition(":")[0] for each in catalog.check()] == ["Table 'sales.lost'", "Table 'sales.orders'"]
    with pytest.raises(lc.CorruptTable, match=r"'sales\.lost': the catalog lists it, but"):
        catalog.table("sales.lost")
    catalog.drop_table("sales.lost")
    assert catalog.create_table("sales.orders", COLUMNS, exist_ok=True).scan().to_arrow().to_pylist() == ROW
    assert catalog.check() == []


def test_of_those_who_create_a_table_at_once_one_wins(lake: Lake) -> None:
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


def test_processes_that_write_under_the_lock_lose_no_row_while_the_server_is_killed(lake: Lake) -> None:
    table = made(lake.connect(**{"lock.enabled": "true"}))

    with multiprocessing.get_context("spawn").Pool(3) as pool:
        running = [
            pool.apply_async(write_many, (lake.address, str(lake.warehouse), first)) for first in (100, 200, 300)
        ]
        for _ in range(3):
            lake.server.restart()
            running[0].wait(1)
        told = [error for each in running for error in each.get(timeout=200)]

    expected = [1, *(first + number for first in (100, 200, 300) for number in range(10))]
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == expected
    assert len([each for each in table.snapshots() if each.commit_kind == "APPEND"]) == len(expected)
    assert table.verify().findings == ()
    assert [error for error in told if "mysql://ann@127.0.0.1" not in error] == []


def test_a_row_that_expired_is_removed_and_one_that_did_not_is_waited_for(lake: Lake) -> None:
    catalog = lake.connect(**{"lock.enabled": "true", "lock-acquire-timeout": "1 s"})
    table = made(catalog)
    insert = "INSERT INTO paimon_distributed_locks VALUES ('jdbc.sales.orders', now() - interval %s second, 480)"

    lake.sql(insert.replace("%s", "481"))
    table.write([{"k": 2, "v": "b"}])
    lake.sql(insert.replace("%s", "3"))
    with pytest.raises(lc.StorageUnavailable, match=r"by another writer at .* expires 480 s later\. It was not"):
        table.write([{"k": 3, "v": "c"}])
    lake.sql("DELETE FROM paimon_distributed_locks")
    table.write([{"k": 3, "v": "c"}])

    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]


def test_our_lock_expires_after_a_minute_whatever_its_time_says(lake: Lake) -> None:
    made(lake.connect())
    catalog = lake.connect(**{"lock.enabled": "true"})
    lock = catalog._context.metastore._lock(catalog._context.find("sales.orders").name)

    for _ in range(5):
        with lock.held():
            left = "timestampdiff(SECOND, now(), acquired_at + interval expire_time_seconds second)"
            ((seconds,),) = lake.sql(f"SELECT {left} FROM paimon_distributed_locks")
            assert 58 <= seconds <= 60
    assert lake.sql("SELECT * FROM paimon_distributed_locks") == []


def test_a_transaction_that_the_database_undoes_for_a_deadlock_is_repeated(lake: Lake) -> None:
    database = SqlDatabase(sql_address(lake.address, {}))

    def insert(connection: sa.Connection) -> None:
        connection.execute(sa.insert(LOCKS), [{"lock_id": name, "expire_time_seconds": 0} for name in "ab"])

    database.change(insert, is_done=lambda _: False)
    both_have_one, attempts = threading.Barrier(2), count()

    def add(order: str) -> None:
        def update(connection: sa.Connection) -> None:
            next(attempts)
            for each in order:
                value = {"expire_time_seconds": LOCKS.c.expire_time_seconds + 1}
                connection.execute(sa.update(LOCKS).where(LOCKS.c.lock_id == each).values(value))
                with suppress(threading.BrokenBarrierError):
                    both_have_one.wait(2)

        SqlDatabase(database.address).change(update, is_done=lambda _: False)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, ("ab", "ba")))

    assert lake.sql("SELECT expire_time_seconds FROM paimon_distributed_locks") == [(2,), (2,)]
    assert next(attempts) >= 3


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "not found"])
def test_a_connection_that_is_lost_while_a_change_is_committed_is_resolved_by_reading(
    lake: Lake, is_there: bool
) -> None:
    database = SqlDatabase(sql_address(lake.address, {}))

    def change(connection: sa.Connection) -> int:
        ((number,),) = connection.execute(sa.text("SELECT connection_id()"))
        lake.sql(f"KILL {number}")
        return 1

    if is_there:
        assert database.change(change, is_done=lambda _: True) is None
    else:
        with pytest.raises(lc.WriteOutcomeUnknown, match="the connection was lost when a change was committed"):
            database.change(change, is_done=lambda _: False)


def test_a_server_that_is_down_and_a_user_it_does_not_know_are_told(lake: Lake) -> None:
    catalog = lake.connect()
    made(catalog)
    for address, says in (
        (lake.address.replace(f":{lake.server.port}/", ":1/"), "the database of the catalog did not answer"),
        (lake.address.replace("ann:", "nobody:"), "Access denied for user 'nobody'"),
        (lake.server.address("elsewhere"), "Unknown database 'elsewhere'"),
    ):
        with pytest.raises(lc.StorageUnavailable, match=says) as told:
            lc.connect(lake.warehouse, metastore=address).databases()
        assert str(told.value).endswith("Check its address, user and password, and that it runs; then call again.")
        assert PASSWORD not in str(told.value)

    name = lake.address.rpartition("/")[2]
    lake.sql("CREATE USER IF NOT EXISTS 'reader'@'127.0.0.1' IDENTIFIED BY 'pw'")
    lake.sql(f"GRANT SELECT ON {name}.* TO 'reader'@'127.0.0.1'")
    reader = lc.connect(lake.warehouse, metastore=f"mariadb://reader:pw@127.0.0.1:{lake.server.port}/{name}")
    assert reader.tables("sales") == ["orders"]
    with pytest.raises(lc.InvalidRequest, match=r"command denied .* Check the permissions"):
        reader.create_database("new")
    lake.sql(f"GRANT INSERT, UPDATE, DELETE ON {name}.* TO 'reader'@'127.0.0.1'")
    reader.create_database("new")
    assert catalog.databases() == ["new", "sales"]
