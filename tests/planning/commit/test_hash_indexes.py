"""Hash indexes of a commit: its keys united with those of other commits, as sets of numbers tell."""

import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.format.hash_index import Hashes
from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.hash_indexes import Place, claims_of, fits, known_indexes, united, with_indexes
from lakehouse_core.table.commit_message import Append, CommitMessage, StaticOverwrite
from lakehouse_core.table.data_file import EMPTY_ROW
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DELETION_VECTORS, HASH_INDEX, EntryKind, IndexManifestEntry
from lakehouse_core.table.schema import new_schema
from lakehouse_core.table.staged_commit import StagedCommit

Sets = dict[Place, set[int]]

HASHES = st.sets(st.integers(-3, 8), max_size=5)
PLACES = st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 2))
# Of one bucket several writers may bring hashes; the table has one index of it.
CLAIMED = st.lists(st.tuples(PLACES, HASHES), max_size=5)
# What lies in the table is sound: each hash in one bucket of a partition.
PRESENT = st.dictionaries(st.tuples(st.sampled_from([b"p", b"q"]), st.integers(-3, 8)), st.integers(0, 2), max_size=12)


def of(hashes: set[int]) -> Hashes:
    return np.array(sorted(hashes), np.int32)


def by_place(bucket_of: dict[tuple[bytes, int], int]) -> Sets:
    found: Sets = defaultdict(set)
    for (partition, hashed), bucket in bucket_of.items():
        found[partition, bucket].add(hashed)
    return dict(found)


def told(conflicts: list[Conflict]) -> set[tuple[bytes, frozenset[int], int]]:
    """Return the partition, the two buckets and the count of hashes of each conflict."""
    found = set()
    for conflict in conflicts:
        parsed = re.fullmatch(r"another commit put (\d+) of its keys into bucket (\d+)", conflict.reason)
        assert parsed is not None, conflict
        found.add((conflict.partition, frozenset((conflict.bucket, int(parsed[2]))), int(parsed[1])))
    return found


def slowly_united(
    claimed: list[tuple[Place, set[int]]], present: Sets
) -> tuple[Sets, set[tuple[bytes, frozenset[int]]]]:
    """Return the sets of the buckets that get hashes, and the partition and buckets of each hash that is in two."""
    brought: Sets = defaultdict(set)
    for place, hashes in claimed:
        brought[place] |= hashes
    grown = {
        place: hashes | present.get(place, set())
        for place, hashes in brought.items()
        if not hashes <= present.get(place, set())
    }
    clashes = set()
    for (partition, bucket), hashes in brought.items():
        for others in (brought, present):
            for (of_other, other), there in others.items():
                if of_other == partition and other != bucket and hashes & there:
                    clashes.add((partition, frozenset((bucket, other))))
    return grown, clashes


@given(CLAIMED, PRESENT)
def test_each_bucket_has_the_hashes_of_all_commits_and_a_hash_in_two_is_a_conflict(
    claimed: list[tuple[Place, set[int]]], bucket_of: dict[tuple[bytes, int], int]
) -> None:
    present = by_place(bucket_of)

    grown, conflicts = united(
        [(place, of(hashes)) for place, hashes in claimed], [(place, of(hashes)) for place, hashes in present.items()]
    )

    expected, clashes = slowly_united(claimed, present)
    assert {place: hashes.tolist() for place, hashes in grown.items()} == {
        place: sorted(hashes) for place, hashes in expected.items()
    }
    assert {(partition, buckets) for partition, buckets, _ in told(conflicts)} == clashes


@given(CLAIMED, PRESENT)
def test_without_a_conflict_no_hash_is_lost_and_none_is_in_two_buckets(
    claimed: list[tuple[Place, set[int]]], bucket_of: dict[tuple[bytes, int], int]
) -> None:
    present = by_place(bucket_of)
    grown, conflicts = united(
        [(place, of(hashes)) for place, hashes in claimed], [(place, of(hashes)) for place, hashes in present.items()]
    )
    if conflicts:
        return

    after = {**present, **{place: set(hashes.tolist()) for place, hashes in grown.items()}}

    every = [(partition, hashed) for (partition, _), hashes in after.items() for hashed in hashes]
    assert len(every) == len(set(every))
    assert all(hashes <= after.get(place, set()) for place, hashes in (*claimed, *present.items()))


def test_a_conflict_says_how_many_keys_are_where() -> None:
    claimed = [((b"p", 0), of({1, 2, 3})), ((b"p", 1), of({3, 4}))]
    present = [((b"p", 2), of({1, 2})), ((b"q", 2), of({4}))]

    _, conflicts = united(claimed, present)

    assert told(conflicts) == {(b"p", frozenset((0, 1)), 1), (b"p", frozenset((0, 2)), 2)}


