"""Answers of SQL: the rows of a query, or what a command did."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse_core.api.reports import Report
from lakehouse_core.calls import checks_calls
from lakehouse_core.display import line, page
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.interchange.arrow_rows import ArrowRows

# Named for the reader: this module must not know Spark.
SparkSession: TypeAlias = Any
DataFrame: TypeAlias = Any


@checks_calls
class Answer(ArrowRows):
    """The answer of `Catalog.sql`: rows, in every form that a scan has.

    The rows of a query are read when they are asked for, each time anew, from the snapshots of the call. A command has
    run, and has a `report` where its verb has one.
    """

    def __init__(
        self,
        statement: str,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.RecordBatch]],
        *,
        frame: DataFrame | None = None,
        reports: Sequence[Report] = (),
    ) -> None:
        self._statement = statement
        self._schema = schema
        self._batches = batches
        self._frame = frame
        self.reports = tuple(reports)

    def __repr__(self) -> str:
        return line("Answer", self._statement, {"columns": self._schema.names, "report": self.report})

    def _repr_html_(self) -> str:
        return page("Answer", self._statement, {"columns": self._schema.names, "report": self.report})

    @property
    def report(self) -> Report | None:
        """The report of a command, the first one where it has several (`reports`); None for a query."""
        return self.reports[0] if self.reports else None

    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self._schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in non-empty batches. Raises the errors of a scan, InvalidRequest for a value that the query
        cannot compute.
        """
        yield from self._batches()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return the rows as a DataFrame. A query of a catalog with a Spark session is not run before Spark runs the
        frame; other answers are small, and need a session here.
        """
        if self._frame is not None:
            return self._frame
        if session is None:
            raise InvalidRequest(
                "This answer was not made on Spark. Pass a session: to_spark(session), or connect with spark=session."
            )
        return session.createDataFrame(self.to_arrow())


def answer_of(statement: str, table: pa.Table, reports: Sequence[Report] = ()) -> Answer:
    """Return an answer whose rows are known."""
    return Answer(statement, table.schema, lambda: (one for one in table.to_batches() if one.num_rows), reports=reports)
