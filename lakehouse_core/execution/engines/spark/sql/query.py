"""Queries on Spark: the user's own text, in which frames are in the places of tables.

PySpark binds the frames under names that no session has: by temporary views that it drops once the text is analysed,
over Spark Connect as parts of the plan, which is analysed in each run. Rule: values of parameters never become text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from inspect import signature
from operator import or_
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import NumericType

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.engines.spark.failures import task_error, translated
from lakehouse_core.execution.engines.spark.scan.frame import read_frame
from lakehouse_core.execution.engines.spark.scan.native import native_tasks
from lakehouse_core.execution.engines.spark.types import spark_type
from lakehouse_core.execution.read.scan import read_tasks
from lakehouse_core.execution.sql.relation import Relation
from lakehouse_core.format.data_types import (
    MAX_LENGTH,
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    in_backquotes,
)
from lakehouse_core.table.predicate import columns_of
from lakehouse_core.tasks.change_rows.assigned import has_limit, is_floating, is_text, length_limit, too_long

R = TypeVar("R")

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

# PySpark 4.1 has instants in UTC; newer versions have to be told.
_IN_UTC: Final = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


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
        self.schema: pa.Schema = _asked(session, lambda: to_arrow_schema(self.frame.schema, **_IN_UTC))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, which Spark collects in this process; no batch is empty."""
        table = _asked(self._session, self.frame.toArrow)
        for batch in table.cast(self.schema).to_batches():
            if batch.num_rows:
                yield batch

    def native_count(self, relation: Relation) -> int:
        """Return how many splits of a table Spark's own reader reads."""
        plan = relation.plan
        if plan is None:
            return 0
        asked = columns_of(plan.predicate) if plan.predicate is not None else frozenset()
        names = [*plan.columns, *sorted(asked.difference(plan.columns))]
        return len(native_tasks(self._session, read_tasks(plan), [plan.schema.field(name) for name in names]))


def named_frame(frame: DataFrame, fields: Sequence[DataField], constants: Mapping[DataField, Any]) -> DataFrame:
    """Return the rows as they are stored under the names of the fields, with constant columns behind them."""
    named = frame.toDF(*(field.name for field in fields))
    columns = [
        _assigned(named[in_backquotes(field.name)], stored.dataType, field).alias(field.name)
        for field, stored in zip(fields, named.schema, strict=True)
    ]
    for field, value in constants.items():
        constant = F.lit(value).cast(spark_type(field.type))
        columns.append(_assigned(constant, spark_type(field.type), field).alias(field.name))
    return named.select(*columns)


def _assigned(column: Column, given: SparkType, field: DataField) -> Column:
    """Return values of a query as those of a column, as `tasks/change_rows/assigned` does in this process."""
    if is_floating(field.type):
        return column.cast(spark_type(field.type)) if isinstance(given, NumericType) else column
    # The text of a type does not say what may be null.
    if not has_limit(field.type) or given.simpleString() != spark_type(field.type).simpleString():
        return column
    refused = F.raise_error(F.lit(task_error(too_long(field)))).cast(given)
    is_long, limit = _is_long(column, field.type), length_limit(field.type)
    if limit is None or not is_text(field.type):
        return F.when(F.coalesce(is_long, F.lit(False)), refused).otherwise(column)
    behind = F.rtrim(F.substring(column, limit + 1, MAX_LENGTH))
    cut = F.when(behind == "", F.substring(column, 1, limit)).otherwise(refused)
    return F.when(F.coalesce(is_long, F.lit(False)), cut).otherwise(column)


def _is_long(column: Column, data_type: DataType) -> Column:
    """Return whether a value, or a part of one, is longer than its type says; null for a null."""
    limit = length_limit(data_type)
    if limit is not None:
        return F.length(column) > limit
    match data_type:
        case ArrayType(element) if has_limit(element):
            return F.exists(column, lambda one: F.coalesce(_is_long(one, element), F.lit(False)))
        case MapType(key, value):
            return _is_long(F.map_keys(column), ArrayType(key)) | _is_long(F.map_values(column), ArrayType(value))
        case RowType(fields):
            parts = [F.coalesce(_is_long(column[field.name], field.type), F.lit(False)) for field in fields]
            return reduce(or_, parts, F.lit(False))
    return F.lit(False)


def _asked(session: SparkSession, run: Callable[[], R]) -> R:
    """Run a part of a query. Raises InvalidRequest for what the query does wrong, else as `translated` does."""
    with translated(session, "SQL"):
        try:
            return run()
        except _OF_QUERIES as error:
            if "lakehouse-task-error" in str(error):
                raise
            raise InvalidRequest(f"SQL: {_first_line(error)}") from error


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


def _first_line(error: PySparkException) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") + "." if text else "Spark refuses the query."
