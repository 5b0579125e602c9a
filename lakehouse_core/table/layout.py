"""Where the files of a table lie: keys relative to the table's folder.

Source: docs/format/layout.md#directory-layout.
"""

from lakehouse_core.table.bucketing import is_waiting_room

SNAPSHOT_FOLDER = "snapshot"
CHANGELOG_FOLDER = "changelog"
SCHEMA_FOLDER = "schema"
MANIFEST_FOLDER = "manifest"
INDEX_FOLDER = "index"
STATISTICS_FOLDER = "statistics"
TAG_FOLDER = "tag"
BRANCH_FOLDER = "branch"
CONSUMER_FOLDER = "consumer"

# Names of our own, all under one prefix that other engines leave alone.
OWN_FOLDER = "lakehouse"
BOUNDARY_KEY = "lakehouse/boundary"
PENDING_FOLDER = "lakehouse/pending"
QUEUE_FOLDER = "lakehouse/queue"

# What a table keeps beside its data files.
TABLE_FOLDERS = frozenset(
    {
        SNAPSHOT_FOLDER,
        CHANGELOG_FOLDER,
        SCHEMA_FOLDER,
        MANIFEST_FOLDER,
        INDEX_FOLDER,
        STATISTICS_FOLDER,
        TAG_FOLDER,
        BRANCH_FOLDER,
        CONSUMER_FOLDER,
        OWN_FOLDER,
    }
)

SNAPSHOT_PREFIX = "snapshot-"
CHANGELOG_PREFIX = "changelog-"
SCHEMA_PREFIX = "schema-"
TAG_PREFIX = "tag-"
CONSUMER_PREFIX = "consumer-"


def snapshot_key(snapshot_id: int) -> str:
    return f"snapshot/snapshot-{snapshot_id}"


def changelog_key(snapshot_id: int) -> str:
    return f"changelog/changelog-{snapshot_id}"


def schema_key(schema_id: int) -> str:
    return f"schema/schema-{schema_id}"


def manifest_key(name: str) -> str:
    return f"manifest/{name}"


def index_key(name: str) -> str:
    return f"index/{name}"


def statistics_key(name: str) -> str:
    return f"statistics/{name}"


def tag_key(name: str) -> str:
    return f"tag/tag-{name}"


def bucket_folder(partition_path: str, bucket: int, *, data_folder: str = "") -> str:
    """Return the folder of a bucket; `partition_path` is "" or ends with "/", as `partition_path` makes it."""
    name = "bucket-postpone" if is_waiting_room(bucket) else f"bucket-{bucket}"
    prefix = f"{data_folder}/" if data_folder else ""
    return f"{prefix}{partition_path}{name}"
