"""Keys that move between partitions, on Spark: both engines find where the other put a key."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.differential.spark import MOVING, moving_keys, run_moving_keys
from tests.execution.write.moving_keys import ENGINES, rows_of, table_of

pytestmark = pytest.mark.spark

OTHERS = [engine for engine in ENGINES if engine != "deduplicate"]


@pytest.mark.parametrize("engine", ["deduplicate", *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)])
@pytest.mark.parametrize("assigners", [None, pytest.param("3", marks=pytest.mark.long)])
def test_both_engines_write_one_table_in_turn(spark: Any, tmp_path: Path, engine: str, assigners: str | None) -> None:
    options = {} if assigners is None else {"dynamic_bucket__initial_buckets": assigners}
    table = table_of(lc.connect(str(tmp_path), spark=spark), engine, **options)

    def rows(first: int, end: int, partitions: int, a: int) -> Any:
        columns = ("cast(id as int) as k", f"cast(id % {partitions} as string) as p", f"cast({a} as bigint) as a")
        return spark.range(first, end).selectExpr(*columns, "'s' as b").repartition(3)

    table.write(rows(0, 100, 2, 1))
    table.write(rows(50, 150, 3, 2).toArrow())
    table.write(rows(120, 200, 4, 4))

    moves, adds = engine == "deduplicate", engine == "aggregation"
    wanted = []
    for key in range(200):
        seen = [(2, 1)] * (key < 100) + [(3, 2)] * (50 <= key < 150) + [(4, 4)] * (key >= 120)
        parts, a = seen[-1] if moves else seen[0]
        if adds or engine == "partial-update":
            a = sum(each for _, each in seen) if adds else seen[-1][1]
        wanted.append((key, str(key % parts), a, "s"))
    table.compact()
    assert rows_of(table) == wanted
    assert table.verify(data=True).findings == ()


@pytest.mark.long
def test_a_history_on_spark_is_that_in_process(spark: Any, tmp_path: Path) -> None:
    history = moving_keys(spark, tmp_path, "deduplicate", 7)
    verbs = [history.write, history.overwrite_partition, history.overlapping, history.behind, history.together]
    for verb in [*verbs, history.replace_partition, history.replace, history.rescale]:
        verb()
        history.check()
    assert history.table.verify(data=True).findings == ()


@pytest.mark.parametrize(
    ("kind", "seed", "steps"),
    [(0, 0, 4), *(pytest.param(kind, seed, 12, marks=pytest.mark.long) for kind in range(5) for seed in range(1, 5))],
)
def test_a_random_history_on_spark_has_the_rows_of_the_model(
    spark: Any, tmp_path: Path, kind: int, seed: int, steps: int
) -> None:
    engine, options = MOVING[kind]
    run_moving_keys(spark, tmp_path, engine, seed, steps=steps, **options)
