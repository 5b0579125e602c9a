"""What a step of a compaction tells, and which files must be rewritten for it.

Source: docs/semantics/changelog.md#upgrades.
"""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.compaction.changelog_steps import with_changelog_steps
from lakehouse_core.planning.compaction.plan import ChangelogMode, CompactionPlan, Merge, Step, Upgrade
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from tests.planning.change_vocabulary import data_file, key_schema

TOP = 5
KEY = [parse_type("INT NOT NULL")]
LOOKUP = {"changelog-producer": "lookup"}
VECTORS = {"deletion-vectors.enabled": "true"}
PARTIAL = {"merge-engine": "partial-update"}
SEQUENCE = {"sequence.field": "v"}


def file(level: int, *, deletes: int | None = 0, low: int = 1) -> DataFile:
    return data_file(f"f{low}", low, low + 3, level=level, delete_row_count=deletes)


def merge(*files: DataFile, changelog_mode: ChangelogMode = ChangelogMode.NOTHING) -> Merge:
    return Merge(sections(keyed_files(files, KEY)), changelog_mode=changelog_mode)


def told(step: Step, *, output_level: int = TOP, **options: str) -> Step:
    """Return what becomes of a plan's one step."""
    plan = CompactionPlan(output_level=output_level, drops_deletes=True, steps=(step,), reason="full compaction")
    (found,) = with_changelog_steps(plan, key_schema(**options), top_level=TOP).steps
    return found


# What becomes of a file of level 0 that shares no key with others. The first case that holds decides.
UPGRADES: list[tuple[dict[str, str], int | None, int, str]] = [
    # Vectors, and the file holds deletes or may: its records go, what they delete is marked.
    (VECTORS, 1, TOP, "merge"),
    (VECTORS, None, TOP, "merge"),
    (VECTORS | LOOKUP, 1, TOP - 1, "merge"),
    (VECTORS | PARTIAL, None, TOP, "merge"),
    # To the top level: what it holds is told, its bytes stay.
    (LOOKUP, 0, TOP, "upgrade, told"),
    (LOOKUP, 1, TOP, "upgrade, told"),
    (LOOKUP | PARTIAL, 0, TOP, "upgrade, told"),
    (LOOKUP | SEQUENCE, 0, TOP, "upgrade, told"),
    (LOOKUP | VECTORS, 0, TOP, "upgrade, told"),
    # Nothing lies above the top level, so there is nothing to mark and nobody to tell.
    (VECTORS, 0, TOP, "upgrade"),
    ({"force-lookup": "true"}, 0, TOP, "upgrade"),
    ({"merge-engine": "first-row"}, 0, TOP, "upgrade"),
    # Below it a record of deduplicate says all of its key; those of others must be merged with what lies above.
    (LOOKUP, 0, TOP - 1, "upgrade, told"),
    (VECTORS, 0, TOP - 1, "upgrade, told"),
    ({"force-lookup": "true"}, 0, TOP - 1, "upgrade"),
    (LOOKUP | SEQUENCE, 0, TOP - 1, "merge"),
    (LOOKUP | PARTIAL, 0, TOP - 1, "merge"),
    (LOOKUP | {"merge-engine": "aggregation"}, 0, TOP - 1, "merge"),
    ({"merge-engine": "first-row"}, 0, TOP - 1, "merge"),
    (VECTORS | SEQUENCE, 0, TOP - 1, "merge"),
]


@pytest.mark.parametrize(("options", "deletes", "output_level", "expected"), UPGRADES)
def test_a_file_that_leaves_level_0_alone_is_told_or_rewritten(
    options: dict[str, str], deletes: int | None, output_level: int, expected: str
) -> None:
    one = file(0, deletes=deletes)
    steps: dict[str, Step] = {
        "merge": merge(one, changelog_mode=ChangelogMode.LOOKUP),
        "upgrade": Upgrade(one),
        "upgrade, told": Upgrade(one, changelog_mode=ChangelogMode.LOOKUP),
    }

    assert told(Upgrade(one), output_level=output_level, **options) == steps[expected]


@pytest.mark.parametrize("options", [LOOKUP, VECTORS, LOOKUP | VECTORS, {"force-lookup": "true"}])
@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ({"low": 4, "numbers": (0, 9)}, "merge"),
        ({"low": 4, "numbers": (10, 19)}, "merge"),
        ({"low": 5, "numbers": (10, 19)}, "upgrade"),
    ],
)
def test_a_file_with_older_numbers_than_those_above_is_merged_with_them(
    options: dict[str, str], above: dict[str, Any], expected: str
) -> None:
    """Where writers crossed their numbers, what lies above may win: a file that is lifted would hide it."""
    one = file(0)
    numbers = dict(zip(("min_sequence_number", "max_sequence_number"), above["numbers"], strict=True))
    older = data_file("above", above["low"], 9, level=TOP, **numbers)
    plan = CompactionPlan(
        output_level=TOP - 1,
        drops_deletes=False,
        steps=(Upgrade(one),),
        reason="full compaction",
        older=tuple(run for section in sections(keyed_files([older], KEY)) for run in section),
    )
    (step,) = with_changelog_steps(plan, key_schema(**options), top_level=TOP).steps

    assert isinstance(step, Merge if expected == "merge" else Upgrade)


@pytest.mark.parametrize("options", [LOOKUP, VECTORS, LOOKUP | PARTIAL, {"merge-engine": "first-row"}])
def test_sections_with_files_of_level_0_look_up_and_others_tell_nothing(options: dict[str, str]) -> None:
    with_news, without = (file(0), file(3)), (file(2), file(3))

    assert told(merge(*with_news), **options) == merge(*with_news, changelog_mode=ChangelogMode.LOOKUP)
    assert told(merge(*without), **options) == merge(*without)
    assert told(Upgrade(file(3, deletes=None)), **options) == Upgrade(file(3, deletes=None))


@pytest.mark.parametrize("step", [merge(file(0), file(5)), merge(file(2), file(3)), Upgrade(file(0)), Upgrade(file(3))])
def test_what_reaches_the_top_level_is_told_where_full_compactions_tell(step: Any) -> None:
    options = {"changelog-producer": "full-compaction"}

    assert told(step, **options).changelog_mode is ChangelogMode.TOP_LEVEL
    assert told(step, output_level=TOP - 1, **options) == step


def test_after_an_overwrite_the_same_is_looked_up_and_nothing_told() -> None:
    plan = CompactionPlan(
        output_level=TOP, drops_deletes=True, steps=(merge(file(0), file(3)), Upgrade(file(0))), reason="run count"
    )
    untold = replace(plan, steps=(merge(file(0), file(3), changelog_mode=ChangelogMode.LOOKUP), Upgrade(file(0))))

    assert with_changelog_steps(plan, key_schema(**LOOKUP), top_level=TOP, emits_changelog=False) == untold
    assert with_changelog_steps(plan, key_schema(**LOOKUP), top_level=TOP).emits_changelog
    for options in ({"force-lookup": "true"}, {"changelog-producer": "full-compaction"}):
        assert not with_changelog_steps(plan, key_schema(**options), top_level=TOP).emits_changelog
    full = key_schema(**{"changelog-producer": "full-compaction"})
    assert with_changelog_steps(plan, full, top_level=TOP, emits_changelog=False) == plan


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "input"}, PARTIAL, SEQUENCE])
def test_a_table_without_lookups_tells_nothing(options: dict[str, str]) -> None:
    for step in (merge(file(0), file(5)), Upgrade(file(0, deletes=None))):
        assert told(step, **options) == step
