"""What a write must know of the live files: the numbers that its rows continue, and the bucket counts."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.planning.write_base import NOTHING_WRITTEN, WriteBase, write_base
from lakehouse_core.table.manifest import ManifestEntry, columns_of, merge_entries
from tests.planning.change_vocabulary import add, data_file, delete, message, partition

PARTITIONS = [partition("a"), partition("b")]


@st.composite
def histories(draw: st.DrawFn) -> list[ManifestEntry]:
    """Entries in commit order: files are added, and some of them deleted later."""
    entries: list[ManifestEntry] = []
    for number in range(draw(st.integers(0, 12))):
        file = data_file(f"data-{number}.parquet", max_sequence_number=draw(st.integers(0, 50)))
        where = {
            "in_partition": draw(st.sampled_from(PARTITIONS)),
            "bucket": draw(st.integers(-2, 2)),
            "total_buckets": draw(st.sampled_from([-1, 3])),
        }
        entries.append(add(file, **where))
        if draw(st.booleans()):
            entries.append(delete(file, **where))
    return entries


def by_entry(entries: list[ManifestEntry]) -> WriteBase:
    """The slow twin."""
    numbers: dict[tuple[bytes, int], int] = {}
    counts: dict[bytes, int] = {}
    for one in merge_entries(entries):
        place = one.partition, one.bucket
        numbers[place] = max(numbers.get(place, 0), one.file.max_sequence_number + 1)
        if one.total_buckets > 0:
            counts[one.partition] = one.total_buckets
    return WriteBase(next_numbers=numbers, bucket_counts=counts)


@given(histories())
def test_the_base_of_a_write_is_that_of_the_live_files(entries: list[ManifestEntry]) -> None:
    assert write_base(columns_of(entries)) == by_entry(entries)


def test_staged_files_that_are_committed_before_raise_the_numbers_of_their_buckets() -> None:
    base = WriteBase(next_numbers={(PARTITIONS[0], 0): 5, (PARTITIONS[0], 1): 9}, bucket_counts={PARTITIONS[0]: 2})
    low, high = (data_file(f"data-{last}", max_sequence_number=last) for last in (3, 20))
    staged = [message(PARTITIONS[0], 0, new_files=(low, high)), message(PARTITIONS[0], 1, new_files=(low,))]

    after = base.after([*staged, message(PARTITIONS[1], 0, new_files=(low,))])

    assert after.next_numbers == {(PARTITIONS[0], 0): 21, (PARTITIONS[0], 1): 9, (PARTITIONS[1], 0): 4}
    assert after.bucket_counts == {PARTITIONS[1]: 1, **base.bucket_counts}
    assert NOTHING_WRITTEN.after([]) == NOTHING_WRITTEN
