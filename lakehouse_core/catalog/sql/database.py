"""The database of a SQL catalog: reads, and changes of one transaction each.

Rule: each call opens a connection and closes it, so nothing is shared with a forked child and nothing is stale after
the server was restarted. Errors of the driver end here. Source: docs/decisions/0023-sql-catalogs.md.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.schema import CreateTable

from lakehouse_core.catalog.sql.address import MYSQL, POSTGRESQL, SQLITE, SqlAddress, with_password, without_secrets
from lakehouse_core.catalog.sql.tables import ALL, LOCKS, VIEWS
from lakehouse_core.errors import InvalidRequest, LakehouseError, StorageUnavailable, WriteOutcomeUnknown
from lakehouse_core.retry import Retry

R = TypeVar("R")

# How long a statement may take, in seconds, also while another process writes.
_STATEMENT_SECONDS = 20
_CONNECT_SECONDS = 10
# Of PostgreSQL.
_UNIQUE_VIOLATION = "23505"
_DEADLOCKS = ("40001", "40P01")
# Of MySQL: a key that is there; a deadlock or a row that stays locked, where the transaction is rolled back.
_MYSQL_DUPLICATE = 1062
_MYSQL_DEADLOCKS = (1205, 1213)
# Of MySQL: it is busy, going down, or does not let this user in. Its other errors below 2000 refuse a statement.
_MYSQL_UNANSWERED = frozenset({0, 1040, 1044, 1045, 1049, 1053, 1129, 1130, 1158, 1159, 1160, 1161, 1203, 1226, 1927})
_MYSQL_CLIENT = 2000
# A transaction that was rolled back for the sake of another one is repeated, and so is a change of SQLite's log that
# another one was in the way of; the database has waited already.
_REPEATED = Retry(10)


class RowExists(Exception):
    """A row of that key is there already. It does not leave this package."""


class _RolledBack(StorageUnavailable):
    """The database chose this transaction among those that waited for each other, and undid it."""


class SqlDatabase:
    """One database of catalogs. The first change creates the SQL tables."""

    def __init__(self, address: SqlAddress, tables: tuple[sa.Table, ...] = ALL) -> None:
        self.address = address
        self._tables = tables
        # The names of the SQL tables that are not there; None: not looked yet.
        self._missing: frozenset[str] | None = None
        self._is_writable = False

    @cached_property
    def _engine(self) -> sa.Engine:
        return _engine(self.address)

    def load_driver(self) -> None:
        """Load the driver, without connecting. Raises InvalidRequest if it is missing."""
        _ = self._engine

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without the password; another process takes its own."""
        return SqlDatabase, (self.address,) if self._tables is ALL else (self.address, self._tables)

    def read(self, ask: Callable[[sa.Connection], R], *, empty: R) -> R:
        """Return what `ask` finds; `empty` if the database has no tables of a catalog yet. Creates nothing.

        Raises StorageUnavailable, InvalidRequest.
        """
        if self.address.file is not None and not os.path.exists(self.address.file):
            return empty
        with self._answering("read"), self._engine.connect() as opened:
            connection = opened.execution_options(isolation_level="AUTOCOMMIT")
            # Java makes the table of locks only where it takes locks, and before 2.0 it made none for views.
            if self._missing is None or self._missing - {LOCKS.name}:
                inspector = sa.inspect(connection)
                missing = (table.name for table in self._tables if not inspector.has_table(table.name))
                self._missing = frozenset(missing)
            return empty if self._missing - {LOCKS.name, VIEWS.name} else ask(connection)

    def has(self, table: sa.FromClause) -> bool:
        """Return whether the SQL table is there, for what `read` and `change` run."""
        return self._missing is None or getattr(table, "name", "") not in self._missing

    def change(self, do: Callable[[sa.Connection], R], *, is_done: Callable[[sa.Connection], bool]) -> R | None:
        """Return what `do` returns; its statements are one transaction. None if the answer of the database was lost and
        `is_done` then finds the change.

        `do` may be called again after a deadlock. Raises RowExists, StorageUnavailable if certainly nothing was
        changed, WriteOutcomeUnknown, InvalidRequest.
        """
        self._make_tables()
        return _REPEATED.call(lambda: self._changed(do, is_done), on=(_RolledBack,))

    def _changed(self, do: Callable[[sa.Connection], R], is_done: Callable[[sa.Connection], bool]) -> R | None:
        result: list[R] = []
        try:
            with self._answering("change"), self._engine.connect() as connection, connection.begin() as transaction:
                result.append(do(connection))
                self._commit(transaction)
        except WriteOutcomeUnknown:
            if self.read(is_done, empty=False):
                return None
            raise
        return result[0]

    def _make_tables(self) -> None:
        if self._is_writable:
            return
        with self._answering("create"), self._engine.connect() as opened:
            connection = opened.execution_options(isolation_level="AUTOCOMMIT")
            inspector = sa.inspect(connection)
            # A user of a server that may not create tables may well change rows.
            missing = [table for table in self._tables if not inspector.has_table(table.name)]
        if self.address.dialect == SQLITE and missing:
            _REPEATED.call(self._write_ahead, on=(_RolledBack,))
        if missing:
            # Another process may create the same tables at the same time.
            with suppress(RowExists), self._answering("create"), self._engine.begin() as connection:
                for table in missing:
                    connection.execute(CreateTable(table, if_not_exists=True))
        self._missing = frozenset()
        self._is_writable = True

    def _write_ahead(self) -> None:
        """Let the file have SQLite's write-ahead log. Java leaves reads open, which would keep all others from writing.

        The change of the log does not wait for other processes, so a transaction does before it.
        """
        with self._answering("create"), self._engine.begin():
            pass
        with self._answering("create"), self._engine.connect() as opened:
            try:
                opened.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("PRAGMA journal_mode=WAL")
            except exc.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
                raise _RolledBack(self._no_answer(error)) from None

    def _commit(self, transaction: sa.RootTransaction) -> None:
        try:
            transaction.commit()
        except exc.DBAPIError as error:
            if self.address.dialect == SQLITE and _code(error) == sqlite3.SQLITE_BUSY:
                # A reader kept the file; the transaction is rolled back.
                raise
            raise WriteOutcomeUnknown(
                f"{self}: the connection was lost when a change was committed: {self._told(error)}. It may have been "
                "applied: look, then call again."
            ) from None

    @contextmanager
    def _answering(self, verb: str) -> Iterator[None]:
        """Turn errors of the driver into ours; their text may name the password, so they are not kept as causes."""
        try:
            yield
        except LakehouseError:
            raise
        except exc.DBAPIError as error:
            if _is_duplicate(error):
                raise RowExists from error
            told = self._told(error)
            if _is_deadlock(error):
                raise _RolledBack(
                    f"{self}: the database rolled the change back again and again, because other changes were in its "
                    f"way: {told}. Nothing was changed. Call again."
                ) from None
            if self._is_unanswered(error):
                raise StorageUnavailable(self._no_answer(error)) from None
            raise InvalidRequest(
                f"{self}: the database refused to {verb} the tables of the catalog: {told}. Check the permissions of "
                "the user, and that the tables are those of a Paimon catalog."
            ) from None
        except exc.SQLAlchemyError as error:
            raise StorageUnavailable(f"{self}: {self._told(error)}. Nothing was changed. Call again.") from None

    def _no_answer(self, error: exc.DBAPIError) -> str:
        told = self._told(error)
        return f"{self}: the database of the catalog did not answer: {told}. Nothing was changed. {self._advice(told)}"

    def _is_unanswered(self, error: exc.DBAPIError) -> bool:
        """Return whether the database is out of reach, rather than refusing a statement."""
        code = _mysql_code(error)
        if self.address.dialect == MYSQL and code is not None and not error.connection_invalidated:
            return code in _MYSQL_UNANSWERED or code >= _MYSQL_CLIENT
        return isinstance(error, exc.OperationalError | exc.InterfaceError) or error.connection_invalidated

    def __str__(self) -> str:
        return self.address.text

    def _advice(self, told: str) -> str:
        if self.address.file is not None:
            folder = os.path.dirname(self.address.file)
            if not os.path.isdir(folder):
                return f"Make the folder {folder} first."
            if "locked" in told:
                return (
                    "Another program has locked the file; call again. If that program is Java, end its address of the "
                    "file with ?journal_mode=WAL, so that readers and a writer do not lock each other out."
                )
            return "Check the file and its permissions, then call again."
        if "password" in told and self.address.has_given_password and with_password(self.address).password is None:
            place = (
                "Set PGPASSWORD in the environment."
                if self.address.dialect == POSTGRESQL
                else "Name an option file that holds it at the end of the address: ?read_default_file=/path/of/my.cnf."
            )
            return f"Its password was given to connect() in another process, and is not sent to this one. {place}"
        return "Check its address, user and password, and that it runs; then call again."

    def _told(self, error: exc.SQLAlchemyError) -> str:
        text = str(error.orig) if isinstance(error, exc.DBAPIError) else str(error)
        return without_secrets(self.address, " ".join(text.split()).rstrip("."))


