"""One catalog in SQLite, PostgreSQL or MariaDB, shared with Java's: names of either, tables written by both at once."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import lakehouse_core as lc
from tests.catalog.sql import mariadb_server as mariadb
from tests.catalog.sql.postgresql_server import PostgresqlServer, postgresql_server, rows_of
from tests.interop.judge import VERSIONS, Judge, JudgeError
from tests.limits import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.interop

FIELDS = {"dt": "DATE NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
DECLARED: dict[str, Any] = {"primary_keys": ["dt", "k"], "partition_keys": ["dt"]}
OPTIONS = {"bucket": "2", "num-sorted-run.compaction-trigger": "8"}
DAY = "2024-01-05"
WRITERS, COMMITS = 2, 25


# A version of Java, where the names are, whether both take the lock. 1.4.2 makes fewer SQL tables.
MARIADB = pytest.param("2.0.0", "mariadb", True, marks=pytest.mark.mariadb)
SHARED = [
    ("2.0.0", "sqlite", False),
    ("2.0.0", "sqlite", True),
    ("2.0.0", "postgresql", False),
    ("2.0.0", "postgresql", True),
    pytest.param("2.0.0", "mariadb", False, marks=pytest.mark.mariadb),
    MARIADB,
    # A process of Java 1.4.2 that has committed cannot change a table any more where the lock is in SQLite: it leaves a
    # read open.
    ("1.4.2", "sqlite", False),
    ("1.4.2", "postgresql", True),
]
LOCKED = [("2.0.0", "sqlite", True), ("2.0.0", "postgresql", True), MARIADB, ("1.4.2", "sqlite", True)]
by_catalog = pytest.mark.parametrize(("judge", "names", "takes_lock"), SHARED, indirect=["judge", "names"])
by_locked_catalog = pytest.mark.parametrize(("judge", "names", "takes_lock"), LOCKED, indirect=["judge", "names"])
by_version = pytest.mark.parametrize("judge", VERSIONS, indirect=True)
by_newest_java = pytest.mark.parametrize("judge", VERSIONS[-1:], indirect=True)


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param) as java:
        yield java


class Sqlite:
    """The names in a file. `options`: those of Java's catalog."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "names.db"
        self.address = f"sqlite:///{self._file}"
        # In the default mode, reads that Java leaves open would keep all others from writing, Java too.
        self.options = {"uri": f"jdbc:sqlite:{self._file}?journal_mode=WAL"}

    def before_java_opens(self) -> None:
        # Where Java finds the table of locks when it opens a catalog, it leaves a read open for good, and its own
        # changes through that connection then fail with SQLITE_BUSY_SNAPSHOT.
        self.sql("DROP TABLE IF EXISTS paimon_distributed_locks")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._file)) as connection, connection:
            return connection.execute(query).fetchall()


class Postgresql:
    """The names in a database of a server."""

    def __init__(self, server: PostgresqlServer) -> None:
        self.address = server.new_database()
        database = urlsplit(self.address).path
        self.options = {"uri": f"jdbc:postgresql://127.0.0.1:{server.port}{database}", "jdbc.user": "postgres"}

    def before_java_opens(self) -> None:
        pass

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return rows_of(self.address, query)


class Mariadb:
    """The names in a database of a server. Java's lock knows the driver of MySQL, and not that of MariaDB."""

    def __init__(self, server: mariadb.MariadbServer, characters: str) -> None:
        self.address = server.new_database(characters)
        database = urlsplit(self.address).path
        # Else Java takes the tables of another database of the server for those of this one.
        uri = f"jdbc:mysql://127.0.0.1:{server.port}{database}?nullDatabaseMeansCurrent=true"
        self.options = {"uri": uri, "jdbc.user": mariadb.USER, "jdbc.password": mariadb.PASSWORD}

    def before_java_opens(self) -> None:
        pass

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return mariadb.rows_of(self.address, query)


Names = Sqlite | Postgresql | Mariadb


class Shared:
    """A warehouse and its names, for both sides."""

    def __init__(self, folder: Path, names: Names, judge: Judge, *, takes_lock: bool) -> None:
        self.warehouse, self.names = folder / "lake", names
        self._judge, self._lock = judge, "true" if takes_lock else "false"
        self._opened: list[Judge] = []

    @property
    def ours(self) -> lc.Catalog:
        options = {"lock.enabled": self._lock}
        return lc.connect(self.warehouse, metastore=self.names.address, metastore_options=options)

    def java(self, verb: str, judge: Judge | None = None, **request: Any) -> Any:
        catalog = {
            "metastore": "jdbc",
            "lock.enabled": self._lock,
            "lock.type": "jdbc",
            "lock-check-max-sleep": "50 ms",
            **self.names.options,
        }
        judge = judge or self._judge
        if judge not in self._opened:
            self._opened.append(judge)
            self.names.before_java_opens()
        return judge.call(verb, warehouse=str(self.warehouse), catalog=catalog, **request)

    def java_creates(self, table: str, **options: str) -> None:
        self.java(
            "create",
            table=table,
            fields=[{"name": name, "type": type_} for name, type_ in FIELDS.items()],
            primaryKeys=DECLARED["primary_keys"],
            partitionKeys=DECLARED["partition_keys"],
            options=OPTIONS | options,
        )

    def rows_of_java(self, table: str) -> list[tuple[int, str]]:
        return sorted((row["k"], row["v"]) for row in self.java("read", table=table)["rows"])

    def our_rows(self, table: str) -> list[tuple[int, str]]:
        rows = self.ours.table(table).scan().to_arrow().to_pylist()
        return sorted((row["k"], row["v"]) for row in rows)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql_server(listens=True) as running:
        yield running


