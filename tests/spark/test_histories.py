"""Random histories whose tasks run on Spark, of fixed, dynamic and postponed buckets: the model shows the same rows,
files and changes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.types import spark_schema
from lakehouse_core.format.data_types import field_from_arrow
from tests.differential.compare import against_model, failure
from tests.differential.executors import Ours
from tests.differential.generate import histories, with_dynamic_buckets, with_postponed_buckets
from tests.pairs import in_turn

pytestmark = pytest.mark.spark

KINDS = {"fixed": lambda _, history: history, "dynamic": with_dynamic_buckets, "postponed": with_postponed_buckets}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", in_turn(17, range(17)))
def test_histories_on_spark_show_what_the_model_shows(spark: Any, share: int, kind: str) -> None:
    def frame(rows: pa.Table) -> Any:
        # The model knows in which order the rows come: of several partitions only the tasks would.
        schema = spark_schema(map(field_from_arrow, rows.schema))
        return spark.createDataFrame(rows, schema).coalesce(1)

    ours = Ours(lambda warehouse: lc.connect(warehouse, spark=spark), given=frame)

    ((seed, plain),) = histories(7_000_000 + share * 100_000, 1)
    history = KINDS[kind](seed, plain)
    found = failure(f"ours on Spark, {kind}", lambda history: against_model(ours, history), seed, history)

    assert found is None, found
