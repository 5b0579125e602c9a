"""A schema is what its file says, byte for byte as Java lays it out; what no table may be never becomes one."""

import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, InvalidRequest, UnsupportedFeature
from lakehouse_core.format.data_types import DataField, field_ids, parse_type, type_to_sql
from lakehouse_core.format.strict_json import json_with_checksum
from lakehouse_core.options import WriteKind
from lakehouse_core.table.schema import (
    TableSchema,
    new_schema,
    parse_schema,
    read_supported,
    serialize_schema,
    write_supported,
)
from tests.format.strategies import data_types, fields
from tests.vectors.values import section

KEY = "schema/schema-0"
ORDERS = {"dt": "DATE", "id": "BIGINT", "status": "STRING", "amount": "DECIMAL(12, 2)", "tags": "ARRAY<STRING>"}
JAVA_FILES = [case for case in section("json_files") if "/schema/" in case["file"]]


def orders(options: dict[str, str] | None = None, columns: Any = None, **declared: Any) -> TableSchema:
    keys = {"primary_keys": ["dt", "id"], "partition_keys": ["dt"]} | declared
    return new_schema(
        ORDERS if columns is None else columns, options={"bucket": "4"} | (options or {}), now_millis=7, **keys
    )


def appended(options: dict[str, str] | None = None, columns: Any = None, **declared: Any) -> TableSchema:
    return new_schema(ORDERS if columns is None else columns, options=options, now_millis=7, **declared)


def stored(**changed: Any) -> bytes:
    """The file of a small schema, as Java writes it, with parts replaced or (None) left out."""
    document = {
        "version": 3,
        "id": 0,
        "fields": [{"id": 0, "name": "a", "type": "INT NOT NULL"}, {"id": 1, "name": "b", "type": "STRING"}],
        "highestFieldId": 1,
        "partitionKeys": [],
        "primaryKeys": ["a"],
        "options": {"bucket": "2"},
        "timeMillis": 5,
    } | changed
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


def without_checksum(data: bytes) -> dict[str, Any]:
    document = json.loads(data)
    document.pop("lakehouseCrc32")
    return dict(document)


# Files.


@pytest.mark.parametrize("case", JAVA_FILES, ids=lambda case: case["file"])
def test_a_schema_of_java_is_written_back_with_the_same_meaning(case: dict[str, Any]) -> None:
    schema = parse_schema(case["text"].encode(), case["file"])

    assert without_checksum(serialize_schema(schema)) == json.loads(case["text"])


@pytest.mark.parametrize("case", JAVA_FILES, ids=lambda case: case["file"])
def test_a_schema_is_laid_out_as_java_lays_it_out(case: dict[str, Any]) -> None:
    written = serialize_schema(parse_schema(case["text"].encode(), case["file"])).decode()

    assert written.partition(',\n  "lakehouseCrc32"')[0] + "\n}" == case["text"]


@given(fields(data_types(4)), st.one_of(st.none(), st.text(max_size=9)), st.integers(0, 2**62))
def test_a_schema_survives_its_file(columns: tuple[DataField, ...], comment: str | None, now_millis: int) -> None:
    schema = TableSchema(
        id=3, fields=columns, highest_field_id=max(field_ids(columns)), comment=comment, time_millis=now_millis
    )

    assert parse_schema(serialize_schema(schema), "schema/schema-3") == schema


@pytest.mark.parametrize(
    ("version", "defaults"),
    [
        (None, {"bucket": "1", "file.format": "orc"}),
        (1, {"bucket": "1", "file.format": "orc"}),
        (2, {"file.format": "orc"}),
    ],
)
def test_old_files_keep_the_defaults_of_their_time(version: int | None, defaults: dict[str, str]) -> None:
    schema = parse_schema(stored(version=version, options={}), KEY)

    assert schema.options == defaults
    assert parse_schema(stored(version=version, options={"file.format": "avro"}), KEY).options["file.format"] == "avro"
    assert json.loads(serialize_schema(schema))["version"] == 3


def test_a_file_without_a_time_is_as_old_as_can_be() -> None:
    assert parse_schema(stored(timeMillis=None), KEY).time_millis == 0


def test_the_time_of_the_schema_before_is_kept_and_makes_no_other_schema() -> None:
    schema = parse_schema(stored(id=3), "schema/schema-3")
    data = serialize_schema(replace(schema, time_before_millis=4))
    after = parse_schema(data, "schema/schema-3")

    assert json.loads(data)["lakehouseBefore"] == {"id": 2, "timeMillis": 4}
    assert after.time_before_millis == 4
    assert after == schema
    assert serialize_schema(after) == data


