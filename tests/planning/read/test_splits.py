"""Which files a scan of a table with looked-up keys reads: no level 0, each file alone, its values believed."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.planning.read.splits import plan_splits
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.table.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    HASH_INDEX,
    DeletionVectorRange,
    IndexManifestEntry,
    columns_of,
    live_rows,
)
from lakehouse_core.table.predicate import bind, col
from lakehouse_core.table.schema import TableSchema, new_schema
from lakehouse_core.table.split import Split
from lakehouse_core.table.stats import ColumnBounds, encode_stats
from tests.planning.change_vocabulary import add, append_schema, data_file, key_schema, manifest


def schema(**options: str) -> TableSchema:
    """Return the schema of a key table (k INT, v INT) with vectors, whoever may write it."""
    columns = {"k": "INT NOT NULL", "v": "INT"}
    made = new_schema(columns, primary_keys=["k"], options={"bucket": "1"}, now_millis=0)
    return replace(made, options={"bucket": "1", "deletion-vectors.enabled": "true", **options})


def splits(
    files: Sequence[DataFile],
    of: TableSchema,
    *,
    where=None,
    deletions: dict[str, DeletionFile] | None = None,
) -> Collection[Split]:
    scope = ScanScope(of, None if where is None else bind(where, of.fields))
    entries = columns_of([add(file) for file in files])
    ids = {file.schema_id for file in files}
    return plan_splits(
        entries,
        live_rows(entries),
        scope,
        snapshot_id=1,
        file_schemas=dict.fromkeys(ids, of),
        deletions=deletions or {},
    )


def shown(found: Collection[Split]) -> str:
    return " ".join(
        f"{'raw' if split.raw else 'merge'}({' '.join(sorted(file.file_name for file in split.files))})"
        for split in found
    )


def levels(*, deletes: int | None = 0) -> list[DataFile]:
    """A new file over two of higher levels whose keys overlap."""
    return [
        data_file("new.parquet", 1, 9, level=0),
        data_file("mid.parquet", 2, 5, level=4),
        data_file("old.parquet", 1, 9, level=5, delete_row_count=deletes),
    ]


@pytest.mark.parametrize(
    ("options", "deletes", "expected"),
    [
        ({}, 0, "raw(mid.parquet old.parquet)"),
        ({}, None, "raw(mid.parquet old.parquet)"),
        # A file with deletes was written before there were vectors: the others may hold its keys.
        ({}, 1, "merge(mid.parquet old.parquet)"),
        ({"deletion-vectors.merge-on-read": "true"}, 0, "merge(mid.parquet new.parquet old.parquet)"),
        ({"deletion-vectors.enabled": "false"}, 0, "merge(mid.parquet new.parquet old.parquet)"),
        ({"deletion-vectors.enabled": "false", "merge-engine": "first-row"}, 0, "raw(mid.parquet old.parquet)"),
        ({"merge-engine": "aggregation"}, 0, "raw(mid.parquet old.parquet)"),
    ],
)
def test_what_no_compaction_has_seen_is_left_out_and_the_rest_read_file_by_file(options, deletes, expected):
    found = splits(levels(deletes=deletes), schema(**options))

    assert shown(found) == expected


def test_with_merging_on_read_what_is_compacted_whole_is_still_read_file_by_file():
    assert shown(splits(levels()[1:], schema(**{"deletion-vectors.merge-on-read": "true"}))).startswith("raw(")


def valued(name: str, value: int, *, level: int) -> DataFile:
    of = schema()
    bounds = [ColumnBounds(1, 9, 0), ColumnBounds(value, value, 0)]
    stats = encode_stats(bounds, [field.type for field in of.fields])
    return data_file(name, 1, 9, level=level, value_stats=stats)


@pytest.mark.parametrize(("enabled", "expected"), [("true", ["b.parquet"]), ("false", ["a.parquet", "b.parquet"])])
def test_values_leave_out_single_files_where_no_merge_follows(enabled, expected):
    of = schema(**{"deletion-vectors.enabled": enabled})

    found = splits([valued("a.parquet", 1, level=4), valued("b.parquet", 2, level=5)], of, where=col("v") == 2)

    assert sorted(file.file_name for split in found for file in split.files) == expected


def test_char_matches_without_the_blanks_that_java_counts_into_bounds():
    # Java fills CHAR up, says so in its statistics, and reads it from ORC without them.
    of = new_schema({"c": "CHAR(3)"}, options={"file.format": "orc"}, now_millis=0)
    stats = encode_stats([ColumnBounds("ab ", "ab ", 0)], [field.type for field in of.fields])
    files = [replace(data_file("a.orc", 1, 9, level=0), key_stats=EMPTY_STATS, value_stats=stats)]

    found = {text: shown(splits(files, of, where=col("c") == text)) for text in ("ab", "ab ", "aa", "b")}

    assert found == {"ab": "raw(a.orc)", "ab ": "raw(a.orc)", "aa": "", "b": ""}


def test_manifests_of_level_0_alone_are_not_read_where_it_is_left_out():
    level_0 = manifest("m", 100)

    assert not ScanScope(schema(), None).keeps_manifest(level_0)
    assert ScanScope(key_schema(), None).keeps_manifest(level_0)


def test_a_split_carries_the_vectors_of_its_files_and_counts_by_them():
    vector = DeletionFile(key="index/i", offset=1, length=22, cardinality=3)
    unknown = DeletionFile(key="index/i", offset=31, length=22)
    files = [data_file("a.parquet"), data_file("b.parquet")]

    (split,) = splits(files, append_schema(), deletions={"b.parquet": vector, "gone.parquet": unknown})
    (uncounted,) = splits(files, append_schema(), deletions={"b.parquet": unknown})

    assert split.deletions == {"b.parquet": vector}
    assert (split.row_count, split.exact_row_count) == (20, 17)
    assert uncounted.exact_row_count is None


def index(name: str, *vectors: DeletionVectorRange, **more) -> IndexManifestEntry:
    fields = {"index_type": DELETION_VECTORS, "row_count": len(vectors), "deletion_vectors": vectors, **more}
    return IndexManifestEntry(partition=EMPTY_ROW, bucket=0, file_name=name, file_size=100, **fields)


def vector_of(name: str) -> DeletionVectorRange:
    return DeletionVectorRange(data_file_name=name, offset=1, length=22, cardinality=1)


def test_each_data_file_is_led_to_its_vector():
    folders = DataLayout(append_schema())
    indexes = [index("i-1", vector_of("a")), index("hashes", index_type=HASH_INDEX, deletion_vectors=None, row_count=9)]

    assert deletion_files(indexes, folders) == {"a": DeletionFile(key="index/i-1", offset=1, length=22, cardinality=1)}


@pytest.mark.parametrize(
    ("indexes", "error", "found"),
    [
        ([index("i-1", vector_of("a")), index("i-2", vector_of("a"))], CorruptTable, "so does index/i-1"),
        ([index("i-1", deletion_vectors=None, row_count=2)], UnsupportedFeature, "of files it does not name"),
        ([index("i-1", vector_of("a"), external_path="s3://x/i-1")], UnsupportedFeature, "from s3://x/i-1"),
        ([index("../i-1", vector_of("a"))], CorruptTable, "plain name"),
    ],
)
def test_marks_that_cannot_be_followed_are_refused(indexes, error, found):
    with pytest.raises(error, match=found):
        deletion_files(indexes, DataLayout(append_schema()))
