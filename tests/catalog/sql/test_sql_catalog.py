"""A catalog whose names are rows of a database, as Java's JDBC catalog keeps them; on disks and in object stores."""

import logging
import multiprocessing
import pickle
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.metastore import TableName, TablePlace
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore, ProcessDied
from tests.catalog.sql.sql_tables import COLUMNS, KEYED, ROW, made
from tests.catalog.test_flat_store import FlatStore
from tests.limits import HANGS_AFTER_SECONDS
from tests.pairs import each_with_one
from tests.storage.s3_server import s3_server, storage_of

NUMBERS = count()


class Lake:
    """A warehouse and the SQLite file of its names."""

    def __init__(self, warehouse: str, names: Path, storage: dict[str, str] | None = None) -> None:
        self.warehouse, self.names, self.storage = warehouse, names, storage

    def connect(self, **options: str) -> lc.Catalog:
        return lc.connect(
            self.warehouse, storage=self.storage, metastore=f"sqlite:///{self.names}", metastore_options=options or None
        )

    def sql(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.names)) as connection, connection:
            return connection.execute(statement, values).fetchall()


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with s3_server() as client:
        yield client


@pytest.fixture(params=["disk", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "disk":
        return Lake(str(tmp_path / "lake"), tmp_path / "names.db")
    client = request.getfixturevalue("server")
    return Lake(f"s3://lake/sql-{next(NUMBERS)}", tmp_path / "names.db", storage_of(client))


@pytest.fixture
def disk(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"), tmp_path / "names.db")


def test_a_catalog_of_an_older_java_without_tables_for_views_is_listed_and_changed(disk: Lake) -> None:
    catalog = disk.connect()
    catalog.create_database("sales")
    catalog.create_table("sales.orders", {"k": "INT"}).write([{"k": 1}])
    for name in ("paimon_views", "paimon_distributed_locks"):
        disk.sql(f"DROP TABLE {name}")

    older = disk.connect()
    assert (older.databases(), older.tables("sales")) == (["sales"], ["orders"])
    assert older.table("sales.orders").scan().count() == 1
    assert older.check() == []
    older.drop_database("sales", cascade=True)
    assert (older.databases(), disk.connect().databases()) == ([], [])


def test_databases_tables_and_properties_are_rows_and_rows_are_what_is_listed(lake: Lake) -> None:
    catalog = lake.connect()
    catalog.create_database("sales", properties={"owner": "ann"})
    made(catalog, "sales.orders")
    made(catalog, "sales.items")
    made(catalog, "archive.orders")

    again = lake.connect()
    assert again.databases() == ["archive", "sales"]
    assert again.tables("sales") == ["items", "orders"]
    assert again.matching("*.orders") == ["archive.orders", "sales.orders"]
    assert again.table("sales.orders").scan().to_arrow().to_pylist() == ROW
    assert again.database_properties("sales") == {
        "location": f"{again.uri.removeprefix('file://')}/sales.db",
        "owner": "ann",
    }
    assert lake.sql("SELECT * FROM paimon_table_properties WHERE table_name = 'items' ORDER BY 4") == [
        ("jdbc", "sales", "items", "bucket", "1"),
        ("jdbc", "sales", "items", "bucket-key", "k"),
        ("jdbc", "sales", "items", "primary-key", "k"),
    ]
    assert again.check() == []


def test_properties_of_a_database_are_set_and_removed_all_or_none(lake: Lake) -> None:
    catalog = lake.connect()
    catalog.create_database("sales", properties={"owner": "ann", "old": "1"})
    location = catalog.database_properties("sales")["location"]

    catalog.alter_database("sales", {"owner": "bob", "old": None, "new": "2", "missing": None})
    assert catalog.database_properties("sales") == {"location": location, "new": "2", "owner": "bob"}

    catalog.sql("COMMENT ON DATABASE sales IS 'Orders'")
    catalog.sql("ALTER DATABASE sales SET DBPROPERTIES ('new' = '3', 'kept' = '')")
    catalog.sql("ALTER SCHEMA sales UNSET PROPERTIES ('owner', 'missing')")
    found = {"comment": "Orders", "kept": "", "location": location, "new": "3"}
    assert catalog.database_properties("sales") == found

    for change, error, message in (
        ({"new": "4", "location": "x"}, lc.InvalidRequest, "the property 'location' is kept by the catalog"),
        ({"new": "4", "exists": None}, lc.InvalidRequest, "the property 'exists' is kept by the catalog"),
        ({"new": "4", "long": "x" * 1001}, lc.InvalidRequest, "'long' is too long"),
        ({"new": 4}, lc.InvalidRequest, "'new' = 4: names and values are text"),
        (["new"], lc.InvalidRequest, "properties"),
    ):
        with pytest.raises(error, match=message):
            catalog.alter_database("sales", change)  # type: ignore[arg-type]
    with pytest.raises(lc.NotFound, match="Did you mean sales"):
        catalog.alter_database("salse", {"new": "4"})
    assert catalog.database_properties("sales") == found

    catalog.sql("COMMENT ON DATABASE sales IS NULL")
    catalog.alter_database("sales", {"new": None, "kept": None})
    assert catalog.databases() == ["sales"]


def test_the_sql_tables_are_those_that_java_makes(disk: Lake) -> None:
    made(disk.connect())

    made_by_us = {
        name: " ".join(ddl.split())
        for name, ddl in disk.sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    }
    key = "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL"
    table, of_table = f"{key}, table_name VARCHAR(255) NOT NULL", "catalog_key, database_name, table_name"
    columns = {
        "paimon_tables": f"{table}, PRIMARY KEY ({of_table})",
        "paimon_database_properties": f"{key}, property_key VARCHAR(255), property_value VARCHAR(1000), "
        "PRIMARY KEY (catalog_key, database_name, property_key)",
        "paimon_table_properties": f"{table}, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000), "
        f"PRIMARY KEY ({of_table}, property_key)",
        "paimon_views": f"{key}, view_name VARCHAR(255) NOT NULL, view_schema TEXT NOT NULL, "
        "PRIMARY KEY (catalog_key, database_name, view_name)",
        "paimon_distributed_locks": "lock_id VARCHAR(255) NOT NULL, "
        "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, expire_time_seconds BIGINT DEFAULT 0 NOT NULL, "
        "PRIMARY KEY (lock_id)",
    }
    assert made_by_us == {name: f"CREATE TABLE {name} ( {ddl} )" for name, ddl in columns.items()}


def test_connecting_and_reading_make_nothing(disk: Lake) -> None:
    catalog = disk.connect()

    assert catalog.databases() == []
    with pytest.raises(lc.NotFound, match=r"Database 'sales' does not exist .* It has no databases"):
        catalog.table("sales.orders")
    assert not disk.names.exists()


def test_a_dropped_table_leaves_neither_rows_nor_files_and_its_name_is_free(lake: Lake) -> None:
    catalog = lake.connect()
    made(catalog).create_tag("kept")
    catalog.drop_table("sales.orders")

    assert catalog.tables("sales") == []
    assert catalog.check() == []
    assert lake.sql("SELECT * FROM paimon_table_properties") == []
    catalog.drop_table("sales.orders", missing_ok=True)
    assert made(catalog).scan().count() == 1
    catalog.drop_database("sales", cascade=True)
    assert catalog.databases() == []
    assert lake.sql("SELECT * FROM paimon_database_properties") == []


def test_a_renamed_table_keeps_rows_files_and_properties(disk: Lake) -> None:
    catalog = disk.connect()
    made(catalog)
    made(catalog, "sales.items")
    catalog.create_database("archive")

    renamed = catalog.rename_table("sales.orders", "archive.old")

    assert renamed.scan().to_arrow().to_pylist() == ROW
    assert (catalog.tables("sales"), catalog.tables("archive"), catalog.check()) == (["items"], ["old"], [])
    assert len(disk.sql("SELECT * FROM paimon_table_properties WHERE table_name = 'old'")) == 3
    with pytest.raises(lc.InvalidRequest, match=r"'sales.items': the table or its folder already exists"):
        catalog.rename_table("archive.old", "sales.items")
    assert catalog.table("archive.old").scan().count() == 1


def test_a_warehouse_that_was_moved_keeps_its_names(disk: Lake, tmp_path: Path) -> None:
    made(disk.connect())
    moved = Lake(str(Path(disk.warehouse).rename(tmp_path / "moved")), disk.names).connect()

    assert (moved.tables("sales"), moved.check()) == (["orders"], [])
    moved.table("sales.orders").write(ROW)
    assert moved.table("sales.orders").scan().to_arrow().to_pylist() == ROW
    moved.drop_table("sales.orders")
    assert not Path(disk.warehouse).exists()


def test_a_rename_in_an_object_store_is_refused_and_changes_no_row(server: Any, tmp_path: Path) -> None:
    lake = Lake(f"s3://lake/sql-{next(NUMBERS)}", tmp_path / "names.db", storage_of(server))
    made(lake.connect())

    with pytest.raises(lc.UnsupportedFeature, match=r"'sales.orders' cannot be renamed: the store of s3:.*Nothing was"):
        lake.connect().rename_table("sales.orders", "sales.old")
    assert lake.connect().tables("sales") == ["orders"]
    assert lake.connect().table("sales.orders").scan().count() == 1


def test_catalogs_of_other_keys_in_one_database_have_names_of_their_own(disk: Lake, tmp_path: Path) -> None:
    made(disk.connect())
    other = Lake(str(tmp_path / "other"), disk.names)

    assert other.connect(**{"catalog-key": "second"}).databases() == []
    made(other.connect(**{"catalog-key": "second"}), "b.t")
    assert disk.connect().databases() == ["sales"]


def test_a_listed_table_without_files_is_told_and_dropping_it_removes_the_name(disk: Lake) -> None:
    catalog = disk.connect()
    made(catalog)
    shutil.rmtree(Path(disk.warehouse) / "sales.db" / "orders")
    said = (
        f"Table 'sales.orders': the catalog lists it, but file://{disk.warehouse}/sales.db/orders has no schema. "
        "Restore its files, or drop the table, which removes the name."
    )

    assert catalog.check() == [said]
    assert catalog.tables("sales") == ["orders"]
    with pytest.raises(lc.CorruptTable) as told:
        catalog.table("sales.orders")
    assert str(told.value) == said
    catalog.drop_table("sales.orders")
    assert (catalog.tables("sales"), catalog.check()) == ([], [])


def test_files_that_are_not_listed_are_told_refused_and_adopted_on_request(lake: Lake) -> None:
    catalog = lake.connect()
    made(catalog)
    lake.sql("DELETE FROM paimon_tables")
    said = (
        f"Table 'sales.orders': its files are at {catalog.uri}/sales.db/orders, but the catalog does not list it. "
        "Create it with exist_ok=True, which lists the files as they are, or remove the folder."
    )

    assert catalog.check() == [said]
    for use, error in (
        (lambda: catalog.table("sales.orders"), lc.NotFound),
        (lambda: catalog.create_table("sales.orders", {"x": "INT"}), lc.InvalidRequest),
        (lambda: catalog.drop_database("sales"), lc.InvalidRequest),
    ):
        with pytest.raises(error) as told:
            use()
        assert said in str(told.value)
    adopted = catalog.create_table("sales.orders", {"x": "INT"}, exist_ok=True)
    assert adopted.scan().to_arrow().to_pylist() == ROW
    assert (catalog.tables("sales"), catalog.check()) == (["orders"], [])
    assert len(lake.sql("SELECT * FROM paimon_table_properties")) == 3


def test_names_that_differ_only_in_case_and_names_of_views_are_refused(disk: Lake) -> None:
    catalog = disk.connect()
    made(catalog)
    disk.sql("INSERT INTO paimon_views VALUES ('jdbc', 'sales', 'daily', '{}')")

    for name, says in (("sales.Orders", "differs only by case"), ("sales.daily", "a view of another engine has that")):
        with pytest.raises(lc.InvalidRequest, match=says):
            catalog.create_table(name, COLUMNS)
    with pytest.raises(lc.InvalidRequest, match="differs only by case"):
        catalog.create_database("Sales")
    with pytest.raises(lc.InvalidRequest, match="the table or its folder already exists"):
        catalog.rename_table("sales.orders", "sales.daily")
    catalog.drop_table("sales.orders")
    with pytest.raises(lc.InvalidRequest, match=r"has 1 views of another engine, such as 'daily'\. Drop them there"):
        catalog.drop_database("sales")
    for key in ("location", "exists", "k" * 256):
        with pytest.raises(lc.InvalidRequest, match="Database 'x': the property "):
            catalog.create_database("x", properties={key: "v"})
    assert not (Path(disk.warehouse) / "sales.db" / "daily").exists()


def test_of_those_who_create_a_table_at_once_one_wins_and_all_see_one_table(disk: Lake) -> None:
    disk.connect().create_database("sales")

    def create(number: int) -> bool:
        catalog = disk.connect()
        try:
            catalog.create_table(f"sales.t{number % 3}", COLUMNS, **KEYED)
        except lc.InvalidRequest:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(create, range(12))) == 3
    assert disk.connect().tables("sales") == ["t0", "t1", "t2"]
    assert disk.connect().check() == []


def catalog_on(store: ObjectStore, names: Path) -> Catalog:
    clock = VirtualClock(seed=next(NUMBERS))
    files = WarehouseFiles(store, clock)
    database = SqlDatabase(sql_address(f"sqlite:///{names}", {}))
    return Catalog(store, clock=clock, metastore=SqlMetastore(database, files, clock))


VERBS: dict[str, tuple[Callable[[Catalog], object], Callable[[Catalog], object]]] = {
    # The verb, and what a user does to have the same after it was interrupted.
    "create": (
        lambda catalog: catalog.create_table("db.new", COLUMNS, **KEYED),
        lambda catalog: catalog.create_table("db.new", COLUMNS, **KEYED, exist_ok=True),
    ),
    "drop": (
        lambda catalog: catalog.drop_table("db.t"),
        lambda catalog: catalog.drop_table("db.t", missing_ok=True),
    ),
    "drop database": (
        lambda catalog: catalog.drop_database("db", cascade=True),
        lambda catalog: catalog.drop_database("db", cascade=True, missing_ok=True),
    ),
}


KINDS = (FaultKind.DIE_BEFORE, FaultKind.FAIL_AFTER, FaultKind.FAIL_BEFORE, FaultKind.DIE_AFTER)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "folders"), each_with_one(KINDS, [True, False], step=3))
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_fails_at_any_request_is_all_or_nothing_as_the_catalog_shows_it(
    verb: str, folders: bool, kind: FaultKind, tmp_path: Path, every: int
) -> None:
    do, again = VERBS[verb]
    for at in count(1, every):
        clock = VirtualClock()
        store = (MemoryStore if folders else FlatStore)(clock=clock)
        names = tmp_path / f"{at}.db"
        before = catalog_on(store, names)
        before.create_database("db")
        made(before, "db.t")
        faulty = FaultyStore(store, [Fault(at=at, kind=kind)])
        told: BaseException | None = None
        try:
            do(catalog_on(faulty, names))
        except (ProcessDied, lc.LakehouseError) as error:
            told = error

        catalog = catalog_on(store, names)
        for table in catalog.tables("db") if "db" in catalog.databases() else []:
            assert catalog.table(f"db.{table}").scan().count() == (1 if table == "t" else 0), at
        if told is None:
            assert catalog.check() == [], at
        # A killed drop holds its mark for some minutes.
        clock.advance(301)
        again(catalog)
        assert catalog.databases() == ([] if verb == "drop database" else ["db"]), at
        if verb == "create":
            assert catalog.tables("db") == ["new", "t"], at
        else:
            # Nothing of it is left, but for a folder of a hidden name, which goes with its database; its name is free.
            left = [info.key for info in store.list("")]
            assert all(verb == "drop" and folders and key.startswith("db.db/.dropped-") for key in left), at
            catalog.create_database("db", exist_ok=True)
            assert catalog.tables("db") == [], at
            fresh = catalog.create_table("db.t", COLUMNS, **KEYED)
            fresh.write([{"k": 2, "v": "b"}])
            assert fresh.scan().count() == 1, at
            assert fresh.verify().findings == (), at
        if len(faulty.calls) < at:
            break
    assert at > 2


