"""Aggregate functions of columns and their settings, from the options `fields.<column>.…`.

Source: docs/semantics/merge-engines.md#aggregate-functions.
"""

from collections.abc import Mapping
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.format.data_types import ArrayType, DataField, MapType, RowType, type_to_sql
from lakehouse_core.options import parse_int, parse_names, parse_word
from lakehouse_core.table.aggregate_types import (
    MERGE_MAP_WITH_KEYTIME,
    NESTED_PARTIAL_UPDATE,
    NESTED_UPDATE,
    check_function_type,
    function_named,
    is_character_string,
    is_comparable,
)
from lakehouse_core.table.merge_spec.option_texts import FIELD_PREFIX, flag
from lakehouse_core.table.merge_spec.values import MAX_COUNT, AggregateFunction, Mergeable

AGGREGATION_REMOVE_ON_DELETE: Final = "aggregation.remove-record-on-delete"
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"
_NULL_STRATEGIES: Final = ("merge", "ignore", "error")


def named_function(schema: Mergeable, column: str) -> str | None:
    """Return the function that the column's own option names, else the default function; None if neither is set."""
    for key in (f"{FIELD_PREFIX}{column}.aggregate-function", DEFAULT_FUNCTION):
        if (name := schema.options.get(key)) is not None:
            return function_named(key, name)
    return None


def aggregate_function(schema: Mergeable, column: DataField, name: str) -> AggregateFunction:
    """Return the function of that name with the column's settings. Raises InvalidRequest, UnsupportedFeature."""
    check_function_type(column.name, name, column.type)
    options = schema.options
    prefix = f"{FIELD_PREFIX}{column.name}."
    ignore_retract = flag(schema, f"{prefix}ignore-retract")
    if ignore_retract and flag(schema, AGGREGATION_REMOVE_ON_DELETE):
        raise InvalidRequest(
            f"{prefix}ignore-retract and {AGGREGATION_REMOVE_ON_DELETE} are both true: a delete cannot be ignored in a "
            "column and remove the row. Remove one of them."
        )
    strategy = f"{prefix}nested-key-null-strategy"
    function = AggregateFunction(
        column=column.name,
        name=name,
        type=column.type,
        ignore_retract=ignore_retract,
        distinct=flag(schema, f"{prefix}distinct"),
        delimiter=options.get(f"{prefix}list-agg-delimiter", ","),
        nested_keys=parse_names(options.get(f"{prefix}nested-key", "")),
        nested_key_null_strategy=parse_word(strategy, options.get(strategy, "merge"), _NULL_STRATEGIES),
        nested_sequence_fields=parse_names(options.get(f"{prefix}nested-sequence-field", "")),
        count_limit=_count_limit(options, f"{prefix}count-limit"),
        time_field=options.get(f"{prefix}ts-field"),
    )
    if name in (NESTED_UPDATE, NESTED_PARTIAL_UPDATE):
        _check_nested(function, has_strategy=strategy in options)
    if name == MERGE_MAP_WITH_KEYTIME:
        _check_time_field(function)
    return function


def _check_nested(function: AggregateFunction, *, has_strategy: bool) -> None:
    assert isinstance(function.type, ArrayType)
    assert isinstance(function.type.element, RowType)
    prefix = f"{FIELD_PREFIX}{function.column}."
    fields = {column.name: column for column in function.type.element.fields}
    if not function.nested_keys:
        for ending, needs in (
            ("nested-sequence-field", bool(function.nested_sequence_fields)),
            ("nested-key-null-strategy", has_strategy),
        ):
            if needs:
                raise InvalidRequest(f"Option {prefix}{ending} has no effect without {prefix}nested-key: set that too.")
        if function.name == NESTED_PARTIAL_UPDATE:
            raise InvalidRequest(
                f"Column {function.column} has the aggregate function {function.name}, which needs a key: set "
                f"{prefix}nested-key to fields of its rows."
            )
    for ending, names in (
        ("nested-key", function.nested_keys),
        ("nested-sequence-field", function.nested_sequence_fields),
    ):
        for name in names:
            if name not in fields:
                raise InvalidRequest(
                    f"Option {prefix}{ending} names {shown(name)}, which is not a field of the column's rows: "
                    f"they have {', '.join(fields)}."
                )
    for name in function.nested_sequence_fields:
        if not is_comparable(fields[name].type):
            raise UnsupportedFeature(
                f"Option {prefix}nested-sequence-field names {name}, a {type_to_sql(fields[name].type)}: only types "
                "without parts are supported."
            )


def _check_time_field(function: AggregateFunction) -> None:
    assert isinstance(function.type, MapType)
    assert isinstance(function.type.value, RowType)
    fields = {column.name: column for column in function.type.value.fields}
    option = f"{FIELD_PREFIX}{function.column}.ts-field"
    name = function.time_field if function.time_field is not None else function.type.value.fields[-1].name
    if name not in fields:
        raise InvalidRequest(
            f"Option {option} names {shown(name)}, which is not a field of the column's rows: they have "
            f"{', '.join(fields)}."
        )
    if not is_character_string(fields[name].type):
        raise InvalidRequest(
            f"Column {function.column}: {function.name} compares the field {name} as text, and it is "
            f"{type_to_sql(fields[name].type)}. Declare it STRING, or name another field in {option}."
        )


def _count_limit(options: Mapping[str, str], key: str) -> int:
    """Return a 32-bit integer; a value below 1 keeps no rows, as in Java."""
    limit = parse_int(key, options.get(key, str(MAX_COUNT)))
    if not -MAX_COUNT <= limit <= MAX_COUNT:
        raise InvalidRequest(f"Option {key} is {limit}: it is at most {MAX_COUNT}.")
    return limit