@pytest.fixture(scope="module")
def mariadb_running() -> Iterator[mariadb.MariadbServer]:
    with mariadb.mariadb_server() as running:
        yield running


@pytest.fixture
def names(request: pytest.FixtureRequest, tmp_path: Path) -> Names:
    if request.param == "mariadb":
        # Java's SQL tables do not fit into a database of four-byte characters, the default of MySQL 8.
        return Mariadb(request.getfixturevalue("mariadb_running"), "CHARACTER SET utf8mb3")
    return Sqlite(tmp_path) if request.param == "sqlite" else Postgresql(request.getfixturevalue("server"))


@pytest.fixture
def shared(names: Names, judge: Judge, takes_lock: bool, tmp_path: Path) -> Shared:
    return Shared(tmp_path, names, judge, takes_lock=takes_lock)


def row(key: int, value: str) -> dict[str, Any]:
    return {"dt": DAY, "k": key, "v": value}


@by_catalog
def test_names_and_tables_that_java_makes_are_ours(shared: Shared) -> None:
    shared.java("database", op="create", database="sales", properties={"owner": "ann"})
    shared.java_creates("sales.orders")
    shared.java("write", table="sales.orders", rows=[row(1, "java")], mode="batch")

    ours = shared.ours
    assert (ours.databases(), ours.tables("sales"), ours.check()) == (["sales"], ["orders"], [])
    assert ours.database_properties("sales") == {"location": f"{shared.warehouse}/sales.db", "owner": "ann"}
    orders = ours.table("sales.orders")
    orders.write([row(2, "ours")])
    orders.alter(lc.SetOption("snapshot.num-retained.min", "3"))
    orders.compact(full=True)
    assert shared.our_rows("sales.orders") == shared.rows_of_java("sales.orders") == [(1, "java"), (2, "ours")]
    ours.rename_table("sales.orders", "sales.old")
    assert shared.rows_of_java("sales.old") == [(1, "java"), (2, "ours")]
    ours.drop_table("sales.old")
    assert shared.java("tables", database="sales") == []
    ours.drop_database("sales")
    assert shared.java("database") == []


@by_catalog
def test_names_and_tables_that_we_make_are_javas(shared: Shared) -> None:
    ours = shared.ours
    ours.create_database("sales", properties={"owner": "ann"})
    ours.create_table("sales.orders", FIELDS, **DECLARED, options=OPTIONS).write([row(1, "ours")])

    assert shared.java("database") == ["sales"]
    assert shared.java("database", op="properties", database="sales") == {
        "location": f"{shared.warehouse}/sales.db",
        "owner": "ann",
    }
    shared.java("write", table="sales.orders", rows=[row(2, "java")], mode="batch")
    shared.java("alter", table="sales.orders", changes=[{"op": "add-column", "column": "w", "type": "INT"}])
    shared.java("compact", table="sales.orders", strategy="full")
    assert shared.our_rows("sales.orders") == shared.rows_of_java("sales.orders") == [(1, "ours"), (2, "java")]
    shared.java("rename", table="sales.orders", to="sales.old")
    assert shared.our_rows("sales.old") == [(1, "ours"), (2, "java")]
    assert ours.table("sales.old").verify().findings == ()
    shared.java("drop", table="sales.old")
    assert (ours.tables("sales"), ours.check()) == ([], [])


@by_version
def test_the_rows_and_sql_tables_of_both_are_the_same(judge: Judge, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("java", "ours")]
    for folder in folders:
        folder.mkdir()
    java, ours = (Shared(folder, Sqlite(folder), judge, takes_lock=True) for folder in folders)
    java.java("database", op="create", database="db")
    java.java_creates("db.t")
    ours.ours.create_database("db")
    ours.ours.create_table("db.t", FIELDS, **DECLARED, options=OPTIONS)

    tables = "SELECT name, replace(replace(lower(sql), ' ', ''), char(10), '') FROM sqlite_master WHERE type = 'table'"
    made, expected = dict(ours.names.sql(tables)), dict(java.names.sql(tables))
    older = {"paimon_views"} if judge.version < "2" else set()
    assert {name: ddl.replace("\t", "") for name, ddl in made.items() if name not in older} == expected
    for table in ("paimon_tables", "paimon_table_properties"):
        assert sorted(ours.names.sql(f"SELECT * FROM {table}")) == sorted(java.names.sql(f"SELECT * FROM {table}"))
    properties = "SELECT catalog_key, database_name, property_key FROM paimon_database_properties"
    assert sorted(ours.names.sql(properties)) == sorted(java.names.sql(properties))


