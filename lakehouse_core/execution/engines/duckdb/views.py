"""Relations as views of DuckDB: files that it reads by itself, and the rows of all others as a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakehouse_core.errors import LakehouseError, retell
from lakehouse_core.execution.engines.duckdb.files import NativeRead, file_error, native_read
from lakehouse_core.execution.read.relation import Relation
from lakehouse_core.interchange.arrow_rows import ArrowRows


class RelationView:
    """The view of a relation, by its unique name. `read`: what DuckDB reads by itself, None if that is nothing. Without
    `reads` only the columns are known, and no file is opened.

    Raises CorruptTable, SnapshotExpired.
    """

    def __init__(self, relation: Relation, *, reads: bool) -> None:
        self.name = relation.view
        self._relation = relation
        self.read: NativeRead | None = None
        rows: ArrowRows | None = relation.rows
        if reads and relation.native is not None:
            with self._naming():
                self.read = native_read(relation.native.plan, relation.native.table)
        if self.read is not None and relation.native is not None:
            rows = None if self.read.rest is None else relation.native.rows(self.read.rest)
        self._source = None if rows is None else _Source(rows)

    def registered(self, connection: Any) -> str | None:
        """Register the stream in a connection, under the name of the relation if it gives all rows. Return the query of
        the rows otherwise, to be named in the text of each query: DuckDB would open the files for a view as well.
        """
        if self.read is None:
            connection.register(self.name, self._source)
            return None
        if self._source is None:
            return self.read.text
        connection.register(f"{self.name}_stream", self._source)
        return f"{self.read.text} UNION ALL SELECT * FROM {self.name}_stream"

    def error(self, error: Exception) -> BaseException | None:
        """Return the error or interruption of the relation's rows that DuckDB tells as its own, None if they have
        none.
        """
        if self._source is not None and self._source.error is not None:
            return self._source.error
        native = self._relation.native
        if self.read is None or native is None:
            return None
        found = file_error(str(error), self.read, native.plan, native.table)
        return None if found is None else self._named(found)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Add the table's name to errors of its files."""
        try:
            yield
        except LakehouseError as error:
            raise self._named(error) from error.__cause__

    def _named(self, error: LakehouseError) -> LakehouseError:
        if self._relation.title not in str(error):
            retell(error, lambda told: f"{self._relation.title}: {told}")
        return error


class _Source(ArrowRows):
    """The rows of a relation; keeps the error or interruption that ends a read, which DuckDB tells as its own."""

    def __init__(self, rows: ArrowRows | None) -> None:
        assert rows is not None
        self._rows = rows
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