def test_a_time_that_another_writer_copied_from_the_schema_before_is_none() -> None:
    data = serialize_schema(replace(parse_schema(stored(id=3), "schema/schema-3"), time_before_millis=4))
    document = {**without_checksum(data), "id": 4}

    assert parse_schema(json_with_checksum(document), "schema/schema-4").time_before_millis is None


def test_what_a_newer_writer_added_is_kept() -> None:
    schema = parse_schema(stored(ownerTeam={"name": "flights"}), KEY)

    assert json.loads(serialize_schema(schema))["ownerTeam"] == {"name": "flights"}


def test_attributes_of_fields_that_would_be_lost_are_remembered() -> None:
    nested = {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "INT", "mask": "hash"}], "packed": True}
    schema = parse_schema(
        stored(fields=[{"id": 0, "name": "a", "type": nested}], primaryKeys=[], highestFieldId=2), KEY
    )

    assert schema.foreign_attributes == ("mask", "packed")


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeature, match=r"schema-0: its version is 4, this package reads up to 3"):
        parse_schema(stored(version=4), KEY)
    with pytest.raises(UnsupportedFeature, match=r"schema-0: The type VECTOR"):
        parse_schema(stored(fields=[{"id": 0, "name": "a", "type": "VECTOR"}], primaryKeys=[]), KEY)


FIELD_A, FIELD_B = {"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "INT"}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"id": 1}, "its name says 0"),
        ({"id": "0"}, "its id is '0'"),
        ({"fields": None}, "its fields is None"),
        ({"fields": [{"id": 0, "name": "a"}], "primaryKeys": []}, "needs an integer id"),
        ({"fields": [{"id": 0, "name": "a", "type": "INTT"}], "primaryKeys": []}, "unknown type INTT"),
        ({"fields": [FIELD_A, FIELD_A]}, "column 'a' occurs more than once"),
        ({"fields": [FIELD_A, FIELD_B | {"id": 0}]}, "field id 0 occurs more than once"),
        ({"highestFieldId": 0}, "its field ids go from 0 to 1"),
        ({"primaryKeys": ["c"]}, "its primary key 'c' is not a column"),
        ({"partitionKeys": ["c"]}, "its partition key 'c' is not a column"),
        ({"primaryKeys": ["a", "a"]}, "repeat a column"),
        ({"primaryKeys": "a"}, "expected a list"),
        ({"primaryKeys": [1]}, "expected a list of names"),
        ({"options": {"bucket": 2}}, "expected texts by name"),
        ({"options": None}, "expected texts by name"),
        ({"comment": 5}, "expected text"),
        ({"timeMillis": "now"}, "its timeMillis is 'now'"),
    ],
)
def test_a_file_that_contradicts_itself_is_corrupt(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(CorruptTable, match=r"^schema/schema-0") as caught:
        parse_schema(stored(**changed), KEY)

    assert says in str(caught.value)


@given(st.data())
def test_a_changed_byte_never_becomes_another_schema(data: st.DataObject) -> None:
    whole = serialize_schema(orders())
    position = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[position] ^= data.draw(st.integers(1, 255))
    try:
        read = parse_schema(bytes(damaged), KEY)
    except (CorruptTable, UnsupportedFeature):
        return

    assert read == orders()


@given(st.integers(0, 400))
def test_a_truncated_file_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptTable):
        parse_schema(serialize_schema(orders())[:length], KEY)


# What a schema knows.


def test_keys_and_buckets_follow_from_the_schema() -> None:
    schema = orders(primary_keys=["id", "dt", "status"])

    assert schema.column_names == ("dt", "id", "status", "amount", "tags")
    assert schema.trimmed_primary_keys == schema.bucket_keys == ("id", "status")
    assert [field.name for field in schema.key_fields] == ["id", "status"]
    assert [field.name for field in schema.partition_fields] == ["dt"]
    assert not schema.is_append
    assert not schema.is_cross_partition
    assert schema.table_options.bucket == 4


def test_an_explicit_bucket_key_wins() -> None:
    schema = orders({"bucket-key": " status , id"}, primary_keys=["dt", "id", "status"])

    assert schema.bucket_keys == ("status", "id")
    assert schema.options["bucket-key"] == "status,id"  # Java splits at the comma and keeps blanks.


def test_a_table_without_a_key_appends() -> None:
    schema = appended()

    assert schema.is_append
    assert schema.bucket_keys == ()


