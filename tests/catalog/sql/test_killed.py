"""A process is killed between the SQL statements of a verb where a database decides: all is done or nothing.

The database has to find out by itself that its client is gone. The store takes no conditions.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count

import pytest
import sqlalchemy as sa

import lakehouse_core as lc
from lakehouse_core.catalog.sql.database import SqlDatabase
from tests.catalog.sql.mariadb_server import mariadb_server
from tests.catalog.sql.postgresql_server import postgresql_server
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.s3_stub import S3Stub

NUMBERS = count()
COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}

VERBS: Mapping[str, Callable[[lc.Catalog], object]] = {
    "write": lambda catalog: catalog.table("db.t").write([{"k": 2, "v": "b"}]),
    "alter": lambda catalog: catalog.table("db.t").alter(lc.AddColumn("w", "INT")),
    "create table": lambda catalog: catalog.create_table("db.new", COLUMNS, primary_keys=["k"], exist_ok=True),
    "drop table": lambda catalog: catalog.drop_table("db.t"),
}
WRITING = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture(scope="module")
def stub() -> Iterator[S3Stub]:
    with S3Stub() as stub:
        stub.ignored = frozenset({"if-none-match", "if-match"})
        yield stub


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with postgresql_server() as server:
        yield server.new_database()


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    with mariadb_server() as server:
        yield server.new_database()


class Lake:
    """A warehouse of its own, and its names in the database under a key of its own."""

    def __init__(self, stub: S3Stub, address: str) -> None:
        number = next(NUMBERS)
        self._arguments = {
            "warehouse": f"s3://lake/wh-{number}",
            "storage": {**stub.storage, "conditional-writes": "false"},
            "metastore": address,
            "metastore_options": {"catalog-key": f"lake-{number}"},
        }
        catalog = self.connect()
        catalog.create_database("db")
        options = {"bucket": "1", "lakehouse.read.grace": "0 s"}
        table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
        table.write([{"k": 1, "v": "a"}])
        table.write([{"k": 1, "v": "z"}])

    def connect(self) -> lc.Catalog:
        return lc.connect(**self._arguments)

    def seen(self) -> object:
        """Return what users see: databases, and of each table its columns and rows. All of it must be whole."""
        catalog = self.connect()
        names = [f"{database}.{table}" for database in catalog.databases() for table in catalog.tables(database)]
        found = {}
        for name in names:
            table = catalog.table(name)
            assert table.verify(data=True).findings == ()
            rows = sorted(map(str, table.scan().to_arrow().to_pylist()))
            found[name] = (table.schema.column_names, rows)
        return catalog.databases(), found

    def killed_at(self, verb: str, step: int) -> bool:
        """Carry out a verb in a process that dies at one step of its SQL; False: it had fewer steps."""
        context = multiprocessing.get_context("forkserver")
        # Without what reads stores: a forked process refuses to.
        context.set_forkserver_preload(["sqlalchemy", "lakehouse_core.catalog.sql.metastore", "pyarrow.parquet"])
        child = context.Process(target=_carried_out, args=(self._arguments, verb, step))
        child.start()
        child.join(HANGS_AFTER_SECONDS)
        assert child.exitcode in (0, -signal.SIGKILL)
        return child.exitcode != 0


def _carried_out(arguments: Mapping[str, object], verb: str, step: int) -> None:
    steps = count(1)
    whole = SqlDatabase._commit

    def die() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(connection: object, cursor: object, statement: str, *more: object) -> None:
        if statement.startswith(WRITING):
            die()

    def commit(database: SqlDatabase, transaction: sa.RootTransaction) -> None:
        whole(database, transaction)
        die()

    sa.event.listen(sa.Engine, "after_cursor_execute", after)
    SqlDatabase._commit = commit  # type: ignore[method-assign]
    VERBS[verb](lc.connect(**arguments))


def check_kills(stub: S3Stub, address: str, verb: str) -> None:
    before = Lake(stub, address).seen()
    whole = Lake(stub, address)
    VERBS[verb](whole.connect())
    after = whole.seen()
    assert before != after
    for step in count(1):
        lake = Lake(stub, address)
        was_killed = lake.killed_at(verb, step)
        found = lake.seen()
        assert found == after or (was_killed and found == before), (verb, step)
        with suppress(lc.InvalidRequest, lc.NotFound):
            try:
                VERBS[verb](lake.connect())
            except lc.CommitConflict:
                # A killed drop holds its mark for some minutes, from when its object was written: a later call may do
                # that.
                pass_minutes(stub)
                VERBS[verb](lake.connect())
        assert lake.seen() == after, (verb, step)
        assert lake.connect().check() == [], (verb, step)
        if not was_killed:
            assert step > 3
            return


def pass_minutes(stub: S3Stub) -> None:
    now_millis = stub.now_millis
    stub.now_millis = lambda: now_millis() + 301_000


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_who_is_killed_at_a_statement_in_postgresql_leaves_all_or_nothing(
    stub: S3Stub, postgresql: str, verb: str
) -> None:
    check_kills(stub, postgresql, verb)


@pytest.mark.mariadb
@pytest.mark.parametrize("verb", ["write", "create table"])
def test_who_is_killed_at_a_statement_in_mariadb_leaves_all_or_nothing(stub: S3Stub, mariadb: str, verb: str) -> None:
    check_kills(stub, mariadb, verb)
