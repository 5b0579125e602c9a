"""Whatever stored bytes become, an answer is the right one or CorruptTable, and no file that is needed is lost.

`python -m tests.search --only damage` takes others of the same cases.
"""

import pytest

from tests.catalog.damaged_tables import (
    SHAPES,
    exchanges,
    faults_of_actions,
    faults_of_answers,
    fresh,
    kind_of,
    random_damage,
    table_of,
)

SEEDS = range(24)


# Of the others a table has one.
EXCHANGEABLE = [
    "avro changelog",
    "avro data",
    "changelog",
    "deletion vectors",
    "file index",
    "hint",
    "index manifest",
    "list",
    "manifest",
    "orc changelog",
    "orc data",
    "parquet changelog",
    "parquet data",
    "schema",
    "snapshot",
    "tag",
]


@pytest.mark.parametrize("how", ["exchanged", "copy"])
@pytest.mark.parametrize("kind", EXCHANGEABLE)
def test_a_whole_file_in_the_place_of_another_is_found_by_who_reads_it(kind: str, how: str) -> None:
    every = (damage for shape in SHAPES for damage in exchanges(shape))
    damage = next(damage for damage in every if damage.kind == kind and how in damage.what)

    assert faults_of_answers(damage) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_file_is_found_by_who_reads_it(seed: int) -> None:
    assert faults_of_answers(random_damage(seed)) == []


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_whoever_works_on_a_damaged_table_loses_nothing(seed: int) -> None:
    assert faults_of_actions(random_damage(seed)) == []


@pytest.mark.parametrize("shape", ["parquet keys", "parquet rows"])
def test_an_expiry_that_meets_an_exchanged_manifest_deletes_nothing(shape: str) -> None:
    damage = next(each for each in exchanges(shape) if each.kind == "manifest")

    assert faults_of_actions(damage) == []


def test_the_tables_have_every_kind_of_file() -> None:
    kinds = {kind_of(key) for shape in SHAPES for key in table_of(shape).objects}

    assert kinds == {*EXCHANGEABLE, "boundary", "pending", "plan"}


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_the_tables_are_sound(shape: str) -> None:
    assert fresh(shape).again().verify(data=True).findings == ()