def _engine(address: SqlAddress) -> sa.Engine:
    """Return the engine, which connects at the first statement. Raises InvalidRequest if the driver is missing."""
    settings: dict[str, Any] = {"timeout": _STATEMENT_SECONDS}
    more: dict[str, Any] = {}
    if address.dialect == MYSQL:
        settings = {
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": _STATEMENT_SECONDS,
            "write_timeout": _STATEMENT_SECONDS,
        }
        # By default it locks the gaps between rows, where two writers of new rows wait for each other.
        more = {"isolation_level": "READ COMMITTED"}
    elif address.dialect == POSTGRESQL:
        settings = {"connect_timeout": _CONNECT_SECONDS, "tcp_user_timeout": _STATEMENT_SECONDS * 1000}
        if "options" not in sa.make_url(address.url).query:
            settings["options"] = f"-c statement_timeout={_STATEMENT_SECONDS * 1000}"
    try:
        engine = sa.create_engine(
            with_password(address), poolclass=sa.pool.NullPool, connect_args=settings, hide_parameters=True, **more
        )
    except ModuleNotFoundError as error:
        # psycopg2 is in no extra: its address names it.
        other = f"Leave +{error.name} out of the address, and run" if address.names_other_driver else "Run"
        raise InvalidRequest(
            f"metastore: the driver {error.name} of {address.text} is not installed. {other} pip install "
            f"'paimon-lakehouse[{address.dialect}]'."
        ) from None
    if address.dialect == SQLITE:
        # Python's driver begins transactions late and in its own way: two changes could both read, then both write.
        sa.event.listen(engine, "connect", _leave_transactions)
        sa.event.listen(engine, "begin", _begin_immediate)
    return engine


def _leave_transactions(connection: Any, _: Any) -> None:
    connection.isolation_level = None


def _begin_immediate(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_duplicate(error: exc.DBAPIError) -> bool:
    if _code(error) in (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE):
        return True
    return _state(error) == _UNIQUE_VIOLATION or _mysql_code(error) == _MYSQL_DUPLICATE


def _is_deadlock(error: exc.DBAPIError) -> bool:
    return _state(error) in _DEADLOCKS or _mysql_code(error) in _MYSQL_DEADLOCKS


def _state(error: exc.DBAPIError) -> str | None:
    """Return PostgreSQL's code of an error."""
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)


def _mysql_code(error: exc.DBAPIError) -> int | None:
    """Return MySQL's code of an error."""
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _code(error: exc.DBAPIError) -> int | None:
    code: int | None = getattr(error.orig, "sqlite_errorcode", None)
    return code
