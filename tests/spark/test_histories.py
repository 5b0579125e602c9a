"""Random histories whose tasks run on Spark, of fixed, dynamic and postponed buckets: the model shows the same rows,
files and changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.compare import against_model, failure
from tests.differential.generate import histories, with_dynamic_buckets, with_postponed_buckets
from tests.differential.spark import STATED, OnSpark
from tests.pairs import each_with_one, in_turn

pytestmark = pytest.mark.spark

KINDS = {"fixed": lambda _, history: history, "dynamic": with_dynamic_buckets, "postponed": with_postponed_buckets}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", in_turn(17, range(17)))
def test_histories_on_spark_show_what_the_model_shows(spark: Any, share: int, kind: str) -> None:
    ours = OnSpark(spark)

    ((seed, plain),) = histories(7_000_000 + share * 100_000, 1)
    history = KINDS[kind](seed, plain)
    found = failure(f"ours on Spark, {kind}", lambda history: against_model(ours, history), seed, history)

    assert found is None, found


@pytest.mark.parametrize(("share", "kind"), each_with_one(range(12), [*STATED], step=12))
def test_statements_on_spark_leave_what_the_model_says(spark: Any, share: int, kind: str) -> None:
    """Overwrites, removals, rescales and row changes, in tables of all kinds of buckets."""
    ours = OnSpark(spark)

    ((seed, plain),) = histories(7_000_050 + share * 100_000, 1)
    name = f"ours on Spark, {kind}"
    found = failure(name, lambda history: against_model(ours, history), seed, STATED[kind](seed, plain))

    assert found is None, found
