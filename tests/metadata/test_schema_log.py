"""Schemas of a table: written once each, found without listing once known."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.schema import serialize_schema
from tests.planning.change_vocabulary import key_schema


def filled(count: int) -> SchemaLog:
    schemas = SchemaLog(MemoryStore(), MAIN)
    for schema_id in range(count):
        assert schemas.create(replace(key_schema(), id=schema_id, comment=f"number {schema_id}"))
    return schemas


def test_the_highest_id_is_the_latest() -> None:
    schemas = filled(12)

    assert schemas.latest().comment == "number 11"
    assert schemas.ids() == list(range(12))
    assert [schema.id for schema in schemas.all()] == list(range(12))


def test_of_two_that_alter_at_once_one_wins() -> None:
    schemas = filled(1)
    other = SchemaLog(schemas.store, MAIN)

    assert schemas.create(replace(key_schema(), id=1, comment="mine"))
    assert not other.create(replace(key_schema(), id=1, comment="theirs"))
    assert other.latest().comment == "mine"


def test_an_alteration_by_another_process_is_seen() -> None:
    schemas = filled(1)
    assert schemas.latest().id == 0
    other = SchemaLog(schemas.store, MAIN)
    for schema_id in (1, 2, 3):
        assert other.create(replace(key_schema(), id=schema_id))

    assert schemas.latest().id == 3


def test_of_known_schemas_only_the_latest_is_looked_at_again() -> None:
    store = FaultyStore(filled(5).store)
    schemas = SchemaLog(store, MAIN)
    schemas.latest()
    schemas.schema(4)
    before = len(store.calls)
    schemas.latest()
    schemas.schema(4)

    assert [(call.method, call.key) for call in store.calls[before:]] == [
        ("read", "schema/schema-4"),
        ("read", "schema/schema-5"),
    ]


def test_a_table_without_a_schema_is_not_found() -> None:
    schemas = SchemaLog(MemoryStore(), MAIN)

    assert schemas.ids() == []
    with pytest.raises(NotFound, match="there is no schema"):
        schemas.latest()
    with pytest.raises(NotFound, match="there is no schema 3"):
        schemas.schema(3)


def test_a_damaged_schema_is_never_a_missing_one() -> None:
    schemas = filled(1)
    schemas.store.write({"schema/schema-1": b"{"})

    with pytest.raises(CorruptTable, match="schema-1"):
        SchemaLog(schemas.store, MAIN).latest()


def without_checksum(data: bytes) -> bytes:
    """Return a schema file as Java writes it."""
    document = json.loads(data)
    return json.dumps({name: value for name, value in document.items() if "Crc32" not in name}, indent=2).encode()


@pytest.mark.parametrize("as_stored", [bytes, without_checksum], ids=["ours", "of Java"])
def test_a_schema_that_was_read_and_then_damaged_is_no_other_table(as_stored: Callable[[bytes], bytes]) -> None:
    """Each bit of it flipped once."""
    key, store = MAIN.schema(0), filled(1).store
    data = as_stored(store.read(key))
    store.write({key: data})
    schemas = SchemaLog(store, MAIN)
    schemas.latest()
    at = data.index(b'"timeMillis"')
    of_time = set(range(at, data.index(b"\n", at)))

    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1
        store.write({key: bytes(flipped)})
        # A time that differs may be that of another table.
        allowed = (CorruptTable, InvalidRequest) if as_stored is without_checksum and place in of_time else CorruptTable
        with pytest.raises(allowed, match="schema-0"):
            schemas.latest()


def test_a_table_that_was_made_again_is_another_one() -> None:
    schemas = filled(1)
    schemas.latest()
    again = replace(key_schema(), id=0, comment="number 0", time_millis=key_schema().time_millis + 1)
    schemas.store.write({MAIN.schema(0): serialize_schema(again)})

    with pytest.raises(InvalidRequest, match="dropped and created again"):
        schemas.latest()


def test_other_files_among_the_schemas_are_no_schemas() -> None:
    schemas = filled(1)
    for name in ("schema-01", "schema-x", "schema--1", "README", "schema-1.tmp"):
        schemas.store.write({f"schema/{name}": b""})

    assert schemas.ids() == [0]


def test_every_bucket_count_ever_set_is_known() -> None:
    schemas = filled(1)
    schemas.create(replace(key_schema(), id=1, options={"bucket": "4"}))
    schemas.create(replace(key_schema(), id=2, options={}))

    assert schemas.bucket_settings(schemas.latest()) == {"1", "4", "-1"}


def test_after_a_listing_the_newest_schema_is_asked_for_and_a_table_made_again_is_listed_again() -> None:
    store = filled(3).store
    calls: list[str] = []
    log = SchemaLog(FaultyStore(store, on_call=lambda call: calls.append(call.method)), MAIN)
    assert log.ids() == [0, 1, 2]
    calls.clear()

    assert log.latest().id == 2
    assert "children" not in calls

    again = SchemaLog(store, MAIN)
    assert again.ids() == [0, 1, 2]
    store.delete([MAIN.schema(1), MAIN.schema(2)])
    assert again.latest().id == 0
