"""Table layout: the keys of a table's files, relative to its folder, on the main branch or another.

Rule: no other module joins such a key from parts.
Source: docs/format/layout.md#directory-layout.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote

from lakehouse_core.table.bucketing import is_waiting_room

# Names in every table, below a branch's folder or beside the data of the main branch. Never change.
_SNAPSHOT: Final = "snapshot"
_CHANGELOG: Final = "changelog"
_SCHEMA: Final = "schema"
_TAG: Final = "tag"
_CONSUMER: Final = "consumer"

MANIFEST_FOLDER: Final = "manifest"
INDEX_FOLDER: Final = "index"
STATISTICS_FOLDER: Final = "statistics"
BRANCH_FOLDER: Final = "branch"
# Files of this package only, below one folder that other engines ignore.
OWN_FOLDER: Final = "lakehouse"
PENDING_FOLDER: Final = f"{OWN_FOLDER}/pending"
NAMES_FOLDER: Final = f"{OWN_FOLDER}/branches"
PINS_FOLDER: Final = f"{OWN_FOLDER}/pins"
QUEUE_FOLDER: Final = f"{OWN_FOLDER}/queue"
# While it is there, commits wait in the queue, or did; the latest snapshot need not say so.
QUEUE_MARK: Final = f"{OWN_FOLDER}/waiting"
# While it is there and schema 0 is not, the files are those of an unfinished copy, and no table.
COPY_MARK: Final = f"{OWN_FOLDER}/copying"
# In the folder of a table that is being dropped where folders cannot be moved.
DROP_MARK: Final = f"{OWN_FOLDER}/dropped"

# The folders beside a table's data files.
TABLE_FOLDERS: Final = frozenset(
    {
        _SNAPSHOT,
        _CHANGELOG,
        _SCHEMA,
        MANIFEST_FOLDER,
        INDEX_FOLDER,
        STATISTICS_FOLDER,
        _TAG,
        BRANCH_FOLDER,
        _CONSUMER,
        OWN_FOLDER,
    }
)

BRANCH_PREFIX: Final = "branch-"
# Java's name of the table's own history.
MAIN_BRANCH: Final = "main"
# In the name of a table, before that of its branch, as in Java: "sales.orders$branch_trial".
BRANCH_MARK: Final = "$branch_"
TAG_PREFIX: Final = "tag-"
TAG_SUCCESS_FOLDER: Final = "tag-success-file"
CONSUMER_PREFIX: Final = "consumer-"
_STAGED_PREFIX: Final = "commit-"
_PLAN_PREFIX: Final = "plan-"
_PLAN_SUFFIX: Final = ".json"
_LONGEST_USER: Final = 150


class BranchFolders(NamedTuple):
    """The folders of a branch's own metadata."""

    snapshots: str
    schemas: str
    tags: str
    changelogs: str
    consumers: str


