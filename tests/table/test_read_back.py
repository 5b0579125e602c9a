"""What is about to be published is first read back: no call can publish what readers refuse."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.expiry.tags import create_tag
from lakehouse_core.format.data_types import AtomicType, DataField, TypeRoot
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.staged_commits import keep_pending
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.schema import TableSchema
from tests.execution.commit.commit_vocabulary import commit_table

LONG = "x" * (17 << 20)
FIELD: Any = DataField(0, "a", AtomicType(TypeRoot.INT))
FIRST: Any = TableSchema(id=0, fields=(FIELD,), highest_field_id=0)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (replace(FIRST, comment=5), "its comment is 5, expected text"),
        (replace(FIRST, comment=b"a"), "could not be read back"),
        (replace(FIRST, comment=LONG), "the limit is 16777216"),
        (replace(FIRST, comment="\ud800"), "cannot be written"),
        (replace(FIRST, options={"a": 5}), "expected texts by name"),
        (replace(FIRST, primary_keys=("b",)), "primary key 'b' is not a column"),
        (replace(FIRST, highest_field_id=-1), "its field ids go from 0 to 0"),
        (replace(FIRST, time_millis=2**63), "beyond 64 bits"),
        (replace(FIRST, fields=(replace(FIELD, default_value=5),)), "expected text"),
        (replace(FIRST, fields=(replace(FIELD, name=5),)), "needs an integer id, a name"),
        (replace(FIRST, extra={"comment": "b"}), "would be read back as another value"),
    ],
)
def test_a_schema_that_readers_refuse_is_not_published(schema: TableSchema, says: str) -> None:
    store = MemoryStore()

    with pytest.raises(InvalidRequest, match=rf"^The schema .*({says}).*Nothing was changed"):
        SchemaLog(store, MAIN).create(schema)

    assert not list(store.list(""))


@pytest.mark.parametrize(
    "more",
    [
        {"watermark": 2**63},
        {"watermark": "5"},
        {"commit_identifier": "7"},
        {"properties": {"lakehouse": LONG}},
    ],
    ids=["watermark beyond 64 bits", "watermark as text", "identifier as text", "properties beyond a file"],
)
def test_a_snapshot_that_readers_refuse_is_not_published_and_leaves_nothing(more: dict[str, Any]) -> None:
    table = commit_table()
    table.commit(table.append("first"))
    before = {found.key for found in table.store.list("")}
    staged = replace(table.append("second", identifier=2), **more)

    with pytest.raises(InvalidRequest):
        table.commit(staged)

    left = {found.key for found in table.store.list("")} - before
    assert left == {"bucket-0/second"}
    assert table.live() == "first@0"
    assert table.commit(table.append("third", identifier=3)).snapshots[0].id == 2


def test_what_is_claimed_is_read_back_whatever_made_it() -> None:
    table = commit_table()
    snapshot = table.commit(table.append("first")).snapshots[0]
    hostile = snapshot.model_copy(update={"id": 2, "base_manifest_list": "../manifest-list", "commit_user": "a"})

    with pytest.raises(InvalidRequest, match=r"The snapshot could not be read back \(snapshot/snapshot-2: field base"):
        table.context.snapshots.create(hostile)

    assert table.context.snapshots.ids.latest() == 1


def test_a_staged_commit_that_could_not_be_loaded_is_not_kept() -> None:
    table = commit_table()
    staged = replace(table.append("first"), watermark=2**63)

    with pytest.raises(
        InvalidRequest, match=r"The staged commit could not be read back .*watermark is 9223372036854775808"
    ):
        keep_pending(table.store, table.context.layout, staged)

    assert not table.store.children("lakehouse").folders


def test_a_tag_reads_back_as_the_snapshot_that_it_names() -> None:
    table = commit_table()
    table.commit(table.append("first"))

    tag = create_tag(table.context, "eod", retention_millis=1000)

    assert table.again().tags.tag("eod") == tag