def test_an_unknown_column_is_answered_with_near_names() -> None:
    with pytest.raises(InvalidRequest, match=r"no column 'statsu': did you mean status"):
        orders().field("statsu")
    with pytest.raises(InvalidRequest, match=r"no column 'q': the table has dt, id"):
        orders().field("q")


# Creation.


def test_ids_are_assigned_depth_first() -> None:
    schema = appended(
        columns={"a": "INT", "r": "ROW<x INT, y ARRAY<ROW<z INT>>>", "m": "MAP<STRING, ROW<v INT>>", "b": "INT"}
    )

    assert field_ids(schema.fields) == list(range(8))
    assert schema.field("b").id == 7
    assert schema.highest_field_id == 7


def test_columns_of_the_primary_key_become_not_null() -> None:
    schema = orders(partition_keys=[], primary_keys=["id"])

    assert type_to_sql(schema.field("id").type) == "BIGINT NOT NULL"
    assert type_to_sql(schema.field("dt").type) == "DATE"


def test_keys_may_come_as_options() -> None:
    schema = orders({"primary-key": "dt, id", "partition": "dt"}, primary_keys=[], partition_keys=[])

    assert (schema.primary_keys, schema.partition_keys) == (("dt", "id"), ("dt",))
    assert schema.options == {"bucket": "4"}


def test_columns_may_come_from_arrow_or_as_fields() -> None:
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("r", pa.struct([("x", pa.int32())]))])
    declared = [DataField(99, "id", parse_type("BIGINT NOT NULL")), DataField(5, "r", parse_type("ROW<x INT>"))]

    assert appended(columns=arrow) == appended(columns=declared)
    assert appended(columns=arrow).highest_field_id == 2


