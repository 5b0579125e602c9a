"""Whatever stored bytes become, an answer is the right one or CorruptTable, and no file that is needed is lost.

`python -m tests.search --only damage` takes others of the same cases.
"""

import pytest

from tests.api.damaged_tables import (
    SHAPES,
    Damage,
    exchanges,
    faults_of_actions,
    faults_of_answers,
    fresh,
    is_seen,
    kind_of,
    random_damage,
    table_of,
)
from tests.damage import flipped, some_flips
from tests.pairs import in_turn

SEEDS = range(12)


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


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "how"), in_turn(3, [*((kind, "exchanged") for kind in EXCHANGEABLE), ("tag", "copy")])
)
def test_a_whole_file_in_the_place_of_another_is_found_by_who_reads_it(kind: str, how: str) -> None:
    every = (damage for shape in SHAPES for damage in exchanges(shape))
    damage = next(damage for damage in every if damage.kind == kind and how in damage.what)

    assert faults_of_answers(damage) == []


# Hints, and what a wrong one of them would hide, are found by whoever needs them.
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", in_turn(3, [kind for kind in EXCHANGEABLE if kind != "hint"]))
def test_verify_finds_whole_files_in_the_place_of_others(kind: str) -> None:
    every = (damage for shape in SHAPES for damage in exchanges(shape))

    assert is_seen(next(damage for damage in every if damage.kind == kind))


@pytest.mark.parametrize("shape", ["parquet keys", "orc rows"])
def test_verify_finds_every_flipped_bit_of_an_index_file(shape: str) -> None:
    objects = table_of(shape).objects
    live = next(iter(fresh(shape).again().files()))
    key = f"bucket-0/{live.file_name}.index"
    flips = some_flips(objects[key], seed=3, count=8)

    for flip, data in zip(flips, flipped(objects[key], flips), strict=True):
        assert is_seen(Damage(shape, "file index", f"{key}, {flip}", {key: data})), flip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", in_turn(3, SEEDS))
def test_a_damaged_file_is_found_by_who_reads_it(seed: int) -> None:
    assert faults_of_answers(random_damage(seed)) == []


@pytest.mark.parametrize("seed", SEEDS[::6])
def test_whoever_works_on_a_damaged_table_loses_nothing(seed: int) -> None:
    assert faults_of_actions(random_damage(seed)) == []


@pytest.mark.parametrize("shape", ["parquet keys", "parquet rows"])
def test_an_expiry_that_meets_an_exchanged_manifest_deletes_nothing(shape: str) -> None:
    damage = next(each for each in exchanges(shape) if each.kind == "manifest")

    assert faults_of_actions(damage) == []


def test_a_tag_whose_file_is_a_copy_of_another_ones_is_found_before_that_one_goes() -> None:
    damage = next(each for each in exchanges("parquet keys") if each.what.endswith("tag-two is a copy of tag/tag-one"))

    assert faults_of_actions(damage) == []


def test_the_tables_have_every_kind_of_file() -> None:
    kinds = {kind_of(key) for shape in SHAPES for key in table_of(shape).objects}

    assert kinds == {*EXCHANGEABLE, "boundary", "pending", "plan"}


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_the_tables_are_sound(shape: str) -> None:
    assert fresh(shape).again().verify(data=True).findings == ()
