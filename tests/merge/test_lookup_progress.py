"""Keys are settled by what is found of them, and never too early: what was not searched would have changed nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.merge.lookup_progress import LookupProgress
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.merge_spec import MergeSpec, merge_spec
from lakehouse_core.table.schema import new_schema

KEY_COUNT = 4
DELETE = 3
# By the key's number: its sequence number and kind.
Rows = dict[int, tuple[int, int]]


def spec_of(engine: str, **options: str) -> MergeSpec:
    columns = {"k": "INT NOT NULL", "v": "INT"}
    made = {name.replace("_", "-").replace("--", "."): value for name, value in options.items()}
    options = {"bucket": "1", "merge-engine": engine, **made}
    return merge_spec(new_schema(columns, primary_keys=["k"], options=options, now_millis=0))


def file_of(rows: Rows) -> DataFile:
    numbers = [number for number, _ in rows.values()]
    return DataFile(
        file_name="f",
        file_size=1,
        row_count=len(rows),
        min_sequence_number=min(numbers),
        max_sequence_number=max(numbers),
        schema_id=0,
    )


def searched(files: list[Rows], settling: LookupProgress) -> list[tuple[int, int]]:
    """Return the key and the index of the file of every look at a file."""
    described = [file_of(rows) for rows in files]
    looks = []
    for index in settling.search_order(described):
        is_open = settling.is_open(described[index], 0, KEY_COUNT)
        looks += [(key, index) for key in np.flatnonzero(is_open).tolist()]
        there = [key for key in np.flatnonzero(is_open).tolist() if key in files[index]]
        found = pa.record_batch(
            {
                SEQUENCE_NUMBER: pa.array([files[index][key][0] for key in there], pa.int64()),
                VALUE_KIND: pa.array([files[index][key][1] for key in there], pa.int8()),
            }
        )
        settling.add(found, np.array(there, dtype=np.int64))
    return looks


@st.composite
def some_files(draw: st.DrawFn) -> list[Rows]:
    """Files whose ranges of sequence numbers may overlap; no number comes twice."""
    keys = draw(st.lists(st.sets(st.integers(0, KEY_COUNT - 1), min_size=1), min_size=1, max_size=6))
    count = sum(map(len, keys))
    numbers = iter(draw(st.permutations(range(count)) | st.just(range(count)) | st.just(range(count)[::-1])))
    return [{key: (next(numbers), draw(st.sampled_from([0, 2, DELETE]))) for key in sorted(file)} for file in keys]


@pytest.mark.parametrize(
    ("spec", "ignores_deletes", "oldest_wins"),
    [
        (spec_of("deduplicate"), False, False),
        (spec_of("deduplicate", ignore_delete="true"), True, False),
        (spec_of("first-row", ignore_delete="true"), True, True),
    ],
    ids=["deduplicate", "ignore-delete", "first-row"],
)
@given(files=some_files())
def test_the_version_that_stays_of_a_key_is_always_among_those_found(spec, ignores_deletes, oldest_wins, files):
    looks = searched(files, LookupProgress(spec, KEY_COUNT, holds_once=False))

    def winner(indices: list[int], key: int) -> tuple[int, int] | None:
        versions = [files[index][key] for index in indices if key in files[index]]
        versions = [version for version in versions if not (ignores_deletes and version[1] == DELETE)]
        return (min if oldest_wins else max)(versions, default=None)

    for key in range(KEY_COUNT):
        found_in = [index for asked, index in looks if asked == key]
        assert winner(found_in, key) == winner(list(range(len(files))), key)


@pytest.mark.parametrize(
    "spec",
    [
        spec_of("deduplicate", sequence__field="v"),
        spec_of("partial-update"),
        spec_of("aggregation"),
    ],
    ids=["sequence field", "partial-update", "aggregation"],
)
@given(files=some_files())
def test_all_files_are_searched_where_every_version_counts(spec, files):
    looks = searched(files, LookupProgress(spec, KEY_COUNT, holds_once=False))

    assert sorted(looks) == [(key, index) for key in range(KEY_COUNT) for index in range(len(files))]


def test_the_newest_file_is_searched_first_and_what_it_has_is_sought_no_further():
    files: list[Rows] = [{0: (0, 0), 1: (1, 0), 2: (2, 0)}, {0: (3, 0)}, {1: (4, DELETE)}]

    newest_first = searched(files, LookupProgress(spec_of("deduplicate"), KEY_COUNT, holds_once=False))
    oldest_first = searched(
        files, LookupProgress(spec_of("first-row", ignore_delete="true"), KEY_COUNT, holds_once=False)
    )

    assert newest_first == [(0, 2), (1, 2), (2, 2), (3, 2), (0, 1), (2, 1), (3, 1), (2, 0), (3, 0)]
    assert oldest_first == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)]


def test_a_key_that_files_hold_once_is_sought_until_it_is_found():
    looks = searched([{0: (5, 0)}, {1: (7, 0)}], LookupProgress(spec_of("aggregation"), KEY_COUNT, holds_once=True))

    assert looks == [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)]