REFUSED = [
    (appended, {"columns": []}, "at least one column"),
    (appended, {"columns": {"a": "DECMAL(3)"}}, "Column 'a': 'DECMAL(3)' is not a data type"),
    (appended, {"columns": {" ": "INT"}}, "not blank"),
    (appended, {"columns": {"rowkind": "INT"}}, "the name is reserved"),
    (appended, {"columns": {"_KEY_a": "INT"}}, "the name is reserved"),
    (appended, {"columns": {"a\ud800": "INT"}}, "not valid Unicode"),
    (appended, {"columns": [DataField(0, "a", parse_type("INT"))] * 2}, "2 columns named 'a'"),
    (appended, {"columns": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, "2 columns named 'a'"),
    (appended, {"columns": pa.schema([("a", pa.uint8())])}, "Column a: the Arrow type uint8 has no counterpart"),
    (appended, {"columns": {"r": "ROW<x INT, x INT>"}}, "Column r has 2 columns named 'x'"),
    (appended, {"columns": {"r": "ARRAY<ROW<>>"}}, "at least one field"),
    (appended, {"primary_keys": "id"}, "give a list"),
    (orders, {"primary_keys": ["nope", "dt"]}, "The primary key names column 'nope', which the table does not have"),
    (orders, {"primary_keys": ["id", "id", "dt"]}, "names column 'id' 2 times"),
    (orders, {"partition_keys": ["dt", "dt"]}, "names column 'dt' 2 times"),
    (orders, {"primary_keys": ["dt"]}, "has partition columns only"),
    (orders, {"primary_keys": ["dt", "tags"]}, "cannot be part of the primary key"),
    (appended, {"partition_keys": ["tags"]}, "cannot be part of the partition key"),
    (appended, {"columns": {"p": "BYTES"}, "partition_keys": ["p"]}, "no stable name"),
    (orders, {"primary_keys": ["id"], "options": {"bucket": "2"}}, "lacks a partition column"),
    (orders, {"options": {"primary-key": "id"}}, "give it once"),
    (orders, {"options": {"bucket": "0"}}, "expected 1 or more"),
    (orders, {"options": {"bucket-key": "dt"}}, "a partition column"),
    (orders, {"options": {"bucket-key": "status"}}, "not in the primary key"),
    (orders, {"options": {"bucket-key": "nope"}}, "is not a column"),
    (orders, {"options": {"bucket-key": "id,id"}}, "more than once"),
    (appended, {"options": {"bucket": "2"}}, "set bucket-key, or bucket to -1"),
    (appended, {"options": {"bucket": "-2"}}, "the table has no primary key: only rows with a key wait"),
    (appended, {"options": {"bucket-key": "id"}}, "which needs no bucket key"),
    (appended, {"options": {"bucket": "2", "bucket-key": "tags"}}, "only types without parts"),
    (
        appended,
        {"options": {"bucket": "2", "bucket-key": "status", "bucket-function.type": "mod"}},
        "one INT or BIGINT",
    ),
    (
        appended,
        {
            "columns": {"t": "TIMESTAMP(3)"},
            "options": {"bucket": "2", "bucket-key": "t", "bucket-function.type": "hive"},
        },
        "no timestamps",
    ),
    (appended, {"options": {"file-index.bloom-filter.columns": "amount"}}, "which a bloom-filter index cannot hold"),
    (appended, {"options": {"file-index.bitmap.columns": "id,tags"}}, "names tags, a ARRAY<STRING>, which a bitmap"),
    (appended, {"options": {"file-index.bitmap.columns": "id[x]"}}, "only a MAP with keys of STRING"),
    (
        appended,
        {"options": {"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.items": "2000000000"}},
        "The bloom filter of id would have",
    ),
    (orders, {"options": {"sequence.field": "nope"}}, "sequence.field names 'nope'"),
    (orders, {"options": {"sequence.field": "amount,amount"}}, "2 times"),
    (orders, {"options": {"sequence.field": "tags"}}, "has no order"),
    (
        orders,
        {"options": {"sequence.field": "amount", "fields.amount.aggregate-function": "sum"}},
        "takes no aggregate",
    ),
    (appended, {"options": {"sequence.field": "amount"}}, "needs a primary key"),
    (orders, {"options": {"rowkind.field": "nope"}}, "rowkind.field names 'nope'"),
    (orders, {"options": {"rowkind.field": "amount"}}, "must be a STRING"),
    (appended, {"options": {"changelog-producer": "input"}}, "only a table with a primary key"),
    (orders, {"options": {"bukcet": "4"}}, "did you mean bucket?"),
    (appended, {"columns": [DataField(0, "a", parse_type("INT"), None, "x")]}, "Column a, its default: 'x'"),
]


UNWRITTEN_INDEXES = [
    ({"file-index.bsi.columns": "k"}, "bsi indexes can be read, but not written"),
    ({"file-index.bitmap.columns": "m[x]"}, r"an index of a map's values \(m\[x\]\) is not supported"),
    (
        {"file-index.bitmap.columns": "k", "file-index.bitmap.k.version": "1"},
        "file-index.bitmap.k.version = 1: expected version 2",
    ),
]


@pytest.mark.parametrize(("options", "says"), UNWRITTEN_INDEXES)
def test_an_index_that_is_not_written_is_refused_at_creation(options: dict[str, str], says: str) -> None:
    with pytest.raises(UnsupportedFeature, match=says):
        appended(options, {"k": "INT", "m": "MAP<STRING, INT>"})


@pytest.mark.parametrize(("make", "declared", "says"), REFUSED)
def test_what_no_table_may_be_is_refused(make: Any, declared: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(**declared)

    assert says in str(caught.value)


UNSUPPORTED = [
    (orders, {"options": {"sequence.snapshot-ordering": "true"}}, "sequence.snapshot-ordering = true"),
    (
        orders,
        {"primary_keys": ["id"], "options": {"bucket": "-1", "ignore-delete": "true"}},
        "ignore-delete is true, and keys move between partitions",
    ),
    (orders, {"options": {"row-tracking.enabled": "true"}}, "row-tracking.enabled = true"),
    (appended, {"options": {"file.format": "csv"}}, "file.format = csv"),
    (appended, {"columns": {"a": "VARIANT"}}, "Column a: the type VARIANT"),
    (appended, {"columns": {"a": "ARRAY<BLOB>"}}, "Column a: the type BLOB"),
    (appended, {"columns": {"a": "TIMESTAMP(9)", "b": "ARRAY<TIMESTAMP(3)>"}}, "column b one of at most 6"),
    (appended, {"columns": [DataField(0, "a", parse_type("ARRAY<INT>"), None, "[1]")]}, "a default of ARRAY<INT>"),
]


@pytest.mark.parametrize(("make", "declared", "says"), UNSUPPORTED)
def test_what_is_not_supported_yet_is_refused_by_name(make: Any, declared: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        make(**declared)

    assert says in str(caught.value)


def test_timestamps_of_one_fineness_are_fine() -> None:
    assert appended(columns={"a": "TIMESTAMP(9)", "b": "ARRAY<TIMESTAMP_LTZ(7)>"}).highest_field_id == 1
    assert appended(columns={"a": "TIMESTAMP(6)", "b": "TIMESTAMP(0)"}).highest_field_id == 1


@given(fields(data_types(3)))
def test_whatever_is_created_can_be_read_back(columns: tuple[DataField, ...]) -> None:
    try:
        schema = appended(columns=columns)
    except UnsupportedFeature:
        return

    assert parse_schema(serialize_schema(schema), KEY) == schema
    write_supported(schema)
    read_supported(schema)


# Tables of others.


def of_java(options: dict[str, str], **changed: Any) -> TableSchema:
    return parse_schema(stored(options={"bucket": "2"} | options, **changed), KEY)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "5"},
        {"bucket": "-1"},
        {"row-tracking.enabled": "true"},
        {"file-index.bloom-filter.columns": "a"},
        {"record-level.expire-time": "1 d", "record-level.time-field": "a"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row"},
        {"merge-engine": "aggregation", "deletion-vectors.enabled": "true"},
        {"scan.mode": "latest-full"},
        {"scan.snapshot-id": "5"},
        {"incremental-between": "1,5"},
        {"connector": "paimon"},
    ],
)
def test_tables_whose_files_say_all_are_read(options: dict[str, str]) -> None:
    assert refusal_to_read(of_java(options)) is None


def refusal_to_read(schema: TableSchema) -> str | None:
    try:
        read_supported(schema, table="db.t")
    except UnsupportedFeature as refused:
        return str(refused)
    return None


MISREAD = [
    ("data-evolution.enabled", "true"),
    ("sequence.snapshot-ordering", "true"),
    ("pk-clustering-override", "true"),
    ("primary-key.nullable", "true"),
    ("chain-table.enabled", "true"),
    ("query-auth.enabled", "true"),
    ("data-file.external-paths", "s3://x"),
    ("scan.fallback-branch", "b"),
    ("branch", "b"),
    ("type", "format-table"),
    ("fields.a.map.storage-layout", "shared-shredding"),
]


@pytest.mark.parametrize(("key", "value"), MISREAD)
def test_tables_that_could_be_misread_are_refused_by_name(key: str, value: str) -> None:
    assert (refusal_to_read(of_java({key: value})) or "").startswith(f"db.t: option {key} = {value}")


# A fallback for partitions that a branch lacks does not concern what is written.
@pytest.mark.parametrize(("key", "value"), [pair for pair in MISREAD if pair[0] != "scan.fallback-branch"])
@pytest.mark.parametrize("kind", [WriteKind.ROWS, WriteKind.MAINTENANCE])
def test_tables_that_could_be_misread_are_not_written(key: str, value: str, kind: WriteKind) -> None:
    with pytest.raises(UnsupportedFeature, match=re.escape(f"db.t: option {key} = {value}")) as refused:
        write_supported(of_java({key: value}), table="db.t", kind=kind)
    assert str(refused.value).endswith("It cannot be read here either.")


def test_a_merge_engine_means_nothing_without_a_key() -> None:
    options = {"merge-engine": "aggregation", "changelog-producer": "lookup", "bucket": "-1"}

    assert refusal_to_read(of_java(options, primaryKeys=[])) is None
    assert refusal_to_read(of_java(options)) is None


def test_columns_that_cannot_be_read_spoil_only_themselves() -> None:
    schema = of_java({}, fields=[{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "v", "type": "VARIANT"}])

    read_supported(schema, columns=["a"])
    with pytest.raises(UnsupportedFeature, match="Column v is a VARIANT"):
        read_supported(schema, columns=["v"])
    with pytest.raises(UnsupportedFeature, match="Column v: the type VARIANT"):
        write_supported(schema)


def test_a_bad_value_of_an_option_is_named_when_it_is_needed() -> None:
    schema = of_java({"write-buffer-size": "much"})

    with pytest.raises(InvalidRequest, match="Option write-buffer-size is 'much'"):
        read_supported(schema)


def test_columns_that_differ_only_by_case_are_refused_for_new_tables() -> None:
    with pytest.raises(InvalidRequest, match="Column 'A' differs from column 'a' only by case"):
        new_schema({"a": "INT", "A": "INT"}, now_millis=0)


def test_a_schema_prints_its_columns_keys_and_options() -> None:
    columns = {"k": "INT NOT NULL", "tags": "ARRAY<STRING>"}

    keyed = new_schema(columns, primary_keys=["k"], options={"bucket": "2"}, now_millis=0)

    assert repr(keyed) == (
        "TableSchema(0, columns='k INT NOT NULL, tags ARRAY<STRING>', primary_keys='k', options={'bucket': '2'})"
    )
    assert str(new_schema({"v": "INT"}, now_millis=0)) == "TableSchema(0, columns='v INT')"