class Hints(NamedTuple):
    """The keys of a branch's hints: its newest and its oldest snapshot, and those of its long-lived changelogs."""

    latest: str
    earliest: str
    latest_changelog: str
    earliest_changelog: str


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The keys of a table's metadata on one branch; `branch` None is the main one.

    A branch has its own snapshots, changelogs, schemas, tags, consumers and boundary. The files that these name and
    deletion plans belong to the table: functions below have their keys, which are the same on every branch. Staged
    commits lie in one folder.
    """

    branch: str | None = None

    @property
    def prefix(self) -> str:
        """The folder of the branch with "/" at its end; "" for the main one."""
        return "" if self.branch is None else f"{BRANCH_FOLDER}/{BRANCH_PREFIX}{self.branch}/"

    @property
    def folder(self) -> str:
        """The folder of the branch."""
        return self.prefix.rstrip("/")

    @property
    def folders(self) -> BranchFolders:
        prefix = self.prefix
        return BranchFolders(
            snapshots=f"{prefix}{_SNAPSHOT}",
            schemas=f"{prefix}{_SCHEMA}",
            tags=f"{prefix}{_TAG}",
            changelogs=f"{prefix}{_CHANGELOG}",
            consumers=f"{prefix}{_CONSUMER}",
        )

    @property
    def hints(self) -> Hints:
        prefix = self.prefix
        return Hints(
            latest=f"{prefix}{_SNAPSHOT}/LATEST",
            earliest=f"{prefix}{_SNAPSHOT}/EARLIEST",
            latest_changelog=f"{prefix}{_CHANGELOG}/LATEST",
            earliest_changelog=f"{prefix}{_CHANGELOG}/EARLIEST",
        )

    @property
    def boundary(self) -> str:
        return f"{self.prefix}{OWN_FOLDER}/boundary"

    @property
    def branch_base(self) -> str:
        """The key of the record which snapshot the branch continues."""
        return f"{self.prefix}{OWN_FOLDER}/base"

    @property
    def used_name(self) -> str:
        """The key of the record that a branch used its name; outside its folder, which goes with the branch."""
        return f"{NAMES_FOLDER}/{self.branch}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.prefix}{_SNAPSHOT}/snapshot-{snapshot_id}"

    def changelog(self, snapshot_id: int) -> str:
        return f"{self.prefix}{_CHANGELOG}/changelog-{snapshot_id}"

    def schema(self, schema_id: int) -> str:
        return f"{self.prefix}{_SCHEMA}/schema-{schema_id}"

    def tag(self, name: str) -> str:
        return f"{self.prefix}{_TAG}/{TAG_PREFIX}{name}"

    def tag_success(self, name: str) -> str:
        """Return the key of the file that says that a tag is there."""
        return f"{self.prefix}{_TAG}/{TAG_SUCCESS_FOLDER}/{name}_SUCCESS"

    def consumer(self, name: str) -> str:
        return f"{self.prefix}{_CONSUMER}/{CONSUMER_PREFIX}{name}"

    @property
    def staged_prefix(self) -> str:
        """What the names of the branch's staged commits begin with. A branch may have a name of 200 bytes."""
        if self.branch is None:
            return _STAGED_PREFIX
        digest = hashlib.blake2b(self.branch.encode(), digest_size=8).hexdigest()
        return f"on-{digest}-{_STAGED_PREFIX}"

    def staged_commit(self, commit_user: str, commit_identifier: int) -> str:
        name = quote(commit_user, safe="")
        if len(name) > _LONGEST_USER:
            digest = hashlib.blake2b(commit_user.encode(), digest_size=16).hexdigest()
            name = f"{name[: _LONGEST_USER - 33]}-{digest}"
        # A user may be named "..", which must not be a part of a key.
        return f"{PENDING_FOLDER}/{self.staged_prefix}{name}-{commit_identifier}.json"


MAIN: Final = TableLayout()


def manifest_key(name: str) -> str:
    """Return the key of a manifest, a manifest list or an index manifest."""
    return f"{MANIFEST_FOLDER}/{name}"


def index_key(name: str) -> str:
    """Return the key of an index file that does not lie beside the data files of its bucket."""
    return f"{INDEX_FOLDER}/{name}"


def statistics_key(name: str) -> str:
    return f"{STATISTICS_FOLDER}/{name}"


def deletion_plan_key(uuid: str) -> str:
    return f"{OWN_FOLDER}/{_PLAN_PREFIX}{uuid}{_PLAN_SUFFIX}"


def is_deletion_plan(name: str) -> bool:
    """Return whether a file of this name in the folder `lakehouse` is a deletion plan."""
    return name.startswith(_PLAN_PREFIX) and name.endswith(_PLAN_SUFFIX)


def layout_at(prefix: str) -> TableLayout:
    """Return the layout whose keys begin with `prefix`."""
    name = prefix.rstrip("/").rpartition("/")[2]
    return TableLayout(name.removeprefix(BRANCH_PREFIX)) if prefix else MAIN


def branch_in(name: str) -> str | None:
    """Return the branch that the name of a table names, None for the main one."""
    _, mark, branch = name.partition(BRANCH_MARK)
    return branch if mark else None


def branch_table_name(name: str, branch: str | None) -> str:
    """Return the name of a branch of the table `name`, which may be that of another branch; None: the main one."""
    table = name.partition(BRANCH_MARK)[0]
    return table if branch is None else f"{table}{BRANCH_MARK}{branch}"


def is_late(key: str) -> bool:
    """Return whether a verb may write the object after its table was dropped: a hint, or a record of this package. It
    says nothing about rows.
    """
    if key.startswith(f"{BRANCH_FOLDER}/{BRANCH_PREFIX}"):
        key = key.split("/", 2)[-1]
    return key in MAIN.hints or (key.startswith(f"{OWN_FOLDER}/") and key != COPY_MARK)


def bucket_folder(partition_path: str, bucket: int, *, data_folder: str = "") -> str:
    """Return the folder of a bucket; `partition_path` is "" or ends with "/", as `partition_path` makes it."""
    name = "bucket-postpone" if is_waiting_room(bucket) else f"bucket-{bucket}"
    prefix = f"{data_folder}/" if data_folder else ""
    return f"{prefix}{partition_path}{name}"