def test_a_password_is_in_no_text_pickle_or_log(disk: Lake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for metastore, options in (
        ("postgresql://ann:canary-pw@127.0.0.1:1/names", {}),
        ("postgresql://ann@127.0.0.1:1/names", {"jdbc.password": "canary-pw"}),
        ("postgresql+psycopg2://127.0.0.1:1/names", {"jdbc.user": "ann", "jdbc.password": "canary-pw"}),
    ):
        catalog = lc.connect(disk.warehouse, metastore=metastore, metastore_options=options)
        with pytest.raises(lc.StorageUnavailable, match="the database of the catalog did not answer") as told:
            catalog.databases()

        texts = [str(told.value), repr(told.value), repr(catalog), catalog._repr_html_(), caplog.text]
        texts.append(str(told.value.__cause__))
        texts.append(repr(catalog._context.metastore.__dict__))
        texts.append(repr(pickle.dumps(catalog)))
        assert [text for text in texts if "canary-pw" in text or "***" in text] == []
        assert "postgresql://ann@127.0.0.1:1/names" in repr(catalog)


def rows_of(data: bytes) -> list[Any]:
    rows: list[Any] = pickle.loads(data).scan().to_arrow().to_pylist()
    return rows


@pytest.mark.program
def test_another_process_reads_and_writes_a_table_without_the_database(disk: Lake) -> None:
    table = made(disk.connect())
    data = pickle.dumps(table)
    disk.names.unlink()

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(rows_of, (data,)) == ROW
    assert pickle.loads(data).write([{"k": 2, "v": "b"}]).rows_added == 1


def test_a_catalog_goes_to_another_process_as_its_address(disk: Lake) -> None:
    made(disk.connect())

    assert pickle.loads(pickle.dumps(disk.connect())).tables("sales") == ["orders"]


def test_a_database_that_cannot_be_used_is_told_with_what_to_do(disk: Lake, tmp_path: Path) -> None:
    lost = Lake(disk.warehouse, tmp_path / "missing" / "names.db").connect()
    with pytest.raises(lc.StorageUnavailable, match=r"Nothing was changed\. Make the folder .*/missing first\."):
        lost.create_database("sales")

    disk.names.write_text("this is a text, and no database at all; it has many more letters than a header. " * 9)
    for use in (disk.connect().databases, lambda: disk.connect().create_database("sales")):
        with pytest.raises(lc.InvalidRequest, match=r"file is not a database\. Check the permissions"):
            use()


def test_a_table_whose_name_cannot_be_stored_says_how_to_go_on(disk: Lake) -> None:
    catalog = disk.connect()
    made(catalog)
    disk.sql("CREATE TRIGGER full BEFORE INSERT ON paimon_tables BEGIN SELECT RAISE(FAIL, 'no room'); END")

    with pytest.raises(lc.InvalidRequest, match="no room"):
        catalog.create_table("sales.more", COLUMNS)
    disk.sql("DROP TRIGGER full")
    assert catalog.tables("sales") == ["orders"]
    assert len(catalog.check()) == 1
    assert catalog.create_table("sales.more", COLUMNS, exist_ok=True).scan().count() == 0
    assert catalog.check() == []


def test_what_another_call_did_meanwhile_is_told_and_not_undone(disk: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, other = disk.connect(), disk.connect()
    made(catalog)
    databases, looks = catalog._context.metastore.databases, count()

    def listed() -> list[str]:
        # The first look of each call comes before the other call, the second one after it.
        return databases() if next(looks) % 2 else ["sales"]

    monkeypatch.setattr(catalog._context.metastore, "databases", listed)
    other.create_database("archive")

    with pytest.raises(lc.InvalidRequest, match="'archive' was created meanwhile by another call, which chose its"):
        catalog.create_database("archive", properties={"owner": "ann"})
    catalog.create_database("archive")
    assert other.database_properties("archive").keys() == {"location"}

    place = catalog._context.metastore.place

    def dropped_meanwhile(name: TableName) -> TablePlace:
        if name.table == "old":
            disk.sql("DELETE FROM paimon_tables")
        return place(name)

    monkeypatch.setattr(catalog._context.metastore, "place", dropped_meanwhile)
    with pytest.raises(lc.NotFound, match=r"'sales\.orders' was dropped or renamed meanwhile\. Nothing was changed"):
        catalog.rename_table("sales.orders", "sales.old")
    assert (Path(disk.warehouse) / "sales.db" / "orders" / "schema").exists()


def test_a_database_with_files_that_are_not_listed_stays_when_it_is_dropped_with_its_tables(disk: Lake) -> None:
    catalog = disk.connect()
    made(catalog)
    made(catalog, "sales.items")
    disk.sql("DELETE FROM paimon_tables WHERE table_name = 'items'")

    with pytest.raises(lc.InvalidRequest, match=r"Database 'sales' stays\. Table 'sales\.items': its files are at"):
        catalog.drop_database("sales", cascade=True)
    assert (catalog.databases(), catalog.tables("sales")) == (["sales"], [])


def test_the_first_writer_waits_while_another_makes_the_database(disk: Lake) -> None:
    with closing(sqlite3.connect(disk.names, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE others (a)")
        waiting = pool.submit(disk.connect().create_database, "first")
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.2)
        other.execute("COMMIT")
        waiting.result(timeout=HANGS_AFTER_SECONDS)

    assert disk.connect().databases() == ["first"]
    assert disk.sql("PRAGMA journal_mode") == [("wal",)]


def test_a_writer_waits_while_another_changes_the_database(disk: Lake) -> None:
    catalog = disk.connect()
    made(catalog)
    with closing(sqlite3.connect(disk.names, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        waiting = pool.submit(catalog.create_database, "later")
        assert catalog.databases() == ["sales"]
        other.execute("COMMIT")
        waiting.result(timeout=HANGS_AFTER_SECONDS)

    assert catalog.databases() == ["later", "sales"]


@pytest.mark.parametrize(
    ("missing", "metastore", "says"),
    [
        ("sqlalchemy", "sqlite:////c.db", "the package sqlalchemy is not installed.*paimon-lakehouse\\[sql\\]"),
        ("sqlalchemy", "postgres://h/d", "the package sqlalchemy .*paimon-lakehouse\\[postgresql\\]"),
        ("sqlalchemy", "mariadb+pymysql://h/d", "the package sqlalchemy .*paimon-lakehouse\\[mysql\\]"),
        ("psycopg", "postgresql://h/d", "the driver psycopg of .* is not installed.*paimon-lakehouse\\[postgresql\\]"),
        ("psycopg2", "postgresql+psycopg2://h/d", "Leave \\+psycopg2 out of the address, and run pip install"),
    ],
)
def test_a_missing_package_is_told_with_its_command(
    missing: str, metastore: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in list(sys.modules):
        if name.startswith("lakehouse_core.catalog.sql.") or name.partition(".")[0] == missing:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(lc.InvalidRequest, match=says):
        lc.connect(tmp_path, metastore=metastore)
