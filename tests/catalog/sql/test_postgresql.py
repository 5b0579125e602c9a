"""A SQL catalog in a real PostgreSQL: the same names, the lock between processes, a server that goes away."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.catalog.sql.postgresql_server import PostgresqlServer, postgresql_server, rows_of
from tests.catalog.sql.sql_tables import COLUMNS, KEYED, ROW, made, write_many

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresqlServer]:
    with postgresql_server(tmp_path_factory.mktemp("postgres")) as running:
        yield running


class Lake:
    """A warehouse on a disk, and a database of its own for its names."""

    def __init__(self, server: PostgresqlServer, warehouse: Path) -> None:
        self.server, self.warehouse, self.address = server, warehouse, server.new_database()

    def connect(self, **options: str) -> lc.Catalog:
        return lc.connect(self.warehouse, metastore=self.address, metastore_options=options)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return rows_of(self.address, statement)


@pytest.fixture
def lake(server: PostgresqlServer, tmp_path: Path) -> Lake:
    return Lake(server, tmp_path / "lake")


def test_names_are_made_listed_renamed_and_dropped(lake: Lake) -> None:
    catalog = lake.connect()
    assert catalog.databases() == []
    catalog.create_database("sales", properties={"owner": "ann"})
    made(catalog)
    made(catalog, "archive.items")

    assert (catalog.databases(), catalog.tables("sales"), catalog.check()) == (["archive", "sales"], ["orders"], [])
    assert catalog.database_properties("sales")["owner"] == "ann"
    assert catalog.rename_table("sales.orders", "archive.old").scan().to_arrow().to_pylist() == ROW
    with pytest.raises(lc.InvalidRequest, match="already exists"):
        catalog.rename_table("archive.old", "archive.items")
    assert (catalog.tables("archive"), catalog.check()) == (["items", "old"], [])
    catalog.drop_database("archive", cascade=True)
    catalog.drop_database("sales")
    assert catalog.databases() == []
    assert lake.sql("SELECT * FROM paimon_table_properties") == []


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


@pytest.mark.parametrize("restarts", [False, True], ids=["a server that stays", "a server that restarts"])
def test_processes_that_write_under_the_lock_lose_no_row(lake: Lake, restarts: bool):
    table = made(lake.connect(**{"lock.enabled": "true"}))

    with multiprocessing.get_context("spawn").Pool(3) as pool:
        running = [
            pool.apply_async(write_many, (lake.address, str(lake.warehouse), first)) for first in (100, 200, 300)
        ]
        for _ in range(3 if restarts else 0):
            lake.server.restart()
            running[0].wait(1)
        told = [error for each in running for error in each.get(timeout=200)]

    expected = [1, *(first + number for first in (100, 200, 300) for number in range(10))]
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == expected
    assert len([each for each in table.snapshots() if each.commit_kind == "APPEND"]) == len(expected)
    assert table.verify().findings == ()
    assert [error for error in told if not restarts or "postgresql://postgres@/names_" not in error] == []


def test_a_row_that_expired_is_removed_and_one_that_did_not_is_waited_for(lake: Lake) -> None:
    catalog = lake.connect(**{"lock.enabled": "true", "lock-acquire-timeout": "1 s"})
    table = made(catalog)
    insert = "INSERT INTO paimon_distributed_locks VALUES ('jdbc.sales.orders', now() - interval '%s seconds', 480)"

    lake.sql(insert.replace("%s", "481"))
    table.write([{"k": 2, "v": "b"}])
    lake.sql(insert.replace("%s", "3"))
    with pytest.raises(lc.StorageUnavailable, match=r"by another writer at .* expires 480 s later\. It was not"):
        table.write([{"k": 3, "v": "c"}])
    lake.sql("DELETE FROM paimon_distributed_locks")
    table.write([{"k": 3, "v": "c"}])

    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("verb", ["create", "drop", "rename"])
def test_a_connection_that_is_lost_while_a_change_is_committed_leaves_names_and_files_usable(
    lake: Lake, verb: str
) -> None:
    catalog = lake.connect()
    made(catalog)
    lake.sql(
        "CREATE FUNCTION end_it() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
    )
    lake.sql(
        "CREATE CONSTRAINT TRIGGER ends AFTER INSERT OR UPDATE OR DELETE ON paimon_tables "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_it()"
    )
    verbs = {
        "create": lambda: catalog.create_table("sales.items", COLUMNS, **KEYED),
        "drop": lambda: catalog.drop_table("sales.orders"),
        "rename": lambda: catalog.rename_table("sales.orders", "sales.old"),
    }

    with pytest.raises(lc.StorageUnavailable, match="the connection was lost when a change was committed"):
        verbs[verb]()
    lake.sql("DROP TRIGGER ends ON paimon_tables")

    assert catalog.tables("sales") == ["orders"]
    if verb == "rename":
        catalog.drop_table("sales.orders")
        catalog.create_table("sales.old", COLUMNS, exist_ok=True)
    assert catalog.table("sales.old" if verb == "rename" else "sales.orders").scan().to_arrow().to_pylist() == ROW
    if verb == "create":
        assert len(catalog.check()) == 1
        catalog.create_table("sales.items", COLUMNS, exist_ok=True)
    assert catalog.check() == []


def test_a_server_that_is_down_and_a_user_it_does_not_know_are_told(lake: Lake) -> None:
    catalog = lake.connect()
    made(catalog)
    for address, says in (
        (lake.address.replace(f"port={lake.server.port}", "port=1"), "the database of the catalog did not answer"),
        (lake.address.replace("postgres@", "nobody@"), 'role "nobody" does not exist'),
        (lake.server.address("elsewhere"), 'database "elsewhere" does not exist'),
    ):
        with pytest.raises(lc.StorageUnavailable, match=says) as told:
            lc.connect(lake.warehouse, metastore=address).databases()
        assert str(told.value).endswith("Check its address, user and password, and that it runs; then call again.")

    lake.sql("CREATE ROLE reader LOGIN")
    lake.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = lc.connect(lake.warehouse, metastore=lake.address.replace("postgres@", "reader@"))
    assert reader.tables("sales") == ["orders"]
    with pytest.raises(lc.InvalidRequest, match=r"permission denied .* Check the permissions"):
        reader.create_database("new")
    lake.sql("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader")
    reader.create_database("new")
    assert catalog.databases() == ["new", "sales"]
