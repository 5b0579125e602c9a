"""Caches of what was used most recently, and what all of them hold together."""

import gc

import pytest

from lakehouse_core.metadata.lru import CacheBudget, Recent


def test_the_value_used_longest_ago_goes_first() -> None:
    cache = Recent[int](2)
    for key in "ab":
        cache.put(key, 1)
    cache.get("a")
    cache.put("c", 1)

    assert [cache.get(key) for key in "abc"] == [1, None, 1]


def test_a_cache_that_is_not_used_gives_way_to_one_that_is() -> None:
    budget = CacheBudget(100)
    idle, busy = Recent[str](10, budget=budget), Recent[str](10, budget=budget)
    for key in "ab":
        idle.put(key, key, 30)
    busy.put("c", "c", 40)
    busy.put("d", "d", 20)

    assert budget.held_bytes == 90
    assert [idle.get(key) for key in "ab"] == [None, "b"]
    assert [busy.get(key) for key in "cd"] == ["c", "d"]


def test_a_value_larger_than_all_may_hold_is_not_kept() -> None:
    budget = CacheBudget(100)
    cache = Recent[str](10, budget=budget)
    cache.put("large", "large", 101)

    assert cache.get("large") is None
    assert budget.held_bytes == 0


@pytest.mark.parametrize("sizes", [[60, 10], [10, 60]])
def test_a_value_that_takes_the_place_of_another_counts_once(sizes: list[int]) -> None:
    budget = CacheBudget(100)
    cache = Recent[int](1, budget=budget)
    for size in sizes:
        cache.put("same", size, size)
    assert budget.held_bytes == sizes[-1]

    cache.put("other", 1, 5)
    assert budget.held_bytes == 5


def test_a_cache_that_is_gone_holds_nothing() -> None:
    budget = CacheBudget(100)
    cache, other = Recent[str](10, budget=budget), Recent[str](10, budget=budget)
    cache.put("a", "a", 90)
    del cache
    gc.collect()
    other.put("b", "b", 90)

    assert other.get("b") == "b"
    assert budget.held_bytes == 90
