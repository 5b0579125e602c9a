"""Queries in this process, by DuckDB in a box: it reaches no file, no variable of Python, no extension, no setting.

Rule: each read of an answer has a connection of its own. Source: docs/sql.md#without-spark.
"""

import atexit
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, StorageFull, UnsupportedFeature
from lakehouse_core.execution.engines.duckdb.box import box_cursor, never_freed
from lakehouse_core.execution.engines.duckdb.files import native_count
from lakehouse_core.execution.engines.duckdb.messages import in_own_words
from lakehouse_core.execution.engines.duckdb.views import RelationView
from lakehouse_core.execution.read.relation import DistinctRows, Relation

_BATCH_ROWS: Final = 65_536
# Of so many values that are held, or twice as many as there were, each is kept once.
_HELD_ROWS: Final = 1 << 20
_MOST_HELD_BYTES: Final = 256 << 20
_half_read: Final[WeakSet[Generator[pa.RecordBatch]]] = WeakSet()


class DuckdbQuery:
    """A query that DuckDB can carry out. `text` names the relations by their views; `names`: of its columns, None: as
    they come; `schema`: of its rows, None: it is bound once to find that out.

    Raises UnsupportedFeature without DuckDB, InvalidRequest for a query that DuckDB refuses.
    """

    reader: Final = "DuckDB"

    def __init__(
        self, text: str, relations: Sequence[Relation], names: Sequence[str], schema: pa.Schema | None = None
    ) -> None:
        self._text = text
        self._relations = tuple(relations)
        if schema is None:
            with _bound(text, self._relations, reads=False) as bound:
                schema = _named(bound.limit(0).to_arrow_table(), names).schema
        self.schema: pa.Schema = schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; no batch is empty. Raises the errors of the tables' reads, InvalidRequest for a value that
        the query cannot compute, or if a forked process reads on.
        """
        found = self._batches()
        _half_read.add(found)
        return found

    def _batches(self) -> Generator[pa.RecordBatch]:
        process = os.getpid()
        with _bound(self._text, self._relations, reads=True) as bound:
            reader = bound.to_arrow_reader(_BATCH_ROWS)
            del bound
            try:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
                    if os.getpid() != process:
                        raise InvalidRequest(
                            "SQL: the process was forked while this answer was read, and only the first process can "
                            "read on. Run the query again in this one."
                        )
            finally:
                if os.getpid() != process:
                    never_freed(reader)

    def distinct(self, most: int) -> DistinctRows | None:
        """Return the different values of the only column, which are read once; None if they take more than 256 MB.
        Raises as `batches`.
        """
        found, rows, held, enough = [pa.array([], self.schema.field(0).type)], 0, 0, _HELD_ROWS
        for batch in self.batches():
            found.append(batch.column(0))
            rows += batch.num_rows
            held += batch.nbytes
            if rows > enough or held > _MOST_HELD_BYTES:
                found = [pc.unique(pa.chunked_array(found))]
                rows, held = len(found[0]), found[0].nbytes
                if held > _MOST_HELD_BYTES:
                    return None
                enough = max(_HELD_ROWS, 2 * rows)
        values = pa.table({"value": pc.unique(pa.chunked_array(found))})
        return DistinctRows(values, values if values.num_rows <= most else None)

    def native_count(self, relation: Relation) -> int:
        """Return how many splits of a relation DuckDB reads by itself. Raises CorruptTable, SnapshotExpired."""
        native = relation.native
        return 0 if native is None else native_count(native.plan, native.table)


@atexit.register
def _close_half_read() -> None:
    """Close the answers that are not read to their end: the objects of DuckDB would outlive its module."""
    for batches in list(_half_read):
        # A thread that still reads keeps its own.
        with suppress(ValueError):
            batches.close()


os.register_at_fork(after_in_child=_half_read.clear)


def read_at_once(text: str, relations: Sequence[Relation], names: Sequence[str]) -> pa.Table:
    """Bind and read a query in one connection, and return all rows. Takes the arguments of DuckdbQuery, and raises as
    it and its `batches` do.
    """
    with _bound(text, relations, reads=True) as bound:
        return _named(bound.to_arrow_reader(_BATCH_ROWS).read_all(), names)


def _named(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.rename_columns(list(names)) if len(names) == table.num_columns else table


@contextmanager
def _bound(text: str, relations: Sequence[Relation], *, reads: bool) -> Iterator[Any]:
    """Yield the query, bound in a connection that has the relations. An error of a relation's rows leaves it as it was.

    `reads`: files are opened; without it only the columns are known.
    """
    duckdb = _duckdb()
    views = [RelationView(relation, reads=reads) for relation in relations]
    try:
        with box_cursor(duckdb, {view.read.folder for view in views if view.read is not None}) as connection:
            found = ((view.name, view.registered(connection)) for view in views)
            queries = {name: query for name, query in found if query is not None}
            if text.startswith("("):
                # DuckDB forgets the WITH inside the parentheses when there is one before them.
                for name, query in queries.items():
                    connection.execute(f"CREATE TEMP VIEW {name} AS {query}")
                queries = {}
            yield connection.sql(_with_queries(text, queries))
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _translated(duckdb, error, views) from error


def _with_queries(text: str, queries: Mapping[str, str]) -> str:
    """Return the text with queries under names that it has no other use for."""
    if not queries:
        return text
    named = ", ".join(f"{name} AS NOT MATERIALIZED ({query})" for name, query in queries.items())
    return f"WITH {named}, {text.removeprefix('WITH ')}" if text.startswith("WITH ") else f"WITH {named} {text}"


def _translated(duckdb: Any, error: Exception, views: Sequence[RelationView]) -> BaseException:
    for view in views:
        if (found := view.error(error)) is not None:
            return found
    message = in_own_words(str(error).strip() or type(error).__name__)
    if isinstance(error, duckdb.OutOfMemoryException):
        return StorageFull(f"SQL: {message}. Ask for fewer rows or columns, or run the query on Spark.")
    if isinstance(error, duckdb.NotImplementedException):
        return UnsupportedFeature(f"SQL: {message}.")
    return InvalidRequest(f"SQL: {message}.")


def _duckdb() -> Any:
    try:
        return import_module("duckdb")
    except ImportError as error:
        raise UnsupportedFeature(
            f"sql() without Spark needs the package duckdb, which cannot be imported ({error}). Install it: pip "
            "install 'paimon-lakehouse[duckdb]'. Or connect with spark=…"
        ) from error
