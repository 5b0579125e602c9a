"""Which manifests are merged. Sizes are in kilobytes; a minus sign marks a manifest that deletes files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.planning.commit.manifest_merge import (
    Deletions,
    combined,
    entries_per_manifest,
    manifests_to_rewrite,
    minor_groups,
    plan_full,
    replace_inputs,
)
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.stats import decode_stats
from tests.planning.change_vocabulary import STRING, add, data_file, delete, manifest, partition

KB = 1024
TARGET = 8192 * KB


def of_sizes(text: str) -> list[ManifestFile]:
    """Return manifests named by their places: `100x3` is three of 100 KB, `5000-` one of 5000 KB with deletes."""
    sizes = [word.partition("x")[::2] for word in text.split()]
    words = [size for size, times in sizes for _ in range(int(times or 1))]
    return [
        manifest(f"m{place}", int(word.rstrip("-")) * KB, deleted=int(word.endswith("-")))
        for place, word in enumerate(words)
    ]


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ("", []),
        # The example of the specification: a full one is kept, 29 small ones are too few, the 30th makes them one.
        ("8192 100x29", [1, *[1] * 29]),
        ("8192 100x30", [1, 30]),
        # A group ends when it reaches the target.
        ("4096 4096 100", [2, 1]),
        ("100x100", [82, *[1] * 18]),
        ("100 9000 100", [2, 1]),
        ("9000 9000", [1, 1]),
    ],
)
def test_small_manifests_are_merged_up_to_the_target_and_the_rest_when_they_are_many(
    sizes: str, groups: list[int]
) -> None:
    found = minor_groups(of_sizes(sizes), target_bytes=TARGET, min_count=30)

    assert [len(group) for group in found] == groups
    assert [one for group in found for one in group] == of_sizes(sizes)


@given(st.lists(st.integers(1, 20_000), max_size=60), st.integers(1, 40))
def test_a_minor_merge_keeps_the_order_and_leaves_few_small_ones(sizes: list[int], min_count: int) -> None:
    manifests = [manifest(f"m{place}", size * KB) for place, size in enumerate(sizes)]
    groups = minor_groups(manifests, target_bytes=TARGET, min_count=min_count)

    assert [one for group in groups for one in group] == manifests
    small = [group for group in groups if len(group) == 1 and group[0].file_size < TARGET]
    assert len(small) <= max(min_count - 1, 1)


def test_small_manifests_and_those_with_deletes_must_change() -> None:
    found = manifests_to_rewrite(of_sizes("9000 9000- 100 100-"), target_bytes=TARGET)

    assert [one.file_name for one in found] == ["m1", "m2", "m3"]


def full(
    manifests: list[ManifestFile], *deleted: str | None, keeps_order: bool = False
) -> tuple[list[str], list[str], list[str]] | None:
    partitions = [partition(value) for value in deleted]
    plan = plan_full(manifests, partitions, [STRING], target_bytes=TARGET, keeps_order=keeps_order)
    if plan is None:
        return None
    kept, rewritten = ([one.file_name for one in part] for part in (plan.kept, plan.rewritten))
    return kept, rewritten, sorted(plan.spared)


def test_a_full_merge_spares_manifests_that_cannot_have_lost_a_file() -> None:
    manifests = [
        manifest("jan", TARGET, partitions=["2024-01"]),
        manifest("feb", TARGET, partitions=["2024-02"]),
        manifest("some", 100, partitions=["2024-01", "2024-02"]),
        manifest("gone", 100, partitions=["2024-02"], added=0, deleted=1),
    ]

    assert full(manifests, "2024-02") == (["jan"], ["feb", "some", "gone"], ["feb"])


@pytest.mark.parametrize("deleted", [[], ["2024-02"]])
def test_where_the_order_counts_all_after_the_first_rewritten_manifest_are_rewritten(deleted: list[str]) -> None:
    manifests = [
        manifest("jan", TARGET, partitions=["2024-01"]),
        manifest("s1", 100, partitions=["2024-01"]),
        manifest("large", TARGET, partitions=["2024-02"]),
        manifest("s2", 100, partitions=["2024-02"], deleted=len(deleted)),
    ]

    assert full(manifests, *deleted, keeps_order=True) == (["jan"], ["s1", "large", "s2"], [])


def test_without_deletes_only_small_manifests_are_rewritten() -> None:
    manifests = [
        manifest("jan", TARGET, partitions=["2024-01"]),
        manifest("s1", 100, partitions=["2024-01"]),
        manifest("s2", 100, partitions=["2024-02"]),
    ]

    assert full(manifests) == (["jan"], ["s1", "s2"], [])


@pytest.mark.parametrize(
    "manifests",
    [
        [],
        [manifest("one", 100, partitions=["2024-01"])],
        [manifest("big", TARGET, partitions=["2024-01"]), manifest("one", 100, partitions=["2024-01"])],
        # Just below the target each: rewriting them would give as many again.
        [manifest(f"m{place}", TARGET - 1, partitions=["2024-01"]) for place in range(3)],
    ],
)
def test_what_would_change_nothing_is_not_done(manifests: list[ManifestFile]) -> None:
    assert full(manifests) is None


def test_a_single_manifest_that_undoes_its_own_files_is_rewritten() -> None:
    assert full([manifest("one", 100, partitions=["2024-01"], deleted=1)], "2024-01") == ([], ["one"], [])


def test_each_delete_undoes_one_add_so_what_was_added_again_stays() -> None:
    first, other = add(data_file("a")), add(data_file("b"))
    deletions = Deletions([first, other, delete(data_file("a")), delete(data_file("z"))])

    assert [deletions.undo(one) for one in (first, other, first)] == [True, False, False]
    assert [one.file.file_name for one in deletions.unmet()] == ["z"]


def test_a_file_at_another_level_is_another_file() -> None:
    deletions = Deletions([delete(data_file("a", level=0))])

    assert not deletions.undo(add(data_file("a", level=5)))


def test_a_merge_is_kept_while_its_inputs_start_the_list() -> None:
    a, b, c, merged = (manifest(name, 1) for name in ("a", "b", "c", "merged"))

    assert replace_inputs([a, b, c], [a, b], [merged]) == [merged, c]
    assert replace_inputs([a, b], [a, b], [merged]) == [merged]
    assert replace_inputs([merged, c], [a, b], [merged]) is None
    assert replace_inputs([a], [a, b], [merged]) is None


def test_new_manifests_are_filled_to_the_target_by_the_size_of_old_entries() -> None:
    assert entries_per_manifest([manifest("a", 1000, added=6, deleted=4)], target_bytes=5000) == 50
    assert entries_per_manifest([manifest("a", 1000, added=1)], target_bytes=10) == 1


def test_a_joined_manifest_is_described_by_what_described_its_parts() -> None:
    jan = manifest("jan", 10, added=2, partitions=["2024-01", "2024-01"])
    null = manifest("null", 10, added=1, deleted=1, partitions=[None, None])
    dec = manifest("dec", 10, added=1, partitions=["2024-12"])
    found = combined([jan, null, dec], [STRING])

    assert (found.num_added_files, found.num_deleted_files) == (4, 1)
    lows, highs, nulls = decode_stats(found.partition_stats, [STRING])
    assert (tuple(lows), tuple(highs), tuple(nulls)) == (("2024-01",), ("2024-12",), (2,))


def test_a_bound_that_one_part_lacks_is_unknown() -> None:
    known = manifest("a", 1)
    unknown = ManifestFile(
        file_name="b", file_size=1, num_added_files=1, num_deleted_files=0, partition_stats=known.partition_stats,
        schema_id=3,
    )  # fmt: skip
    found = combined([known, unknown], [])

    assert (found.min_bucket, found.max_level, found.schema_id) == (None, None, 3)
