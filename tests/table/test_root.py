from dataclasses import replace

import pytest

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.expiry.deletion import deletion_order
from lakehouse_core.table.data_file import EMPTY_ROW
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import FileKind, FileRef, data_files, plain_name
from lakehouse_core.table.manifest import ManifestListRef
from lakehouse_core.table.root import Root, RootKind, consecutive_runs, metadata_files, needed
from lakehouse_core.table.schema import TableSchema, new_schema


def root(snapshot_id: int = 1, kind: RootKind = RootKind.SNAPSHOT, history: str = "", **changes: object) -> Root:
    named = Root(
        key=f"{history}{kind}-{snapshot_id}",
        kind=kind,
        history=history,
        snapshot_id=snapshot_id,
        base=ManifestListRef(name="base", size=1),
        delta=ManifestListRef(name="delta", size=2),
        changelog=ManifestListRef(name="changelog", size=3),
        index_manifest="index-manifest",
        statistics="stat",
    )
    return replace(named, **changes)


def parts(found: Root) -> set[str]:
    return {file.key.rpartition("/")[-1] for file in metadata_files(found)}


@pytest.mark.parametrize("delta_is_changelog", [True, False])
def test_a_snapshot_needs_everything_it_names(delta_is_changelog):
    found = needed(root(), delta_is_changelog=delta_is_changelog)

    assert parts(found) == {"base", "delta", "changelog", "index-manifest", "stat"}


@pytest.mark.parametrize("delta_is_changelog", [True, False])
def test_a_tag_is_a_state_without_a_changelog(delta_is_changelog):
    found = needed(root(kind=RootKind.TAG), delta_is_changelog=delta_is_changelog)

    assert parts(found) == {"base", "delta", "index-manifest", "stat"}


@pytest.mark.parametrize(
    ("has_changelog", "delta_is_changelog", "expected"),
    [
        (True, False, {"changelog"}),
        (True, True, {"changelog"}),
        (False, True, {"base", "delta"}),
        (False, False, set()),
    ],
)
def test_of_a_long_lived_changelog_only_the_changelog_is_needed(has_changelog, delta_is_changelog, expected):
    changelog = root(kind=RootKind.CHANGELOG)
    if not has_changelog:
        changelog = replace(changelog, changelog=None)

    assert parts(needed(changelog, delta_is_changelog=delta_is_changelog)) == expected


def test_consecutive_runs_are_runs_of_consecutive_ids_oldest_first():
    roots = [
        root(5),
        root(3),
        root(4),
        root(9),
        root(4, history="branch/branch-b/"),
        root(5, history="branch/branch-b/"),
    ]

    runs = [[(each.history, each.snapshot_id) for each in run] for run in consecutive_runs(roots)]

    assert runs == [
        [("", 3), ("", 4), ("", 5)],
        [("", 9)],
        [("branch/branch-b/", 4), ("branch/branch-b/", 5)],
    ]


def test_what_is_named_goes_before_what_names_it():
    files = {
        kind.value: FileRef(key=kind.value, kind=kind, size=1) for kind in sorted(FileKind, key=lambda kind: kind.value)
    }

    batches = [{file.key for file in batch} for batch in deletion_order(files)]

    assert batches == [
        {"data", "changelog", "extra", "index", "statistics"},
        {"manifest", "index manifest"},
        {"manifest list"},
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\0"])
def test_names_that_are_no_plain_names_are_refused(name):
    with pytest.raises(CorruptTable, match="manifest-7 names the file"):
        plain_name(name, "manifest-7")
    with pytest.raises(CorruptTable):
        data_files("data-1", 1, (name,), kind=FileKind.DATA, folder="bucket-0", named_by="manifest-7")


def schema(**options: str) -> TableSchema:
    columns = {"dt": "STRING NOT NULL", "k": "INT NOT NULL"}
    made = new_schema(columns, partition_keys=["dt"], primary_keys=["dt", "k"], options={"bucket": "2"}, now_millis=0)
    return replace(made, options={**made.options, **options})


def partition(value: str) -> bytes:
    return serialize_row((value,), [parse_type("STRING")])


@pytest.mark.parametrize(
    ("options", "bucket", "folder", "index_folder"),
    [
        ({}, 0, "dt=a%2Fb/bucket-0", None),
        ({}, -2, "dt=a%2Fb/bucket-postpone", None),
        ({"data-file.path-directory": "data"}, 1, "data/dt=a%2Fb/bucket-1", None),
        ({"index-file-in-data-file-dir": "true"}, 1, "dt=a%2Fb/bucket-1", "dt=a%2Fb/bucket-1"),
    ],
)
def test_buckets_lie_where_the_options_say(options, bucket, folder, index_folder):
    folders = DataLayout(schema(**options))

    assert folders.bucket(partition("a/b"), bucket) == folder
    assert folders.index_folder(partition("a/b"), bucket) == index_folder


@pytest.mark.parametrize("text", ["..", "../..", ".", "a/../../b", " "])
def test_no_partition_value_leaves_the_table(text):
    folder = DataLayout(schema()).bucket(partition(text), 0)

    assert ".." not in folder.split("/")
    assert folder.count("/") == 1


def test_a_partition_that_is_no_row_is_corrupt():
    with pytest.raises(CorruptTable):
        DataLayout(schema()).bucket(EMPTY_ROW[:7], 0)


FIRST = "compacted-changelog-u$0-10.cc-parquet"


@pytest.mark.parametrize(
    ("name", "bucket", "key", "least_size"),
    [
        (FIRST, 0, f"dt=a/bucket-0/{FIRST}", 10),
        ("compacted-changelog-u$0-10-10-5.cc-parquet", 1, f"dt=a/bucket-0/{FIRST}", 15),
    ],
)
def test_changelog_files_that_share_an_object_are_that_object(name: str, bucket: int, key: str, least_size: int):
    (found,) = data_files(name, 5, (), kind=FileKind.CHANGELOG, folder=f"dt=a/bucket-{bucket}", named_by="manifest-7")

    assert (found.key, found.kind, found.size, found.least_size) == (key, FileKind.CHANGELOG, None, least_size)


@pytest.mark.parametrize(
    ("size", "least_size", "found", "expected"),
    [
        (10, 0, 10, None),
        (10, 0, 11, "10"),
        (None, 0, 11, None),
        (None, 15, 15, None),
        (None, 15, 99, None),
        (None, 15, 14, "15 at least"),
    ],
)
def test_a_size_is_wrong_when_it_is_another_or_too_small(
    size: int | None, least_size: int, found: int, expected: str | None
):
    file = FileRef(key="k", kind=FileKind.CHANGELOG, size=size, least_size=least_size)

    assert file.size_fault(found) == expected
