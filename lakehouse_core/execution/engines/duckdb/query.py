"""Queries in this process, by DuckDB in a box: it reaches no file, no variable of Python, no extension, no setting.

Rule: each read of an answer has a connection of its own. Source: docs/sql.md#without-spark.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, LakehouseError, StorageFull, UnsupportedFeature
from lakehouse_core.execution.sql.relation import Relation
from lakehouse_core.interchange.arrow_rows import ArrowRows

DIVIDED_BY_ZERO: Final = "Division by zero"
# In a window a division by zero ends in a cast of this text to TINYINT. No value of a user is like it.
CAST_BY_ZERO: Final = "Division by zero in a window"
_CAST_FAILED: Final = f"Could not convert string '{CAST_BY_ZERO}' to INT8"
_BATCH_ROWS: Final = 65_536
_NUMBERS: Final = count()
# What the connection begins with; then the box is closed for good.
_SETTINGS: Final = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_BOX: Final = (
    "SET TimeZone = 'UTC'",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class DuckdbQuery:
    """A query that was bound once. `text` names the relations by their views; `names`: of its columns, None: as they
    come.

    Raises UnsupportedFeature without DuckDB, InvalidRequest for a query that DuckDB refuses.
    """

    def __init__(self, text: str, relations: Sequence[Relation], names: Sequence[str]) -> None:
        self._text = text
        self._relations = tuple(relations)
        with _connection(self._relations) as connection:
            self.schema: pa.Schema = _named(connection.sql(text).limit(0).to_arrow_table(), names).schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; no batch is empty. Raises the errors of the tables' reads, InvalidRequest for a value that
        the query cannot compute.
        """
        with _connection(self._relations) as connection:
            for batch in connection.sql(self._text).to_arrow_reader(_BATCH_ROWS):
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def read_at_once(text: str, relations: Sequence[Relation], names: Sequence[str]) -> pa.Table:
    """Bind and read a query in one connection, and return all rows. Takes the arguments of DuckdbQuery, and raises as
    it and its `batches` do.
    """
    with _connection(relations) as connection:
        return _named(connection.sql(text).to_arrow_reader(_BATCH_ROWS).read_all(), names)


def _named(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.rename_columns(list(names)) if len(names) == table.num_columns else table


@contextmanager
def _connection(relations: Sequence[Relation]) -> Iterator[Any]:
    """Yield a connection in which the relations are registered. An error of a relation's rows leaves it as it was."""
    duckdb = _duckdb()
    sources = [_Source(relation) for relation in relations]
    try:
        connection = boxed_connection(duckdb)
        try:
            for relation, source in zip(relations, sources, strict=True):
                connection.register(relation.view, source)
            yield connection
        finally:
            connection.close()
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _translated(duckdb, error, sources) from error


def _translated(duckdb: Any, error: Exception, sources: Sequence["_Source"]) -> BaseException:
    for source in sources:
        if source.error is not None:
            return source.error
    message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if _CAST_FAILED in message:
        message = f"Invalid Input Error: {DIVIDED_BY_ZERO}"
    if isinstance(error, duckdb.OutOfMemoryException):
        return StorageFull(f"SQL: {message}. Ask for fewer rows or columns, or run the query on Spark.")
    if isinstance(error, duckdb.NotImplementedException):
        return UnsupportedFeature(f"SQL: {message}.")
    return InvalidRequest(f"SQL: {message.rstrip('.')}.")


class _Source(ArrowRows):
    """The rows of a relation; keeps the error or interruption that ends a read, which DuckDB tells as its own."""

    def __init__(self, relation: Relation) -> None:
        assert relation.rows is not None
        self._rows = relation.rows
        self.error: BaseException | None = None

    def schema(self) -> pa.Schema:
        return self._rows.schema()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows.to_batches()
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, LakehouseError) or not isinstance(error, Exception):
                self.error = error
            raise


def boxed_connection(duckdb: Any) -> Any:
    """Return a connection that reaches nothing outside but what is registered in it."""
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    connection.execute(f"SET temp_directory = '{_temporary_folder()}'")
    for statement in _BOX:
        connection.execute(statement)
    return connection


def _duckdb() -> Any:
    try:
        return import_module("duckdb")
    except ImportError as error:
        raise UnsupportedFeature(
            f"sql() without Spark needs the package duckdb, which cannot be imported ({error}). Install it: pip "
            "install 'paimon-lakehouse[duckdb]'. Or connect with spark=…"
        ) from error


def _temporary_folder() -> str:
    """Return a folder for the spills of one connection. DuckDB creates it at the first spill."""
    return f"{tempfile.gettempdir()}/lakehouse-sql-{os.getpid()}-{next(_NUMBERS)}".replace("'", "''")
