"""When a change of index files or data files no longer fits the deletion vectors that are live, and what it leaves."""

from dataclasses import replace

import pytest

from lakehouse_core.planning.commit.index_files import (
    combined_indexes,
    find_index_conflicts,
    index_entry,
    index_file_of,
)
from lakehouse_core.table.data_file import EMPTY_ROW
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    HASH_INDEX,
    DeletionVectorRange,
    EntryKind,
    IndexManifestEntry,
)
from tests.planning.change_vocabulary import add, data_file, delete

# Data files by a letter; index files as name(letters whose rows they mark), with /bucket where it is not 0.
CASES = """
# A compaction rewrites a marked file, and takes its vector along.
files     a b
indexes   i(ab)
change    -a +c -i(ab) +j(b)
buckets   none
loose     none

# Rows were marked after it had looked: its output holds them still.
files     a b
indexes   i(a)
change    -a +c
buckets   rows of a are marked as deleted by i
loose     rows of a are marked as deleted by i

# The same where it replaces the index file that it had seen.
files     a b
indexes   j(ab)
change    -a +c -i(a)
buckets   index file i is not there any more; rows of a are marked as deleted by j
loose     index file i is not there any more; rows of a are marked as deleted by j

# An upgraded file keeps its vector.
files     a
indexes   i(a)
change    -a +a
buckets   none
loose     none

# Two marked rows of different files at a time: in a bucket the second would undo the first.
files     a b
indexes   i(a)
change    +j(b)
buckets   another commit added a DELETION_VECTORS index to the bucket of j
loose     none

# Nobody may have two vectors.
files     a b
indexes   i(a)
change    +j(ab)
buckets   another commit added a DELETION_VECTORS index to the bucket of j; j marks rows of a, and another index file does too
loose     j marks rows of a, and another index file does too

# The file whose rows were to be marked was compacted meanwhile.
files     c
indexes
change    +j(a)
buckets   j marks rows of a, which is not there any more
loose     j marks rows of a, which is not there any more

# A file and its vector may come together.
files
indexes
change    +a +j(a)
buckets   none
loose     none

# Vectors that Java left behind when their file went trouble nobody.
files     b
indexes   i(xb)
change    -b +c -i(xb)
buckets   none
loose     none

# What happens in another bucket is not a conflict.
files     a
indexes   i(a)/1
change    -a +c +j(c)
buckets   none
loose     none

# An index file is added once.
files     a
indexes   i(a)
change    +i(a)
buckets   index file i is there already; another commit added a DELETION_VECTORS index to the bucket of i; i marks rows of a, and another index file does too
loose     index file i is there already; i marks rows of a, and another index file does too

# Files that nobody marked come and go as ever.
files     a
indexes
change    -a +c
buckets   none
loose     none
"""  # noqa: E501


def parse_cases(text: str) -> list[dict[str, str]]:
    blocks = [
        dict(line.split(None, 1) if " " in line else (line, "") for line in block.splitlines() if line[0] != "#")
        for block in text.strip().split("\n\n")
    ]
    return [{name: value.strip() for name, value in block.items()} for block in blocks]


def index(text: str, kind: EntryKind = EntryKind.ADD) -> IndexManifestEntry:
    name, rest = text.split("(")
    letters, _, bucket = rest.partition(")")
    vectors = tuple(DeletionVectorRange(data_file_name=one, offset=1, length=22, cardinality=1) for one in letters)
    file = IndexFile(
        index_type=DELETION_VECTORS, file_name=name, file_size=9, row_count=len(vectors), deletion_vectors=vectors
    )
    return index_entry(kind, EMPTY_ROW, int(bucket.lstrip("/") or 0), file)


@pytest.mark.parametrize("case", parse_cases(CASES))
@pytest.mark.parametrize("has_buckets", [True, False])
def test_conflicts_of_index_files(case, has_buckets):
    words = case["change"].split()
    entries = [
        (add if word[0] == "+" else delete)(data_file(word[1:], 1, 9, level=int(word[0] == "+")))
        for word in words
        if "(" not in word
    ]
    kinds = {"+": EntryKind.ADD, "-": EntryKind.DELETE}
    changes = [index(word[1:], kinds[word[0]]) for word in words if "(" in word]

    found = find_index_conflicts(
        [index(text) for text in case["indexes"].split()],
        changes,
        entries,
        [add(data_file(name, 1, 9)) for name in case["files"].split()],
        has_buckets=has_buckets,
    )

    expected = case["buckets" if has_buckets else "loose"]
    assert ("; ".join(conflict.reason for conflict in found) or "none") == expected


def test_what_stays_keeps_its_place_and_what_comes_is_last():
    live = [index("i(a)"), index("h(b)"), index("k(c)/1")]

    after = combined_indexes(live, [index("h(b)", EntryKind.DELETE), index("j(b)")])

    assert after == [live[0], live[2], index("j(b)")]


def test_an_index_file_is_known_by_its_type_too():
    hashes = replace(index("i()"), index_type=HASH_INDEX)

    assert combined_indexes([hashes, index("i(a)")], [index("i(a)", EntryKind.DELETE)]) == [hashes]


def test_a_live_index_file_is_named_by_all_that_is_known_of_it():
    entry = index("i(ab)")

    assert index_entry(EntryKind.ADD, entry.partition, entry.bucket, index_file_of(entry)) == entry
