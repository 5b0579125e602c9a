"""ALTER TABLE makes the next schema as Java makes it, and never one that misreads what is stored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest, LakehouseError, UnsupportedFeature
from lakehouse_core.format.data_types import AtomicType, RowType, field_ids, parse_type, type_to_sql
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.options import IMMUTABLE_OPTIONS
from lakehouse_core.planning.alter.schema_change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from lakehouse_core.table.schema import TableSchema, new_schema, parse_schema, serialize_schema

COLUMNS = {
    "p": "INT",
    "k": "INT",
    "a": "INT",
    "s": "STRING",
    "r": "ROW<x INT, y STRING>",
    "arr": "ARRAY<INT>",
    "m": "MAP<STRING, ROW<q INT>>",
    "nn": "INT NOT NULL",
    "d": "DECIMAL(10, 2)",
}
KEYED = new_schema(
    COLUMNS,
    primary_keys=["p", "k"],
    partition_keys=["p"],
    options={"bucket": "2", "bucket-key": "k", "sequence.field": "a", "fields.s.stats-mode": "none"},
    now_millis=1,
)
PLAIN = new_schema(COLUMNS, partition_keys=["p"], now_millis=1)
BUCKETED = new_schema(COLUMNS, options={"bucket": "2", "bucket-key": "k"}, now_millis=1)


def altered(schema: TableSchema, *changes: SchemaChange, has_snapshots: bool = True) -> TableSchema:
    return apply_changes(schema, changes, has_snapshots=has_snapshots, now_millis=9)


def sql(schema: TableSchema) -> str:
    return ", ".join(f"{field.name} {type_to_sql(field.type)}" for field in schema.fields)


def with_options(schema: TableSchema, options: Mapping[str, str]) -> TableSchema:
    return altered(schema, *[SetOption(key, value) for key, value in options.items()], has_snapshots=False)


def test_each_alteration_is_a_new_version() -> None:
    first = altered(PLAIN, UpdateComment("by day"))
    second = altered(first, UpdateComment(None))

    assert (first.id, first.comment, first.time_millis) == (1, "by day", 9)
    assert (second.id, second.comment) == (2, None)
    assert first.fields == PLAIN.fields


# Columns: what the schema says afterwards, as Java 2.0.0 said it.

ALTERED = [
    ([AddColumn("z", "STRING", "note")], "z", 12, "STRING"),
    ([AddColumn(("r", "z"), "INT", after="x")], "r", 4, "ROW<`x` INT, `z` INT, `y` STRING>"),
    ([AddColumn(("m", "value", "z"), "INT", first=True)], "m", 8, "MAP<STRING, ROW<`z` INT, `q` INT>>"),
    ([DropColumn(("r", "x"))], "r", 4, "ROW<`y` STRING>"),
    ([RenameColumn(("r", "x"), "xx")], "r", 4, "ROW<`xx` INT, `y` STRING>"),
    ([UpdateColumnType("a", "BIGINT")], "a", 2, "BIGINT"),
    ([UpdateColumnType("nn", "BIGINT")], "nn", 10, "BIGINT NOT NULL"),
    ([UpdateColumnType("nn", "BIGINT NOT NULL")], "nn", 10, "BIGINT NOT NULL"),
    ([UpdateColumnType("d", "DECIMAL(8, 1)")], "d", 11, "DECIMAL(8, 1)"),
    ([UpdateColumnType(("r", "x"), "BIGINT")], "r", 4, "ROW<`x` BIGINT, `y` STRING>"),
    ([UpdateColumnType(("arr", "element"), "BIGINT")], "arr", 7, "ARRAY<BIGINT>"),
    ([UpdateColumnType(("m", "value", "q"), "DOUBLE")], "m", 8, "MAP<STRING, ROW<`q` DOUBLE>>"),
    ([UpdateColumnNullability("nn", True)], "nn", 10, "INT"),
    (
        [SetOption("alter-column-null-to-not-null.disabled", "false"), UpdateColumnNullability("a", False)],
        "a",
        2,
        "INT NOT NULL",
    ),
    ([UpdateColumnComment(("r", "x"), "it's")], "r", 4, "ROW<`x` INT 'it''s', `y` STRING>"),
    ([AddColumn("z", "INT"), DropColumn("z"), AddColumn("z", "DATE")], "z", 13, "DATE"),
]


@pytest.mark.parametrize(("changes", "name", "field_id", "text"), ALTERED)
def test_a_column_changes_and_keeps_its_id(changes: list[SchemaChange], name: str, field_id: int, text: str) -> None:
    schema = altered(KEYED, *changes)

    assert schema.field(name).id == field_id
    assert type_to_sql(schema.field(name).type) == text
    assert len(set(field_ids(schema.fields))) == len(field_ids(schema.fields))


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (AddColumn("z", "INT"), "p k a s r arr m nn d z"),
        (AddColumn("z", "INT", first=True), "z p k a s r arr m nn d"),
        (AddColumn("z", "INT", after="k"), "p k z a s r arr m nn d"),
        (AddColumn("z", "INT", before="k"), "p z k a s r arr m nn d"),
        (MoveColumn("s", first=True), "s p k a r arr m nn d"),
        (MoveColumn("p", after="d"), "k a s r arr m nn d p"),
        (MoveColumn("d", before="a"), "p k d a s r arr m nn"),
        (MoveColumn("k", last=True), "p a s r arr m nn d k"),
        (DropColumn("d"), "p k a s r arr m nn"),
        (RenameColumn("d", "price"), "p k a s r arr m nn price"),
    ],
)
def test_columns_have_the_place_they_are_given(change: SchemaChange, order: str) -> None:
    assert " ".join(altered(KEYED, change).column_names) == order


def test_new_columns_may_go_before_the_partition_by_an_option() -> None:
    schema = new_schema({"a": "INT", "p": "INT"}, partition_keys=["p"], now_millis=1)

    assert altered(
        with_options(schema, {"add-column-before-partition": "true"}), AddColumn("z", "INT")
    ).column_names == (
        "a",
        "z",
        "p",
    )


def test_ids_of_dropped_columns_are_never_used_again() -> None:
    schema = altered(KEYED, DropColumn("d"), AddColumn("d", "ROW<x INT>"))

    assert schema.field("d").id == 12
    assert schema.highest_field_id == 13
    assert altered(schema, DropColumn("d"), AddColumn("d", "INT")).field("d").id == 14


def test_a_renamed_column_is_renamed_in_keys_and_options() -> None:
    schema = altered(KEYED, RenameColumn("k", "id"), RenameColumn("a", "version"), RenameColumn("s", "status"))

    assert schema.primary_keys == ("p", "id")
    assert dict(schema.options) == {
        "bucket": "2",
        "bucket-key": "id",
        "sequence.field": "version",
        "fields.status.stats-mode": "none",
    }


def test_options_that_only_look_like_the_old_name_stay() -> None:
    options = {
        "fields.s,a.sequence-group": "d,nn",
        "fields.d.aggregate-function": "sum",
        "fields.nn.ignore-retract": "true",
    }
    schema = altered(with_options(PLAIN, options), RenameColumn("d", "e"), RenameColumn("a", "b"))

    assert dict(schema.options) == {
        "fields.s,b.sequence-group": "e,nn",
        "fields.e.aggregate-function": "sum",
        "fields.nn.ignore-retract": "true",
    }


NESTED = "ARRAY<ROW<x INT, y STRING>>"
NESTED_OPTIONS = {
    "fields.r.aggregate-function": "nested_update",
    "fields.r.nested-key": "x",
    "fields.r.nested-sequence-field": "y, x",
    "fields.r.count-limit": "3",
    "fields.m.ts-field": "ts",
    "partial-update.remove-record-on-sequence-group": "x",
}


def nested(options: dict[str, str]) -> TableSchema:
    return new_schema(
        {"k": "INT", "x": "INT", "n": "INT", "r": NESTED, "m": "MAP<INT, ROW<v INT, ts STRING>>"},
        primary_keys=["k"],
        options={"bucket": "1", **options},
        now_millis=0,
    )


def test_a_renamed_column_is_renamed_in_options_about_merging_and_fields_of_that_name_stay() -> None:
    schema = altered(nested(NESTED_OPTIONS), RenameColumn("x", "xx"), RenameColumn("r", "rr"), RenameColumn("m", "mm"))

    assert dict(schema.options) == {
        "bucket": "1",
        "fields.rr.aggregate-function": "nested_update",
        "fields.rr.nested-key": "x",
        "fields.rr.nested-sequence-field": "y, x",
        "fields.rr.count-limit": "3",
        "fields.mm.ts-field": "ts",
        "partial-update.remove-record-on-sequence-group": "xx",
    }


def test_a_renamed_field_is_renamed_in_the_options_of_its_column() -> None:
    schema = altered(
        nested(NESTED_OPTIONS),
        RenameColumn(("r", "element", "x"), "id"),
        RenameColumn(("m", "value", "ts"), "time"),
    )

    assert dict(schema.options) == {
        **nested(NESTED_OPTIONS).options,
        "fields.r.nested-key": "id",
        "fields.r.nested-sequence-field": "y,id",
        "fields.m.ts-field": "time",
    }


MERGING: list[tuple[dict[str, str], SchemaChange, str]] = [
    ({"merge-engine": "aggregation", **NESTED_OPTIONS}, DropColumn("r"), "names the column 'r'"),
    ({"merge-engine": "aggregation", **NESTED_OPTIONS}, DropColumn(("r", "element", "x")), "nested-key names 'x'"),
    ({"merge-engine": "aggregation"}, SetOption("fields.x.aggregate-function", "summ"), "did you mean sum"),
    ({"merge-engine": "partial-update", "fields.n.sequence-group": "x"}, DropColumn("x"), "names 'x', which is no"),
    ({"merge-engine": "partial-update", "fields.n.sequence-group": "x"}, DropColumn("n"), "names the column 'n'"),
    ({"merge-engine": "aggregation"}, SetOption("aggregation.remove-record-on-delete", "true"), "depends on it"),
    ({"merge-engine": "partial-update"}, SetOption("partial-update.remove-record-on-delete", "true"), "depends on it"),
    (
        {"merge-engine": "partial-update", "fields.n.sequence-group": "x"},
        SetOption("partial-update.remove-record-on-sequence-group", "n"),
        "depends on it",
    ),
    ({"merge-engine": "aggregation"}, SetOption("merge-engine", "deduplicate"), "depends on it"),
]


@pytest.mark.parametrize(("options", "change", "says"), MERGING)
def test_a_change_that_merging_does_not_take_is_refused(
    options: dict[str, str], change: SchemaChange, says: str
) -> None:
    schema = replace(nested({}), options={"bucket": "1", **options})

    with pytest.raises((InvalidRequest, UnsupportedFeature)) as caught:
        altered(schema, change)

    assert says in str(caught.value)


def test_a_renamed_column_keeps_its_indexes() -> None:
    options = {
        "file-index.bitmap.columns": "a, s",
        "file-index.bitmap.a.index-block-size": "1 kb",
        "file-index.bloom-filter.columns": "s",
        "file-index.in-manifest-threshold": "1 kb",
    }
    schema = altered(with_options(PLAIN, options), RenameColumn("a", "b"))

    assert dict(schema.options) == {
        "file-index.bitmap.columns": "b,s",
        "file-index.bitmap.b.index-block-size": "1 kb",
        "file-index.bloom-filter.columns": "s",
        "file-index.in-manifest-threshold": "1 kb",
    }


def test_a_default_comes_and_goes() -> None:
    schema = altered(KEYED, UpdateColumnDefault("a", "5"))

    assert schema.field("a").default_value == "5"
    assert altered(schema, UpdateColumnDefault("a", None)).field("a").default_value is None


REFUSED: list[tuple[TableSchema, SchemaChange, str]] = [
    (KEYED, AddColumn("z", "INT NOT NULL"), "Leave NOT NULL out"),
    (KEYED, AddColumn("a", "INT"), "exists already"),
    (KEYED, AddColumn("z", "INTT"), "is not a data type"),
    (KEYED, AddColumn("z", "INT", after="qq"), "no column qq"),
    (KEYED, AddColumn("z", "INT", first=True, after="a"), "one of first, after and before"),
    (KEYED, AddColumn("_LEVEL", "INT"), "reserved"),
    (KEYED, AddColumn(("arr", "element", "z"), "INT"), "INT has no fields"),
    (KEYED, AddColumn(("qq", "z"), "INT"), "no column qq"),
    (KEYED, DropColumn("k"), "part of the primary key"),
    (KEYED, DropColumn("p"), "part of the partition key"),
    (KEYED, DropColumn("a"), "sequence.field names 'a'"),
    (KEYED, DropColumn("s"), "fields.s.stats-mode names the column 's'"),
    (KEYED, DropColumn("qq"), "no column qq"),
    (KEYED, DropColumn(("m", "value", "q")), "is the last one"),
    (BUCKETED, DropColumn("k"), "bucket-key names 'k'"),
    (KEYED, RenameColumn("p", "pp"), "part of the partition key"),
    (KEYED, RenameColumn("d", "a"), "exists already"),
    (KEYED, RenameColumn(("r", "x"), "y"), "r.y exists already"),
    (KEYED, RenameColumn("d", " "), "not blank"),
    (KEYED, UpdateColumnType("k", "BIGINT"), "part of the primary key"),
    (KEYED, UpdateColumnType("p", "BIGINT"), "part of the partition key"),
    (BUCKETED, UpdateColumnType("k", "BIGINT"), "decides the bucket"),
    (KEYED, UpdateColumnType("a", "BIGINT NOT NULL"), "may hold nulls, so it stays nullable"),
    (KEYED, UpdateColumnType("arr", "ARRAY<BIGINT>"), "('column', 'element')"),
    (KEYED, UpdateColumnType("d", "BOOLEAN"), "values could not be read"),
    (KEYED, UpdateColumnType(("m", "key"), "STRING"), "has no part 'key'"),
    (KEYED, UpdateColumnNullability("a", False), "may hold nulls, so it stays nullable"),
    (KEYED, UpdateColumnNullability("k", True), "stays NOT NULL"),
    (KEYED, UpdateColumnDefault("a", "x"), "its default: 'x'"),
    (KEYED, MoveColumn("s", after="s"), "next to itself"),
    (KEYED, MoveColumn("s"), "exactly one of"),
    (KEYED, MoveColumn("s", first=True, last=True), "exactly one of"),
    (KEYED, MoveColumn("s", after="qq"), "no column qq"),
    (KEYED, SetOption("bukcet", "4"), "did you mean bucket?"),
    (KEYED, SetOption("fields.qq.stats-mode", "none"), "names the column 'qq'"),
    (KEYED, SetOption("snapshot.num-retained.min", "0"), "at least 1"),
    (KEYED, SetOption("snapshot.num-retained.max", "5"), "set 1 <= min <= max"),
    (KEYED, SetOption("bucket", "-1"), "put them into different buckets"),
    (PLAIN, SetOption("bucket", "4"), "put them into different buckets"),
    (KEYED, RemoveOption("bucket"), "cannot be removed"),
    (KEYED, RemoveOption("bukcet"), "did you mean bucket?"),
    (KEYED, SetOption("primary-key", "k"), "cannot change"),
    (KEYED, SetOption("type", "format-table"), "cannot change"),
    (KEYED, SetOption("path", "/elsewhere"), "cannot change"),
    (KEYED, SetOption("rowkind.field", "s"), "the table has data"),
    (KEYED, SetOption("bucket-function.type", "mod"), "the table has data"),
    (KEYED, RemoveOption("bucket-key"), "the table has data"),
    (KEYED, SetOption("partition.legacy-name", "false"), "the table has data"),
    (KEYED, SetOption("partition.default-name", "none"), "the table has data"),
    (KEYED, SetOption("deletion-vectors.enabled", "true"), "once there is data"),
    (with_options(KEYED, {"ignore-delete": "true"}), SetOption("ignore-delete", "false"), "may have dropped rows"),
    (with_options(KEYED, {"ignore-delete": "true"}), RemoveOption("ignore-delete"), "may have dropped rows"),
]


@pytest.mark.parametrize(("schema", "change", "says"), REFUSED)
def test_what_may_not_change_is_refused(schema: TableSchema, change: SchemaChange, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        altered(schema, change)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (SetOption("commit.callbacks", "x"), "commit.callbacks = x"),
        (SetOption("file.format", "csv"), "file.format = csv"),
        (AddColumn("z", "TIMESTAMP(9)"), None),
        (AddColumn("z", "VARIANT"), "Column z: the type VARIANT"),
    ],
)
def test_what_is_not_supported_yet_is_refused_by_name(change: SchemaChange, says: str | None) -> None:
    if says is None:
        assert altered(KEYED, change).column_names[-1] == "z"
        change, says = AddColumn("t", "TIMESTAMP(3)"), "column t one of at most 6"
        with pytest.raises(UnsupportedFeature, match=says):
            altered(altered(KEYED, AddColumn("z", "TIMESTAMP(9)")), change)
        return
    with pytest.raises(UnsupportedFeature) as caught:
        altered(KEYED, change)

    assert says in str(caught.value)


def test_a_wish_for_a_cast_is_wrong_where_the_table_forbids_them() -> None:
    change = UpdateColumnType("s", "INT")

    assert altered(KEYED, change).field("s").type == parse_type("INT")
    with pytest.raises(InvalidRequest, match="by an explicit cast only, and disable-explicit-type-casting is true"):
        altered(with_options(KEYED, {"disable-explicit-type-casting": "true"}), change)


def test_parts_of_a_constructed_type_change_one_by_one_but_all_of_it_may_become_text() -> None:
    assert altered(KEYED, UpdateColumnType("arr", "STRING")).field("arr").type == parse_type("STRING")


def test_fields_whose_changes_are_not_told_follow_their_columns_and_go_with_them() -> None:
    ignored = "changelog-producer.row-deduplicate-ignore-fields"
    schema = with_options(KEYED, {"changelog-producer": "lookup", ignored: " m , d"})

    renamed = altered(schema, RenameColumn("m", "m2"))
    one_less = altered(renamed, DropColumn("d"))
    none_left = altered(one_less, DropColumn("m2"))

    assert [each.options.get(ignored) for each in (renamed, one_less, none_left)] == ["m2,d", "m2", None]


def test_the_time_of_records_follows_its_column() -> None:
    options = {"record-level.expire-time": "1 d", "record-level.time-field": "a"}

    schema = altered(with_options(KEYED, options), RenameColumn("a", "b"))

    assert schema.options["record-level.time-field"] == "b"


def test_while_a_table_is_empty_its_options_are_free() -> None:
    schema = altered(
        PLAIN,
        SetOption("bucket", "4"),
        SetOption("bucket-key", " k "),
        SetOption("partition.legacy-name", "false"),
        SetOption("rowkind.field", "s"),
        has_snapshots=False,
    )

    assert schema.bucket_keys == ("k",)
    assert schema.options["bucket-key"] == "k"


@pytest.mark.parametrize("key", sorted(IMMUTABLE_OPTIONS))
def test_an_option_set_to_what_it_is_does_not_change(key: str) -> None:
    stored = parse_schema(serialize_schema(KEYED), "schema-0")
    if key in stored.options:
        assert altered(stored, SetOption(key, stored.options[key])).options == stored.options
    else:
        assert altered(stored, RemoveOption(key)).options == stored.options


def test_the_keys_that_a_table_has_may_be_set_again() -> None:
    for key, names in (("primary-key", "{}"), ("partition", " {} ")):
        present = KEYED.primary_keys if key == "primary-key" else KEYED.partition_keys

        assert altered(KEYED, SetOption(key, names.format(", ".join(present)))).options == KEYED.options


@pytest.mark.parametrize(
    ("stored", "change"),
    [
        ({}, SetOption("merge-engine", "deduplicate")),
        ({"merge-engine": "deduplicate"}, SetOption("merge-engine", "deduplicate")),
        ({"merge-engine": "deduplicate"}, RemoveOption("merge-engine")),
        ({"merge-engine": "partial-update"}, SetOption("merge-engine", "partial-update")),
        ({"force-lookup": "true"}, SetOption("force-lookup", "true")),
    ],
    ids=str,
)
def test_an_engine_may_be_said_again_or_left_to_its_default(stored: dict[str, str], change: SchemaChange) -> None:
    schema = with_options(KEYED, stored)

    assert altered(schema, change).table_options == schema.table_options


def test_another_number_of_buckets_is_for_partitions_to_come() -> None:
    assert altered(KEYED, SetOption("bucket", "8")).table_options.bucket == 8


def test_an_old_schema_is_altered_with_the_defaults_of_its_time() -> None:
    document = b"""{"version": 2, "id": 4, "fields": [{"id": 0, "name": "a", "type": "INT"}], "highestFieldId": 9,
        "partitionKeys": [], "primaryKeys": [], "options": {"file.format": "parquet"}, "note": [1]}"""

    schema = altered(parse_schema(document, "schema-4"), AddColumn("b", "INT"))

    assert (schema.version, schema.id, schema.field("b").id) == (3, 5, 10)
    assert schema.extra == {"note": [1]}


def test_a_schema_is_not_altered_at_the_price_of_what_it_holds() -> None:
    document = b"""{"id": 0, "fields": [{"id": 0, "name": "a", "type": "INT", "mask": "sha"}], "highestFieldId": 0,
        "partitionKeys": [], "primaryKeys": [], "options": {"bucket": "-1", "file.format": "parquet"}}"""

    with pytest.raises(UnsupportedFeature, match="mask"):
        altered(parse_schema(document, "schema-0"), AddColumn("b", "INT"))


names = st.sampled_from(["p", "k", "a", "s", "r", "arr", "m", "nn", "d", "z", "y2"])
types = st.sampled_from(
    ["INT", "BIGINT", "DOUBLE", "STRING", "DECIMAL(12, 4)", "ROW<u INT, v ARRAY<ROW<w INT>>>", "DATE"]
)
paths = st.one_of(names, st.tuples(names, st.sampled_from(["x", "y", "u", "v", "element", "value"])))
changes = st.lists(
    st.one_of(
        st.builds(AddColumn, paths, types),
        st.builds(DropColumn, paths),
        st.builds(RenameColumn, paths, names),
        st.builds(UpdateColumnType, paths, types),
        st.builds(UpdateColumnNullability, paths, st.booleans()),
        st.builds(MoveColumn, names, first=st.booleans(), after=st.one_of(st.none(), names)),
    ),
    min_size=1,
    max_size=6,
)


@given(st.sampled_from([KEYED, PLAIN, BUCKETED]), st.lists(changes, max_size=4))
def test_whatever_is_altered_ids_stay_with_their_columns(schema: TableSchema, history: list[list[Any]]) -> None:
    seen = {field_id: kind for field_id, kind in _kinds(schema)}
    for step in history:
        try:
            later = altered(schema, *step)
        except LakehouseError:
            continue

        assert later.highest_field_id >= schema.highest_field_id
        assert parse_schema(serialize_schema(later), f"schema-{later.id}") == later
        casts = any(isinstance(change, UpdateColumnType) for change in step)
        for field_id, kind in _kinds(later):
            # A cast makes text of a value with parts, and nothing makes parts of one without.
            assert seen.get(field_id, kind) is kind or (casts and kind is AtomicType)
            seen[field_id] = kind
        schema = later


def _kinds(schema: TableSchema) -> list[tuple[int, type]]:
    """Each id with the kind of its type, atomic or constructed."""

    def inside(data_type: Any) -> list[tuple[int, type]]:
        if isinstance(data_type, AtomicType):
            return []
        if isinstance(data_type, RowType):
            return [pair for f in data_type.fields for pair in [(f.id, type(f.type)), *inside(f.type)]]
        return inside(getattr(data_type, "element", None) or data_type.value)

    return inside(RowType(schema.fields))
