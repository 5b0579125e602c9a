"""Which files of a table may be orphans."""

import pytest

from lakehouse_core.planning.expiry.orphans import orphan_kind

PLACES = [
    ("bucket-0/data-1.parquet", 0, "", "bucket"),
    ("bucket-postpone/data-1.avro", 0, "", "bucket"),
    ("dt=1/h=2/bucket-12/changelog-1.parquet", 2, "", "bucket"),
    ("files/dt=1/bucket-0/data-1.orc", 1, "files", "bucket"),
    ("a/b/bucket-0/data-1.orc", 0, "a/b", "bucket"),
    ("manifest/manifest-1", 0, "", "manifest"),
    ("manifest/index-manifest-1", 0, "", "manifest"),
    ("index/index-1-0", 0, "", "index"),
    ("statistics/stat-1-0", 0, "", "statistics"),
    (".now.1.tmp", 0, "", "temporary"),
    ("snapshot/.snapshot-1.2.tmp", 0, "", "temporary"),
    ("branch/branch-b/schema/.schema-1.2.tmp", 0, "", "temporary"),
    ("dt=1/bucket-0/.data-1.2.tmp", 1, "", "temporary"),
    # What is not the table's own, and what is a root, a schema, a hint or a file that the format names by itself.
    ("README.md", 0, "", None),
    ("notes/.draft.tmp", 0, "", None),
    ("snapshot/snapshot-1", 0, "", None),
    ("snapshot/LATEST", 0, "", None),
    ("changelog/changelog-1", 0, "", None),
    ("schema/schema-0", 0, "", None),
    ("tag/tag-t", 0, "", None),
    ("consumer/consumer-c", 0, "", None),
    ("lakehouse/pending/commit-a-1.json", 0, "", None),
    ("branch/branch-b/snapshot/snapshot-1", 0, "", None),
    ("manifest/mine/manifest-1", 0, "", None),
    # The mark of a partition that is done.
    ("dt=1/_SUCCESS", 1, "", None),
    # Folders that are like buckets, but at another depth or of another name.
    ("bucket-0/data-1.parquet", 1, "", None),
    ("dt=1/bucket-0/data-1.parquet", 0, "", None),
    ("backup/bucket-0/data-1.parquet", 1, "", None),
    ("dt=1/bucket-0/mine/data-1.parquet", 1, "", None),
    ("dt=1/bucket-x/data-1.parquet", 1, "", None),
    ("bucket-0/data-1.parquet", 0, "files", None),
]


@pytest.mark.parametrize(("key", "depth", "data_folder", "kind"), PLACES)
def test_only_a_file_where_the_format_keeps_files_may_be_an_orphan(
    key: str, depth: int, data_folder: str, kind: str | None
) -> None:
    assert orphan_kind(key, partition_depth=depth, data_folder=data_folder) == kind
