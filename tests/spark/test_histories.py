"""Random histories whose tasks run on Spark: the model shows the same rows, files and changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.types import spark_schema
from lakehouse_core.format.data_types import field_from_arrow
from tests.differential.compare import against_model, failure
from tests.differential.executors import Ours
from tests.differential.generate import histories

pytestmark = pytest.mark.spark

HISTORIES = 2


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.long) for share in range(1, 6))])
def test_histories_on_spark_show_what_the_model_shows(spark: Any, share: int) -> None:
    def frame(rows: pa.Table) -> Any:
        # The model knows in which order the rows come: of several partitions only the tasks would.
        schema = spark_schema(map(field_from_arrow, rows.schema))
        return spark.createDataFrame(rows, schema).coalesce(1)

    ours = Ours(lambda warehouse: lc.connect(warehouse, spark=spark), given=frame)

    for seed, history in histories(7_000_000 + share * 100_000, HISTORIES):
        found = failure("ours on Spark", lambda history: against_model(ours, history), seed, history)

        assert found is None, found
