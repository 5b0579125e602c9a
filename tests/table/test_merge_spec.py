"""What a table's options say about merging."""

from typing import Any

import pytest

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.data_types import DataField, parse_type
from lakehouse_core.options import MergeEngine, check_known, current_options
from lakehouse_core.table.merge_spec import AggregateFunction, MergeSpec, SequenceGroup, merge_spec
from lakehouse_core.table.schema import TableSchema, check_schema
from tests.table.merge_options import CASES, COLUMNS, Case


def schema(
    options: dict[str, str], columns: dict[str, str] | None = None, keys: tuple[str, ...] = ("k",)
) -> TableSchema:
    fields = tuple(
        DataField(index, name, parse_type(text)) for index, (name, text) in enumerate((columns or COLUMNS).items())
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields),
        primary_keys=keys,
        options={"bucket": "1", **current_options(options)},
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: "; ".join(f"{k}={v}" for k, v in case.options.items()))
def test_options_about_merging_are_taken_or_refused(case: Case) -> None:
    if not case.is_refused:
        check(case.options)
        return
    with pytest.raises((InvalidRequest, UnsupportedFeature)) as caught:
        check(case.options)

    assert case.says in str(caught.value)


def check(options: dict[str, str]) -> None:
    check_known(options, COLUMNS)
    check_schema(schema(options))


def spec(columns: dict[str, str], keys: tuple[str, ...] = ("k",), **options: str) -> MergeSpec:
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return merge_spec(schema(given, {"k": "INT NOT NULL", **columns}, keys))


def names(found: MergeSpec) -> dict[str, str]:
    return {column: function.name for column, function in found.functions.items()}


def test_a_table_that_deduplicates_has_no_functions_and_no_groups() -> None:
    found = spec({"a": "INT"}, sequence__field="a", ignore_delete="true", fields__a__sequence_group="k")

    assert (found.engine, found.functions, found.groups) == (MergeEngine.DEDUPLICATE, {}, ())
    assert (found.key_columns, found.sequence_fields, found.ignore_delete) == (("k",), ("a",), True)


def test_every_column_of_an_aggregating_table_has_a_function() -> None:
    found = spec(
        {"p": "INT NOT NULL", "s": "INT", "a": "INT", "b": "INT", "c": "INT"},
        ("p", "k"),
        merge_engine="aggregation",
        sequence__field="s",
        fields__a__aggregate_function="sum",
        fields__b__aggregate_function="first_not_null_value",
    )

    assert names(found) == {
        "k": "primary-key",
        "p": "primary-key",
        "s": "last_value",
        "a": "sum",
        "b": "first_non_null_value",
        "c": "last_non_null_value",
    }


def test_the_default_function_is_that_of_columns_without_one() -> None:
    found = spec(
        {"a": "INT", "b": "INT"},
        merge_engine="aggregation",
        fields__a__aggregate_function="sum",
        fields__default_aggregate_function="min",
    )

    assert names(found) == {"k": "primary-key", "a": "sum", "b": "min"}


def test_what_a_function_is_told_reaches_it() -> None:
    rows = "ARRAY<ROW<x INT, y STRING>>"
    found = spec(
        {"r": rows, "b": "STRING"},
        merge_engine="aggregation",
        fields__r__aggregate_function="nested_update",
        fields__r__nested_key=" x ,y",
        fields__r__nested_key_null_strategy="Error",
        fields__r__nested_sequence_field="y",
        fields__r__count_limit="7",
        fields__b__aggregate_function="listagg",
        fields__b__distinct="true",
        fields__b__list_agg_delimiter=" ",
        fields__b__ignore_retract="true",
    )

    assert found.functions["r"] == AggregateFunction(
        column="r",
        name="nested_update",
        type=parse_type(rows),
        nested_keys=("x", "y"),
        nested_key_null_strategy="error",
        nested_sequence_fields=("y",),
        count_limit=7,
    )
    assert found.functions["b"] == AggregateFunction(
        column="b", name="listagg", type=parse_type("STRING"), distinct=True, delimiter=" ", ignore_retract=True
    )


def test_a_group_compares_in_the_order_of_its_option_and_protects_in_that_of_the_schema() -> None:
    found = spec(
        {"a": "INT", "b": "INT", "s": "INT", "t": "INT", "c": "INT", "u": "INT"},
        merge_engine="partial-update",
        fields__u__sequence_group="c",
        **{"fields__t,s__sequence_group": "b,t,a"},
    )

    assert found.groups == (
        SequenceGroup(fields=("t", "s"), protected=("a", "b")),
        SequenceGroup(fields=("u",), protected=("c",)),
    )


def test_partial_update_has_functions_only_where_a_column_is_not_plainly_overwritten() -> None:
    found = spec(
        {"a": "INT", "b": "INT", "c": "INT", "s": "INT"},
        merge_engine="partial-update",
        fields__s__sequence_group="a,b",
        fields__a__aggregate_function="sum",
        fields__s__aggregate_function="sum",
        fields__c__aggregate_function="last_non_null_value",
    )

    assert names(found) == {"a": "sum", "c": "last_non_null_value"}


@pytest.mark.parametrize(
    ("options", "ignores", "removes", "fields"),
    [
        ({"merge-engine": "partial-update", "ignore-delete": "true"}, True, False, ()),
        ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, False, True, ()),
        (
            {
                "merge-engine": "partial-update",
                "partial-update.remove-record-on-sequence-group": "s",
                "fields.s.sequence-group": "a",
            },
            False,
            False,
            ("s",),
        ),
        ({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}, False, True, ()),
        # Only the writers of an aggregating table drop deletes.
        ({"merge-engine": "aggregation", "ignore-delete": "true"}, False, False, ()),
        # An option of another engine says nothing.
        ({"merge-engine": "aggregation", "partial-update.remove-record-on-delete": "true"}, False, False, ()),
        ({"merge-engine": "first-row", "aggregation.remove-record-on-delete": "true"}, False, False, ()),
    ],
)
def test_what_a_delete_does(options: dict[str, Any], ignores: bool, removes: bool, fields: tuple[str, ...]) -> None:
    found = merge_spec(schema(options))

    assert (found.ignore_delete, found.removes_on_delete, found.removing_fields) == (ignores, removes, fields)
