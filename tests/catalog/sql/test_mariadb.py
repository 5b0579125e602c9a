"""A SQL catalog in a real MariaDB, by the driver of MySQL: names and case, the lock, deadlocks, a server that dies."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

import lakehouse_core as lc
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.tables import ALL, LOCKS
from tests.catalog.sql.mariadb_server import PASSWORD, MariadbServer, mariadb_server, rows_of
from tests.catalog.sql.server_contract import Lake, SqlCatalogContract, check_refused
from tests.catalog.sql.sql_tables import COLUMNS, ROW, made
from tests.limits import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.mariadb


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with mariadb_server() as running:
        yield running


@pytest.fixture
def lake(server: MariadbServer, tmp_path: Path) -> Lake:
    return Lake(server, tmp_path / "lake", rows_of)


class TestMariadb(SqlCatalogContract):
    interval = "interval {} second"
    shown_address = "mysql://ann@127.0.0.1"


def test_names_are_made_listed_renamed_and_dropped(lake: Lake) -> None:
    catalog = lake.connect()
    assert catalog.databases() == []
    catalog.create_database("sales", properties={"owner": "ann"})
    made(catalog)
    made(catalog, "archive.items")

    assert (catalog.databases(), catalog.tables("sales"), catalog.check()) == (["archive", "sales"], ["orders"], [])
    catalog.alter_database("sales", {"owner": "bob", "comment": None})
    assert catalog.database_properties("sales") == {"location": f"{lake.warehouse}/sales.db", "owner": "bob"}
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
            is_first = next(attempts) < 2
            for each in order:
                value = {"expire_time_seconds": LOCKS.c.expire_time_seconds + 1}
                connection.execute(sa.update(LOCKS).where(LOCKS.c.lock_id == each).values(value))
                if is_first and each == order[0]:
                    both_have_one.wait(HANGS_AFTER_SECONDS)

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


def test_a_server_that_is_down_and_a_user_it_does_not_know_are_told(lake: Lake, server: MariadbServer) -> None:
    catalog = lake.connect()
    made(catalog)
    refused = (
        (lake.address.replace(f":{server.port}/", ":1/"), "the database of the catalog did not answer"),
        (lake.address.replace("ann:", "nobody:"), "Access denied for user 'nobody'"),
        (server.address("elsewhere"), "Unknown database 'elsewhere'"),
    )
    check_refused(lake, refused, secret=PASSWORD)

    name = lake.address.rpartition("/")[2]
    lake.sql("CREATE USER IF NOT EXISTS 'reader'@'127.0.0.1' IDENTIFIED BY 'pw'")
    lake.sql(f"GRANT SELECT ON {name}.* TO 'reader'@'127.0.0.1'")
    reader = lc.connect(lake.warehouse, metastore=f"mariadb://reader:pw@127.0.0.1:{server.port}/{name}")
    assert reader.tables("sales") == ["orders"]
    with pytest.raises(lc.InvalidRequest, match=r"command denied .* Check the permissions"):
        reader.create_database("new")
    lake.sql(f"GRANT INSERT, UPDATE, DELETE ON {name}.* TO 'reader'@'127.0.0.1'")
    reader.create_database("new")
    assert catalog.databases() == ["new", "sales"]
