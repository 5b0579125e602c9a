"""Queries on Spark: the user's own text, in which frames are in the places of tables.

PySpark binds the frames under names that no session has: by temporary views that it drops once the text is analysed,
over Spark Connect as parts of the plan, which is analysed in each run. Rule: values of parameters never become text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    QueryContextType,
    SparkRuntimeException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.engines.spark.failures import translated
from lakehouse_core.execution.engines.spark.scan.frame import read_frame
from lakehouse_core.execution.engines.spark.scan.native import native_tasks
from lakehouse_core.execution.engines.spark.sql.answers import answer_schema, collected
from lakehouse_core.execution.engines.spark.sql.stored import assigned_frame
from lakehouse_core.execution.read.relation import DistinctRows, Relation
from lakehouse_core.execution.read.scan import read_tasks
from lakehouse_core.format.data_types import DataField
from lakehouse_core.table.predicate import columns_of

R = TypeVar("R")

_MOST_SHOWN: Final = 100
_VIEW: Final = re.compile(r"\b_pyspark_\w+|\blakehouse_sql_")
_PLACE: Final = re.compile(r"; line \d+ pos \d+;?(?=\n|$)")
_STATE: Final = re.compile(r"SQLSTATE: \w{5}")
# Under the error of a job: Spark has two or three.
_MOST_CAUSES: Final = 10
_SEVERAL_ROWS: Final = "[SCALAR_SUBQUERY_TOO_MANY_ROWS]"

# What the query itself does wrong.
_OF_QUERIES = (
    AnalysisException,
    ParseException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
)


class SparkQuery:
    """A query that Spark has analysed; `frame` gives its rows. Raises InvalidRequest for a text that Spark refuses."""

    reader: Final = "Spark"

    def __init__(
        self, session: SparkSession, text: str, relations: Sequence[Relation], parameters: Mapping[str, Any]
    ) -> None:
        self._session = session
        arguments = {key: _value(one) for key, one in parameters.items()}
        frames = {relation.view: _frame(session, relation) for relation in relations}
        template = _template(text, frames) if frames else text
        self.frame: DataFrame = _asked(session, lambda: session.sql(template, arguments, **frames))
        self.schema: pa.Schema = _asked(session, lambda: answer_schema(self.frame.schema))

    def assign(self, stored: Mapping[str, DataField]) -> None:
        """Give the columns of these names the values that Spark stores in the fields."""
        if stored:
            self.frame = _asked(self._session, lambda: assigned_frame(self.frame, stored))
            self.schema = _asked(self._session, lambda: answer_schema(self.frame.schema))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, which Spark collects in this process; no batch is empty."""
        table = _asked(self._session, lambda: collected(self.frame))
        for batch in table.to_batches():
            if batch.num_rows:
                yield batch

    def distinct(self, most: int) -> DistinctRows:
        """Return the different values of the only column. What is more than `most` stays where Spark has computed it,
        until it is closed.
        """
        kept = _asked(self._session, lambda: self.frame.toDF("value").distinct().persist())
        try:
            few = _asked(self._session, lambda: collected(kept.limit(most + 1)))
        except BaseException:
            kept.unpersist()
            raise
        if few.num_rows > most:
            return DistinctRows(kept, None, kept.unpersist)
        kept.unpersist()
        return DistinctRows(few, few)

    def native_count(self, relation: Relation) -> int:
        """Return how many splits of a table Spark's own reader reads."""
        plan = relation.plan
        if plan is None:
            return 0
        asked = columns_of(plan.predicate) if plan.predicate is not None else frozenset()
        names = [*plan.columns, *sorted(asked.difference(plan.columns))]
        return len(native_tasks(self._session, read_tasks(plan), [plan.schema.field(name) for name in names]))


def _asked(session: SparkSession, run: Callable[[], R]) -> R:
    """Run a part of a query. Raises InvalidRequest for what the query does wrong, else as `translated` does."""
    with translated(session, "SQL"):
        try:
            return run()
        except (*_OF_QUERIES, Py4JJavaError) as error:
            if (found := query_error(error)) is None:
                raise
            raise found from error


def query_error(cause: BaseException | None) -> InvalidRequest | None:
    """Return the error for what a query itself does wrong, in whichever job Spark has computed it; None for others."""
    if isinstance(cause, Py4JJavaError):
        inner = _of_inner_query(cause)
        return None if inner is None else InvalidRequest(f"SQL: {_words(inner)}")
    if not isinstance(cause, _OF_QUERIES) or "lakehouse-task-error" in str(cause):
        return None
    part = _part(cause)
    return InvalidRequest(f"SQL: {'' if part is None else f'in {part}: '}{_words(str(cause))}")


def _of_inner_query(error: Py4JJavaError) -> str | None:
    """Return what Spark says of a query inside the query, which it runs first; None if another job failed.

    Spark waits for such a query, and the error of the wait, which PySpark does not know, has the cause under it.
    """
    cause = error.java_exception
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return None
        text = str(cause.getMessage())
        if text.startswith(_SEVERAL_ROWS):
            return text
        cause = cause.getCause()
    return None


def _part(error: PySparkException) -> str | None:
    """Return the part of the query that Spark says is wrong, None for all of it and for what is too long to tell."""
    for context in error.getQueryContext() or ():
        found = str(context.fragment()) if context.contextType() is QueryContextType.SQL else ""
        if found and len(found) <= _MOST_SHOWN and not _VIEW.search(found):
            return found
    return None


def _template(text: str, views: Iterable[str]) -> str:
    """Return the text with a field of `str.format` in the place of each view. Nothing else in it has such a name."""
    escaped = text.replace("{", "{{").replace("}", "}}")
    return re.sub(rf"\b({'|'.join(views)})\b", r"{\1}", escaped)


def _frame(session: SparkSession, relation: Relation) -> DataFrame:
    if relation.frame is not None:
        return relation.frame
    if relation.plan is not None:
        return read_frame(session, relation.plan)
    rows: Any = relation.rows
    if hasattr(rows, "to_spark"):
        frame: DataFrame = rows.to_spark(session)
        return frame
    return session.createDataFrame(rows.to_arrow())


def _value(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        # Spark would take it for a time of this machine's zone.
        return F.expr(f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'")
    return bytearray(value) if isinstance(value, bytes) else value


def _words(text: str) -> str:
    """Return what Spark says, without the plan or the stack behind it, and without a place in the text that it got."""
    text = text.strip()
    said = _STATE.search(text)
    words = text[: said.end()] if said is not None else _PLACE.sub("", text).splitlines()[0] if text else ""
    return " ".join(words.splitlines()).rstrip(".") + "." if words else "Spark refuses the query."
