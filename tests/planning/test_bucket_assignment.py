"""Bucket assignment: which bucket a new key of a table with dynamic buckets gets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.hash_index import Hashes
from lakehouse_core.options import DynamicBucketOptions
from lakehouse_core.planning import bucket_assignment
from lakehouse_core.planning.bucket_assignment import Assigners, assigned_buckets, buckets_of_rows

HASHES = st.integers(-(2**31), 2**31 - 1)
# New hashes, hashes per bucket, target, largest count of buckets, assigners: the bucket of each.
CASES = """
1 2 3 4 5 6 7 |               | 3 |   | 1 | 0 0 0 1 1 1 2
8 9 10        | 0:3 1:3 2:1   | 3 |   | 1 | 2 2 3
8 9 10        | 0:3 2:3       | 3 |   | 1 | 1 1 1
4             | 0:1 1:2       | 3 |   | 1 | 0
4 5           | 0:4           | 3 |   | 1 | 1 1
-3 -2 5       |               | 1 |   | 1 | 0 1 2
1 2 3 4       |               | 3 |   | 2 | 1 0 1 0
1 2 3 4       | 0:3 1:3       | 3 |   | 2 | 3 2 3 2
-1 1          |               | 3 |   | 2 | 1 1
-5 -1 7 8     | 0:1 1:1       | 1 | 2 | 1 | 1 1 1 0
5             | 0:1 3:1       | 1 | 1 | 1 | 3
"""


def of(texts: str) -> Hashes:
    return np.array([int(text) for text in texts.split()], np.int32)


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_new_keys_fill_buckets_in_rising_order_and_open_the_smallest_unused_number(case: str) -> None:
    new, counts, target, most, assigners, expected = (part.strip() for part in case.split("|"))
    options = DynamicBucketOptions(target_row_count=int(target), max_buckets=int(most) if most else None)
    of_bucket = {int(bucket): int(count) for bucket, count in (part.split(":") for part in counts.split())}

    found = assigned_buckets(of(new), of_bucket, options, Assigners(int(assigners)))

    assert found.tolist() == of(expected).tolist()


def test_without_a_bound_of_the_table_the_last_bucket_number_is_the_end() -> None:
    counts = dict.fromkeys(range(32_767), 1)

    with pytest.raises(
        InvalidRequest, match="A partition needs more than 32767 buckets of 1 keys: raise dynamic-bucket"
    ):
        assigned_buckets(of("1"), counts, DynamicBucketOptions(target_row_count=1), Assigners())


@given(st.sets(HASHES), st.dictionaries(st.integers(0, 9), st.integers(0, 6)), st.integers(1, 5), st.integers(1, 4))
def test_no_bucket_gets_more_than_its_target_and_each_assigner_fills_its_own(
    new: set[int], counts: dict[int, int], target: int, count: int
) -> None:
    hashes = np.array(sorted(new), np.int32)
    options = DynamicBucketOptions(target_row_count=target)

    buckets = assigned_buckets(hashes, counts, options, Assigners(count)).tolist()

    for bucket in set(buckets):
        assert counts.get(bucket, 0) + buckets.count(bucket) <= max(target, counts.get(bucket, 0))
    assert all(bucket % count == abs(hashed) % count for hashed, bucket in zip(sorted(new), buckets, strict=True))


@given(st.lists(st.tuples(HASHES, st.integers(0, 3)), min_size=1))
def test_each_row_gets_the_bucket_of_its_hash(rows: list[tuple[int, int]]) -> None:
    bucket_of = dict(rows)
    keys = np.array(sorted(bucket_of), np.int32)
    buckets = np.array([bucket_of[key] for key in sorted(bucket_of)], np.int32)
    hashes = np.array([hashed for hashed, _ in rows], np.int32)

    for few_runs in (0, 4096):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bucket_assignment, "_FEW_RUNS", few_runs)
            found = buckets_of_rows(hashes, keys, buckets)
        assert found.tolist() == [bucket_of[hashed] for hashed, _ in rows]


@pytest.mark.parametrize("step", [1, 20_011])
def test_buckets_of_many_keys_are_found_whether_hashes_are_spread_or_not(step: int) -> None:
    keys = (np.arange(-50_000, 50_000) * step).astype(np.int32)
    buckets = (np.arange(len(keys)) % 3).astype(np.int32)
    rows = np.random.default_rng(0).integers(0, len(keys), 200_000)

    assert (buckets_of_rows(keys[rows], keys, buckets) == buckets[rows]).all()
