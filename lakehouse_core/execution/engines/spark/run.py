"""Tasks on Spark: one Spark task per input, which reads and writes files itself; no row crosses into the JVM."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession

from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.engines.spark.failures import failed_attempt, from_text, may_pass, to_text, translated
from lakehouse_core.execution.engines.spark.runtime import begin_task, worker_runtime
from lakehouse_core.tasks.runtime import TaskRuntime

T = TypeVar("T")

# Each row is a result, or an error that another attempt would repeat.
ANSWER_SCHEMA: Final = "result string, error string"
_ANSWER_ARROW: Final = pa.schema([("result", pa.string()), ("error", pa.string())])


def run_tasks(session: SparkSession, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
    """Yield the result of one successful attempt of `task(input, runtime)` per input, in order of the inputs.

    Tasks start in order, so put the largest first. All tasks have ended before the first result is yielded. If tasks
    fail with a LakehouseError, raises the error of the first such input after all results; else TaskFailed before any
    result.
    """
    if not inputs:
        return
    count = len(inputs)
    # A task unpickles all that its function holds, so each input is pickled to bytes first and a task unpickles its own
    # only. Otherwise a thousand tasks would unpickle a million inputs.
    packed = [CPickleSerializer().dumps(value) for value in inputs]

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield answer(partial(_one_result, task, packed[index]))

    job = f"{count} times {getattr(task, '__name__', 'a task')} on Spark"
    with translated(session, job):
        yield from results(session.range(0, count, 1, count).mapInArrow(answers, ANSWER_SCHEMA))


def _one_result(task: Callable[[T, TaskRuntime], str], packed: bytes) -> list[str]:
    return [task(CPickleSerializer().loads(packed), worker_runtime())]


def answer(make: Callable[[], Sequence[str]]) -> pa.RecordBatch:
    """Return, in a task, the results of `make` as rows for the driver, or its error."""
    begin_task()
    try:
        texts: Sequence[str | None] = make()
        failures: Sequence[str | None] = [None] * len(texts)
    except LakehouseError as error:
        if may_pass(error):
            raise failed_attempt(error) from error
        texts, failures = [None], [to_text(error)]
    return pa.RecordBatch.from_arrays(
        [pa.array(texts, pa.string()), pa.array(failures, pa.string())], schema=_ANSWER_ARROW
    )


def results(answers: DataFrame) -> Iterator[str]:
    """Run the job now; yield its results, then raise the first error among them. The caller may have to delete what the
    results name.
    """
    return _told(answers.collect())


def _told(rows: Sequence[Any]) -> Iterator[str]:
    for row in rows:
        if row.error is None:
            yield row.result
    for row in rows:
        if row.error is not None:
            raise from_text(row.error)
