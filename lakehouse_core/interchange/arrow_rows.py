"""Arrow rows: rows that are read on demand, for every program that speaks Arrow: pyarrow, pandas, polars, DuckDB.

Rule: each requested stream reads anew, so one object can be read many times. Source: the Arrow PyCapsule interface.
"""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse_core.calls import checks_calls
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.interchange.pandas_frames import to_pandas

# For type annotations only: none of these packages is imported before a conversion needs it.
PandasFrame: TypeAlias = Any
PolarsFrame: TypeAlias = Any
DuckConnection: TypeAlias = Any
DuckRelation: TypeAlias = Any


@checks_calls
class ArrowRows:
    """The conversions of all objects that hold rows. A subclass provides `schema` and `to_batches`."""

    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        raise NotImplementedError

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """Return all rows as a table."""
        return pa.Table.from_batches(self.to_batches(), schema=self.schema())

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader that makes each batch on demand, so that memory stays bounded.

        The reader closes its files after the last row, or when no reference to it is left. Reading a batch raises the
        errors of `to_batches`.
        """
        return pa.RecordBatchReader.from_batches(self.schema(), self.to_batches())

    def to_pandas(self) -> PandasFrame:
        """Return all rows as a pandas frame. Needs the package pandas.

        Integer columns with nulls have pandas' nullable types, because floating point would round them. Lists, maps and
        rows are Python objects. Raises InvalidRequest for values that pandas cannot hold.
        """
        pandas = extra("pandas", "to_pandas()")
        return to_pandas(self.to_arrow(), pandas)

    def to_polars(self) -> PolarsFrame:
        """Return all rows as a polars frame.

        Needs the package polars. Raises InvalidRequest for types that polars lacks.
        """
        polars = extra("polars", "to_polars()")
        table = self.to_arrow()
        try:
            return polars.from_arrow(table)
        except (polars.exceptions.PolarsError, pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidRequest(f"polars cannot hold these rows: {shown(error)}. Use to_arrow().") from error

    def to_duckdb(self, connection: DuckConnection | None = None) -> DuckRelation:
        """Return a DuckDB relation of the rows, in `connection` or in a new one. Needs the package duckdb.

        Each query over it reads the rows anew, batch by batch, in DuckDB's threads. An error of the read then comes as
        a DuckDB error with the same message. Raises InvalidRequest.
        """
        duckdb = extra("duckdb", "to_duckdb()")
        if connection is None:
            connection = duckdb.connect()
        elif not isinstance(connection, duckdb.DuckDBPyConnection):
            raise InvalidRequest(
                f"to_duckdb({shown(connection)}): expected a connection. Pass what duckdb.connect() returns."
            )
        # The schema is read here, so that a refused read raises an error of the core.
        self.schema()
        try:
            return connection.from_arrow(self)
        except duckdb.Error as error:
            raise InvalidRequest(f"DuckDB cannot read these rows in {shown(connection)}: {error}") from error

    def __arrow_c_schema__(self) -> object:
        return self.schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        try:
            return self.to_reader().__arrow_c_stream__(requested_schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidRequest(f"The rows do not fit the requested schema: {error}") from error


class RowsInMemory(ArrowRows):
    """The rows of an Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def schema(self) -> pa.Schema:
        schema: pa.Schema = self._table.schema
        return schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches()


def extra(package: str, what: str) -> ModuleType:
    """Import and return an optional package. Raises InvalidRequest with the install command."""
    try:
        return import_module(package)
    except ImportError as error:
        raise InvalidRequest(
            f"{what} needs the package {package}, which cannot be imported ({error}). Install it: pip install "
            f"'paimon-lakehouse[{package}]'."
        ) from error
