"""SQL source: the rows of a query, by SQLAlchemy: new ones in the order of a column, the cursor, or those of a run.

Rule: the address of the database is read from the environment when a run needs it, and no message contains it.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib import import_module
from typing import Any

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc
from lakehouse_dagster.pipeline import Cursor, NewRows
from lakehouse_dagster.sources.cursor_source import arrow_batch, refuse_unknown_columns
from lakehouse_dagster.sources.queried_source import QueriedSource, stream_of
from lakehouse_dagster.sources.row_source import Delivery, table_of
from lakehouse_dagster.sources.run_delivery import run_delivery
from lakehouse_dagster.specs import SQL_PARAMETER, SqlSpec

# Rows that are held in memory at once.
_ROWS_A_BATCH = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSource(QueriedSource):
    """The rows of a query. `key` is the asset of the table."""

    kind = "sql"

    spec: SqlSpec

    @property
    def label(self) -> str:
        return f"a query of the database {self.spec.connection}"

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        cursor = self.spec.cursor
        if cursor is None:
            own = table_of(self._lakehouse(context.resources).local_catalog(), self.key)
            return run_delivery(context, own, self.key, self.partitions, partial(self._reader, own))

        def read_since(table: lc.Table, since: Cursor) -> tuple[NewRows, Iterator[pa.RecordBatch]]:
            query = blake2b(self.spec.query.encode(), digest_size=8).hexdigest()
            is_same = since.query == query
            if since.value is not None and not is_same:
                context.log.warning(
                    f"{table.name}: the query has changed. Its rows are taken from beyond {cursor} = "
                    f"{since.value}; further rows of this value are not."
                )
            new = NewRows(since, cursor, query=query)
            return new, self._rows(table, cursor, since, new, is_same=is_same)

        return self._cursor_delivery(context.resources, read_since)

    def _reader(self, table: lc.Table, key: str | None) -> pa.RecordBatchReader:
        """Return all rows of the query, or those of a partition."""
        return stream_of(table, self._all_rows(table, key))

    def _all_rows(self, table: lc.Table, key: str | None) -> Iterator[pa.RecordBatch]:
        given = {} if key is None or self.partitions is None else self.partitions.sql_parameters(key)
        with self._connected(table) as (sql, connection):
            text = sql.text(self._text(with_parameters=True))
            parameters = {name: given[name] for name in self.spec.parameters}
            result = connection.execution_options(stream_results=True).execute(text, parameters)
            columns = list(result.keys())
            refuse_unknown_columns(table, columns, {self.rowkind_column}, "the query")
            for found in result.partitions(_ROWS_A_BATCH):
                yield arrow_batch(table, {name: [row[at] for row in found] for at, name in enumerate(columns)})

    def _text(self, *, with_parameters: bool = False) -> str:
        """Return the query as SQLAlchemy takes it: any other colon would begin a parameter."""
        text = self.spec.query.strip().rstrip(";")
        if not with_parameters:
            return text.replace(":", r"\:")
        places = [found.start() for found in SQL_PARAMETER.finditer(text)]
        return "".join(
            r"\:" if character == ":" and at not in places else character for at, character in enumerate(text)
        )

    def _rows(
        self, table: lc.Table, name: str, since: Cursor, new: NewRows, *, is_same: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the new rows of the query by its cursor `name`. `is_same`: rows of its own value may be new too."""
        with self._connected(table) as (sql, connection):
            text = sql.text(self._text())
            columns = list(
                connection.execute(sql.select(sql.literal_column("*")).select_from(_rows_of(sql, text)).limit(0)).keys()
            )
            if name not in columns:
                raise lc.InvalidRequest(
                    f"{table.name}: sql.cursor names {name!r}, but the query gives {', '.join(columns)}. Select the "
                    "column, or name another cursor."
                )
            refuse_unknown_columns(table, columns, {self.rowkind_column, name}, "the query")
            rows = _rows_of(sql, text, name)
            cursor = rows.c[name]
            if connection.execute(sql.select(cursor).where(cursor.is_(None)).limit(1)).first() is not None:
                raise lc.InvalidRequest(
                    f"{table.name}: cursor {name!r}: found a row where it is null, which has no place in the order. "
                    f"Add WHERE {name} IS NOT NULL to the query, or take another column."
                )
            if is_same and isinstance(since.value, str):
                self._refuse_equal_texts(
                    table, connection, sql.select(cursor).where(cursor == since.value), since.value
                )
            selected = sql.select(sql.literal_column("*")).select_from(rows).order_by(cursor)
            if since.value is not None:
                selected = selected.where(cursor >= since.value if is_same else cursor > since.value)
            is_empty = True
            kept = [column for column in columns if column in self._own_columns(table)]
            for found in connection.execution_options(stream_results=True).execute(selected).partitions(_ROWS_A_BATCH):
                is_empty = False
                plain = [tuple(row) for row in found]
                at = columns.index(name)
                places = new.places([row[at] for row in plain], partial(_at, plain))
                if places:
                    values = {c: [plain[p][columns.index(c)] for p in places] for c in kept}
                    yield arrow_batch(table, values)
            if is_empty and is_same and since.value is not None:
                newest = connection.execute(sql.select(sql.func.max(cursor))).scalar()
                if newest is not None:
                    raise lc.InvalidRequest(
                        f"{table.name}: cursor {name!r}: found {newest} as its highest value, but rows up to "
                        f"{since.value} were taken: the cursor went back. Restore the rows of the database, or drop "
                        "the table to load all rows anew."
                    )

    def _refuse_equal_texts(self, table: lc.Table, connection: Any, selected: Any, last: str) -> None:
        """Raise InvalidRequest where the database takes other texts for the last value: each run would be given their
        rows again, and would not know them.
        """
        for found in connection.execute(selected).scalars():
            if found != last:
                raise lc.InvalidRequest(
                    f"{table.name}: cursor {self.spec.cursor!r}: found {found!r} and {last!r}, which are one value to "
                    "the database, so that rows would be taken twice. Select the column with a binary collation, or "
                    "take a number or a time, and drop the table to load all rows anew."
                )

    @contextmanager
    def _connected(self, table: lc.Table) -> Iterator[tuple[Any, Any]]:
        """Give SQLAlchemy and a connection. What goes wrong there is an error of the core without the address."""
        sql = _sqlalchemy()
        variable = self.spec.connection
        if not (address := os.environ.get(variable)):
            raise lc.InvalidRequest(
                f"{table.name}: sql.connection names the environment variable {variable}, which is not set. Set it to "
                "an address of SQLAlchemy, such as postgresql+psycopg://user:password@host/database."
            )
        try:
            url = sql.engine.make_url(address)
            engine = sql.create_engine(url, poolclass=sql.pool.NullPool)
        except (sql.exc.ArgumentError, ModuleNotFoundError, ValueError) as error:
            found = "a driver that is not installed" if isinstance(error, ModuleNotFoundError) else "no such address"
            raise lc.InvalidRequest(
                f"{table.name}: the environment variable {variable}: found {found}, expected an address of SQLAlchemy, "
                "such as postgresql+psycopg://user:password@host/database. Correct it, or install the driver."
            ) from None
        secrets = [address, url.render_as_string(hide_password=False), *([str(url.password)] if url.password else [])]
        try:
            connection = engine.connect()
        except sql.exc.SQLAlchemyError as error:
            raise lc.StorageUnavailable(
                f"{table.name}: no connection by {variable}: {_told(error, secrets)}. Check the address and the "
                "database; a later run tries again."
            ) from None
        try:
            yield sql, connection
        except sql.exc.SQLAlchemyError as error:
            if getattr(error, "connection_invalidated", False):
                raise lc.StorageUnavailable(
                    f"{table.name}: the connection by {variable} was lost: {_told(error, secrets)}. A later run tries "
                    "again."
                ) from None
            raise lc.InvalidRequest(
                f"{table.name}: the database refused sql.query: {_told(error, secrets)}. Correct the query."
            ) from None
        finally:
            connection.close()
            engine.dispose()


def _sqlalchemy() -> Any:
    """Return SQLAlchemy, which a code location without queries need not load."""
    return import_module("sqlalchemy")


def _rows_of(sql: Any, text: Any, *names: str) -> Any:
    return text.columns(*(sql.column(name) for name in names)).subquery("lakehouse_rows")


def _at(rows: Sequence[object], places: Sequence[int]) -> list[object]:
    return [rows[place] for place in places]


def _told(error: Any, secrets: list[str]) -> str:
    told = str(getattr(error, "orig", None) or error).strip().rstrip(".")
    for secret in secrets:
        told = told.replace(secret, "***")
    return " ".join(told.split())