def index(name: str, kind: str = HASH_INDEX) -> IndexFile:
    return IndexFile(index_type=kind, file_name=name, file_size=4, row_count=1)


def message(
    bucket: int, *, new: str = "", gone: str = "", read: str = "", partition: bytes = EMPTY_ROW
) -> CommitMessage:
    new_files, gone_files, read_files = (tuple(map(index, names.split())) for names in (new, gone, read))
    return CommitMessage(
        partition=partition,
        bucket=bucket,
        total_buckets=-1,
        new_index_files=new_files,
        deleted_index_files=gone_files,
        read_index_files=read_files,
    )


LIVE = {(EMPTY_ROW, 0): index("a"), (EMPTY_ROW, 1): index("b")}
# Messages, and whether they change the live indexes as they are.
FITTING = [
    ([message(0, new="c", gone="a")], True),
    ([message(0, read="a")], True),
    ([message(0, read="a"), message(0, read="a"), message(1, new="c", gone="b")], True),
    ([message(2, new="c")], True),
    ([message(0, new="c", gone="old")], False),
    ([message(0, read="old")], False),
    ([message(0, new="c")], False),
    ([message(2, new="c", gone="gone")], False),
    ([message(0, new="c", gone="a"), message(0, new="d", gone="a")], False),
    ([message(0, new="c", gone="a"), message(0, read="a")], True),
]


@pytest.mark.parametrize(("messages", "expected"), FITTING)
def test_messages_fit_if_they_name_the_live_index_of_each_bucket_and_replace_it_once(
    messages: list[CommitMessage], expected: bool
) -> None:
    assert fits(messages, LIVE) is expected


def test_the_keys_of_rows_are_in_the_new_index_else_in_the_one_that_was_read() -> None:
    assert claims_of(message(0, new="c", gone="a")) == (index("c"),)
    assert claims_of(message(0, read="a")) == (index("a"),)
    assert claims_of(message(0)) == ()


def staged(*messages: CommitMessage, overwrites: bool = False) -> StagedCommit:
    return StagedCommit(
        table="t",
        commit_user="u",
        commit_identifier=1,
        mode=StaticOverwrite() if overwrites else Append(),
        messages=messages,
        schema_id=0,
        base_snapshot_id=None,
    )


SCHEMA = new_schema({"k": "INT NOT NULL"}, primary_keys=["k"], now_millis=0)
ENTRIES = [
    IndexManifestEntry(
        kind=EntryKind.ADD,
        partition=partition,
        bucket=bucket,
        index_type=file.index_type,
        file_name=file.file_name,
        file_size=4,
        row_count=1,
        deletion_vectors=None,
    )
    for (partition, bucket), file in (*LIVE.items(), ((EMPTY_ROW, 0), index("v", DELETION_VECTORS)))
]


def test_rows_staged_behind_others_know_the_indexes_of_those() -> None:
    def names(*behind: StagedCommit) -> dict[int, list[str]]:
        found = known_indexes(ENTRIES, behind, SCHEMA)
        return {bucket: sorted(file.file_name for file in files) for (_, bucket), files in found.items()}

    assert names() == {0: ["a"], 1: ["b"]}
    assert names(staged(message(0, new="c", gone="a"), message(1, read="b"))) == {0: ["c"], 1: ["b"]}
    # Two that do not know each other: the hashes of both count.
    both = staged(message(0, new="c", gone="a")), staged(message(0, new="d", gone="a"))
    assert names(*both) == {0: ["c", "d"], 1: ["b"]}
    assert names(*both, staged(message(0, new="e", gone="c d"))) == {0: ["e"], 1: ["b"]}
    assert names(staged(message(2, new="o"), overwrites=True)) == {2: ["o"]}


def test_the_first_message_of_a_bucket_gets_the_united_index_in_place_of_all_others() -> None:
    messages = [message(0, new="c", gone="old"), message(0, new="d", gone="old"), message(1, read="b")]

    changed = with_indexes(messages, LIVE, {(EMPTY_ROW, 0): index("made")})

    assert [(each.new_index_files, each.deleted_index_files) for each in changed] == [
        ((index("made"),), (index("a"),)),
        ((), ()),
        ((), ()),
    ]


def test_other_index_files_of_a_message_stay() -> None:
    vectors = index("v", DELETION_VECTORS)
    given = CommitMessage(
        partition=EMPTY_ROW,
        bucket=2,
        total_buckets=-1,
        new_index_files=(vectors, index("c")),
        deleted_index_files=(vectors,),
    )

    (changed,) = with_indexes([given], LIVE, {(EMPTY_ROW, 2): index("made")})

    assert (changed.new_index_files, changed.deleted_index_files) == ((vectors, index("made")), (vectors,))
