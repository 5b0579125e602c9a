"""What will never be committed goes as a whole, and nothing else goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, InvalidRequest
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.write.stage import stage
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore
from lakehouse_core.table.commit_message import Append, CommitMessage
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.schema import TableSchema
from tests.contexts import context_of
from tests.planning.change_vocabulary import data_file, key_schema, partition

FOLDER = "dt=a/bucket-0"


def index(name: str) -> IndexFile:
    return IndexFile(index_type="DELETION_VECTORS", file_name=name, file_size=1, row_count=1)


# A write with its compaction: files of every kind, one of them upgraded, two of them read.
MESSAGE = CommitMessage(
    partition=partition("a"),
    bucket=0,
    total_buckets=1,
    new_files=(data_file("new", 1, 2, extra_files=("new.index",)),),
    deleted_files=(data_file("deleted", 1, 2),),
    changelog_files=(data_file("changelog", 1, 2),),
    compact_before=(data_file("before", 1, 2), data_file("upgraded", 3, 4)),
    compact_after=(data_file("after", 1, 2, level=5), data_file("upgraded", 3, 4, level=5)),
    compact_changelog_files=(data_file("compact-changelog", 1, 2),),
    new_index_files=(index("new-index"),),
    deleted_index_files=(index("deleted-index"),),
    compact_new_index_files=(index("compact-index"),),
    compact_deleted_index_files=(index("compact-deleted-index"),),
)
MADE = {
    *(f"{FOLDER}/{name}" for name in ("new", "new.index", "changelog", "after", "compact-changelog")),
    *(f"index/{name}" for name in ("new-index", "compact-index")),
}
OTHERS = {
    *(f"{FOLDER}/{name}" for name in ("deleted", "before", "upgraded", "of another commit")),
    *(f"index/{name}" for name in ("deleted-index", "compact-deleted-index", "of another commit")),
    "dt=b/bucket-0/new",
}


@pytest.fixture
def store() -> MemoryStore:
    found = MemoryStore()
    for key in MADE | OTHERS:
        assert found.create_new(key, b"x")
    return found


def schema_of(**options: str) -> TableSchema:
    return key_schema(partitioned=True, **options)


def keys(store: MemoryStore) -> set[str]:
    return {info.key for info in store.list("") if not info.key.startswith("schema/")}


def test_all_files_of_a_message_go_and_no_file_that_it_only_read(store: MemoryStore) -> None:
    discard(store, schema_of(), [MESSAGE], named_by="the test")

    assert keys(store) == OTHERS


def test_index_files_beside_the_data_go_too() -> None:
    store = MemoryStore()
    assert store.create_new(f"{FOLDER}/new-index", b"x")
    schema = schema_of()
    beside = replace(schema, options={**schema.options, "index-file-in-data-file-dir": "true"})

    discard(store, beside, [MESSAGE], named_by="the test")

    assert keys(store) == set()


def test_a_store_that_fails_meanwhile_hides_nothing_and_the_next_message_goes(store: MemoryStore) -> None:
    failing = FaultyStore(store, [Fault(at=1, kind=FaultKind.FAIL_BEFORE)])

    discard(failing, schema_of(), [MESSAGE, MESSAGE], named_by="the test")

    assert keys(store) == OTHERS


def test_a_name_that_leaves_its_folder_deletes_nothing(store: MemoryStore) -> None:
    message = replace(MESSAGE, new_index_files=(index("../schema/schema-0"),))

    with pytest.raises(CorruptTable, match=r"the test names the file '\.\./schema/schema-0'"):
        discard(store, schema_of(), [message], named_by="the test")

    assert keys(store) == MADE | OTHERS


@pytest.mark.parametrize("failure", [InvalidRequest("a row in the last task"), KeyboardInterrupt()])
def test_a_write_that_fails_after_some_buckets_takes_all_their_files_along(
    store: MemoryStore, failure: BaseException
) -> None:
    class Engine:
        def write(self, task: object, data: object, watch: object) -> Iterator[CommitMessage]:
            yield MESSAGE
            raise failure

    context = context_of(store, VirtualClock(), Engine())  # type: ignore[arg-type]
    assert context.schemas.create(schema_of())

    with pytest.raises(type(failure)):
        stage(
            context,
            [],
            commit_user="job",
            commit_identifier=1,
            rowkind_column=None,
            mode=Append(),
            properties={},
        )

    assert keys(store) == OTHERS