@by_catalog
def test_files_that_java_leaves_of_a_dropped_database_are_told(shared: Shared) -> None:
    shared.java("database", op="create", database="sales")
    shared.java_creates("sales.orders")
    shared.java("database", op="drop", database="sales", cascade=True)

    ours = shared.ours
    assert ours.databases() == []
    ours.create_database("sales")
    (said,) = ours.check()
    assert "'sales.orders': its files are at" in said
    assert ours.create_table("sales.orders", FIELDS, exist_ok=True).scan().count() == 0
    assert shared.java("tables", database="sales") == ["orders"]


@by_locked_catalog
def test_writers_of_both_engines_with_the_lock_lose_no_row(shared: Shared, judge: Judge) -> None:
    shared.java("database", op="create", database="sales")
    shared.java_creates("sales.orders", **{"write-only": "true", "bucket": "1"})

    def java_writes(writer: int, own: Judge) -> int:
        for number in range(COMMITS):
            key = writer * 1000 + number
            shared.java("write", own, table="sales.orders", rows=[row(key, "java")], mode="batch")
        return COMMITS

    def we_write(writer: int) -> int:
        table = shared.ours.table("sales.orders")
        for number in range(COMMITS):
            table.write([row(writer * 1000 + number, "ours")])
        return COMMITS

    with Judge(judge.version) as first, Judge(judge.version) as second, ThreadPoolExecutor(2 * WRITERS) as pool:
        for each in (first, second):
            assert shared.java("tables", each, database="sales") == ["orders"]
        running = [pool.submit(java_writes, writer, own) for writer, own in enumerate((first, second))]
        running += [pool.submit(we_write, writer) for writer in range(WRITERS, 2 * WRITERS)]
        assert sum(each.result(timeout=HANGS_AFTER_SECONDS) for each in running) == 2 * WRITERS * COMMITS

    expected = sorted(
        (writer * 1000 + number, "java" if writer < WRITERS else "ours")
        for writer in range(2 * WRITERS)
        for number in range(COMMITS)
    )
    assert shared.our_rows("sales.orders") == expected
    assert shared.rows_of_java("sales.orders") == expected
    table = shared.ours.table("sales.orders")
    assert len(table.snapshots()) == 2 * WRITERS * COMMITS
    assert table.verify().findings == ()
    assert shared.names.sql("SELECT * FROM paimon_distributed_locks") == []


@by_newest_java
@pytest.mark.mariadb
def test_in_mysql_java_has_the_same_columns_and_keys_and_opens_those_that_we_make(
    mariadb_running: mariadb.MariadbServer, judge: Judge, tmp_path: Path
) -> None:
    """Ours differ in the collation, which tells case apart, and in the characters, so that the keys fit."""
    made: dict[str, list[tuple[Any, ...]]] = {}
    for side in ("java", "ours"):
        names = Mariadb(mariadb_running, "CHARACTER SET utf8mb3" if side == "java" else "CHARACTER SET utf8mb4")
        (folder := tmp_path / side).mkdir()
        shared = Shared(folder, names, judge, takes_lock=True)
        if side == "java":
            shared.java("database", op="create", database="db")
            shared.java_creates("db.t")
        else:
            shared.ours.create_database("db")
            shared.ours.create_table("db.t", FIELDS, **DECLARED, options=OPTIONS)
            assert shared.java("tables", database="db") == ["t"]
        query = (
            "SELECT table_name, column_name, column_type, is_nullable, column_default, column_key, extra "
            "FROM information_schema.columns WHERE table_schema = database()"
        )
        rows = (f"SELECT * FROM {table}" for table in ("paimon_tables", "paimon_table_properties"))
        made[side] = [row for each in (query, *rows) for row in sorted(names.sql(each), key=str)]

    assert made["ours"] == made["java"]


@by_newest_java
@pytest.mark.mariadb
def test_in_a_mysql_database_of_four_byte_characters_java_opens_only_what_we_make(
    mariadb_running: mariadb.MariadbServer, judge: Judge, tmp_path: Path
) -> None:
    shared = Shared(tmp_path, Mariadb(mariadb_running, "CHARACTER SET utf8mb4"), judge, takes_lock=True)

    with pytest.raises(JudgeError) as told:
        shared.java("database", op="create", database="db")
    assert "Specified key was too long" in told.value.root_error
    shared.ours.create_database("db")
    with Judge("2.0.0") as fresh:
        assert shared.java("database", fresh) == ["db"]
