"""What a table's options say about merging the records of one key.

Everything that a merge engine must know is in one `MergeSpec`, parsed and checked once; a table whose spec can be made
is one that can be merged. Lists in options are split as Java splits them: those of sequence groups keep their blanks.
Source: docs/semantics/merge-engines.md#merge-engines, docs/semantics/writing.md#lone-records.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.format.data_types import ArrayType, DataField, DataType, MapType, RowType, type_to_sql
from lakehouse_core.options import (
    MergeEngine,
    TableOptions,
    parse_bool,
    parse_int,
    parse_names,
    parse_word,
)
from lakehouse_core.table.aggregate_types import (
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    MERGE_MAP_WITH_KEYTIME,
    NESTED_PARTIAL_UPDATE,
    NESTED_UPDATE,
    PRIMARY_KEY,
    check_function_type,
    function_named,
    is_character_string,
    is_comparable,
)

MAX_COUNT: Final = 2**31 - 1

REMOVE_ON_DELETE: Final = "partial-update.remove-record-on-delete"
REMOVE_ON_SEQUENCE_GROUP: Final = "partial-update.remove-record-on-sequence-group"
AGGREGATION_REMOVE_ON_DELETE: Final = "aggregation.remove-record-on-delete"
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"

_PREFIX: Final = "fields."
_GROUP_ENDING: Final = ".sequence-group"
_NULL_STRATEGIES: Final = ("merge", "ignore", "error")


class Mergeable(Protocol):
    """What merging asks of a table's schema."""

    @property
    def fields(self) -> tuple[DataField, ...]: ...
    @property
    def primary_keys(self) -> tuple[str, ...]: ...
    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]: ...
    @property
    def options(self) -> Mapping[str, str]: ...
    @property
    def table_options(self) -> TableOptions: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """How the values of one column are combined. `name` is never an alias.

    Beside the name and `ignore_retract`, a function looks only at the settings that are its own: `distinct` (listagg,
    collect), `delimiter` (listagg), `nested_…` and `count_limit` (nested_update, nested_partial_update), `time_field`
    (merge_map_with_keytime; None: the last field of the rows).
    """

    column: str
    name: str
    type: DataType
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_keys: tuple[str, ...] = ()
    nested_key_null_strategy: str = "merge"
    nested_sequence_fields: tuple[str, ...] = ()
    count_limit: int = MAX_COUNT
    time_field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns that change together, by an order of their own.

    `fields` in the order in which they are compared; `protected` in schema order, without the `fields` themselves.
    """

    fields: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """How the records of one key become one.

    `key_columns` is the trimmed primary key. `functions`, by column in schema order: in the aggregation engine every
    column has one, in partial-update those that are not plainly overwritten, in the others none. `groups` are in schema
    order of their first sequence field. `ignore_delete`: merging skips retracts; never in the aggregation engine, whose
    writers alone drop them. `removes_on_delete`: a `-D` removes the row, in the aggregation engine or partial-update.
    `removing_fields`: sequence fields whose group removes the row at a `-D`.
    """

    engine: MergeEngine
    key_columns: tuple[str, ...]
    fields: tuple[DataField, ...]
    functions: Mapping[str, AggregateFunction] = field(default_factory=dict)
    groups: tuple[SequenceGroup, ...] = ()
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    ignore_delete: bool = False
    removes_on_delete: bool = False
    removing_fields: tuple[str, ...] = ()


def merge_spec(schema: Mergeable) -> MergeSpec:
    """Return how records of one key are merged.

    Raises InvalidRequest naming the option or the column that is wrong, UnsupportedFeature where Java's answer depends
    on chance.
    """
    options = schema.table_options
    match options.merge_engine:
        case MergeEngine.AGGREGATION:
            return _aggregation(schema)
        case MergeEngine.PARTIAL_UPDATE:
            return _partial_update(schema)
        case MergeEngine.DEDUPLICATE | MergeEngine.FIRST_ROW:
            return MergeSpec(
                engine=options.merge_engine,
                key_columns=schema.trimmed_primary_keys,
                fields=schema.fields,
                sequence_fields=options.sequence_fields,
                sequence_descending=options.sequence_descending,
                ignore_delete=options.ignore_delete,
            )


def _aggregation(schema: Mergeable) -> MergeSpec:
    options = schema.table_options
    return MergeSpec(
        engine=MergeEngine.AGGREGATION,
        key_columns=schema.trimmed_primary_keys,
        fields=schema.fields,
        functions={
            column.name: _function(schema, column, _aggregation_name(schema, column)) for column in schema.fields
        },
        sequence_fields=options.sequence_fields,
        sequence_descending=options.sequence_descending,
        removes_on_delete=_flag(schema, AGGREGATION_REMOVE_ON_DELETE),
    )


def _aggregation_name(schema: Mergeable, column: DataField) -> str:
    if column.name in schema.table_options.sequence_fields:
        return LAST_VALUE
    if column.name in schema.primary_keys:
        return PRIMARY_KEY
    return _named_function(schema, column.name) or LAST_NON_NULL_VALUE


def _partial_update(schema: Mergeable) -> MergeSpec:
    options = schema.table_options
    groups = _groups(schema)
    removes_on_delete = _flag(schema, REMOVE_ON_DELETE)
    removing = _split(schema.options.get(REMOVE_ON_SEQUENCE_GROUP))
    _check_removal(options.ignore_delete, removes_on_delete, groups, removing)
    return MergeSpec(
        engine=MergeEngine.PARTIAL_UPDATE,
        key_columns=schema.trimmed_primary_keys,
        fields=schema.fields,
        functions=_group_functions(schema, groups),
        groups=groups,
        sequence_fields=options.sequence_fields,
        sequence_descending=options.sequence_descending,
        ignore_delete=options.ignore_delete,
        removes_on_delete=removes_on_delete,
        removing_fields=removing,
    )


def _check_removal(
    ignore_delete: bool, removes_on_delete: bool, groups: Sequence[SequenceGroup], removing: Sequence[str]
) -> None:
    if ignore_delete and removes_on_delete:
        raise InvalidRequest(f"ignore-delete and {REMOVE_ON_DELETE} are both true: a delete cannot do both.")
    if ignore_delete and removing:
        raise InvalidRequest(
            f"ignore-delete is true and {REMOVE_ON_SEQUENCE_GROUP} is set: a delete cannot do both. Remove one of them."
        )
    if removes_on_delete and groups:
        raise InvalidRequest(
            f"{REMOVE_ON_DELETE} is true and the table has sequence groups: name the groups whose delete removes the "
            f"row in {REMOVE_ON_SEQUENCE_GROUP} instead."
        )
    sequence_fields = [name for group in groups for name in group.fields]
    for name in removing:
        if name not in sequence_fields:
            known = f"it takes {', '.join(sequence_fields)}" if sequence_fields else "the table has no sequence group"
            raise InvalidRequest(
                f"{REMOVE_ON_SEQUENCE_GROUP} names {shown(name)}, which is no field of a sequence group: {known}."
            )


# Sequence groups.


def _groups(schema: Mergeable) -> tuple[SequenceGroup, ...]:
    places = {column.name: place for place, column in enumerate(schema.fields)}
    groups: list[SequenceGroup] = []
    protectors: dict[str, str] = {}
    for key, value in schema.options.items():
        if not key.startswith(_PREFIX) or not key.endswith(_GROUP_ENDING):
            continue
        fields, protected = _split(key[len(_PREFIX) : -len(_GROUP_ENDING)]), _split(value)
        for name in (*fields, *protected):
            _check_group_column(schema, key, name)
        for name in protected:
            if (other := protectors.get(name)) is not None:
                where = "twice" if other == key else f"and {other} does, too"
                raise InvalidRequest(f"Option {key} names the column {name} {where}: a column follows one order only.")
            protectors[name] = key
        for name in fields:
            _check_ordered(schema, key, name)
        inner = sorted(set(protected) - set(fields), key=places.__getitem__)
        groups.append(SequenceGroup(fields=tuple(dict.fromkeys(fields)), protected=tuple(inner)))
    _check_apart(groups)
    return tuple(sorted(groups, key=lambda group: min(places[name] for name in group.fields)))


def _check_apart(groups: Sequence[SequenceGroup]) -> None:
    """A column in two groups, one of them as sequence field, belongs in Java to whichever its hash map holds."""
    twice = Counter(name for group in groups for name in (*group.fields, *group.protected))
    for name, count in twice.items():
        if count > 1:
            raise UnsupportedFeature(
                f"Column {name} is in {count} sequence groups, as a sequence field of one: which of them decides is "
                "not defined. Give each group its own sequence fields."
            )


def _check_ordered(schema: Mergeable, key: str, name: str) -> None:
    data_type = next(column.type for column in schema.fields if column.name == name)
    if not is_comparable(data_type):
        raise UnsupportedFeature(
            f"Option {key} orders a group by {name}, a {type_to_sql(data_type)}: only types without parts are "
            "supported."
        )


def _check_group_column(schema: Mergeable, key: str, name: str) -> None:
    if all(column.name != name for column in schema.fields):
        blanks = " Leave out the blanks beside the commas." if name != name.strip() else ""
        raise InvalidRequest(f"Option {key} names {shown(name)}, which is no column.{blanks}")
    if name in schema.primary_keys:
        raise InvalidRequest(
            f"Option {key} names {name}, which is part of the primary key: it is the same in all records of a key and "
            "belongs to no sequence group."
        )


def _group_functions(schema: Mergeable, groups: Sequence[SequenceGroup]) -> dict[str, AggregateFunction]:
    ordering = {name for group in groups for name in group.fields}
    protected = {name for group in groups for name in group.protected}
    functions = {}
    for column in schema.fields:
        if column.name in ordering or column.name in schema.primary_keys:
            continue
        name = _named_function(schema, column.name)
        if name is None:
            continue
        if name != LAST_NON_NULL_VALUE and column.name not in protected:
            raise InvalidRequest(
                f"Column {column.name} has the aggregate function {name} and is in no sequence group: with "
                "merge-engine = partial-update only columns of one are aggregated. Add it to the list of an option "
                f"fields.<sequence column>{_GROUP_ENDING}, or take merge-engine = aggregation."
            )
        functions[column.name] = _function(schema, column, name)
    return functions


# Functions.


def _named_function(schema: Mergeable, column: str) -> str | None:
    """Return the function that the column's own option names, else the default one; None where neither is set."""
    for key in (f"{_PREFIX}{column}.aggregate-function", DEFAULT_FUNCTION):
        if (name := schema.options.get(key)) is not None:
            return function_named(key, name)
    return None


def _function(schema: Mergeable, column: DataField, name: str) -> AggregateFunction:
    check_function_type(column.name, name, column.type)
    options = schema.options
    prefix = f"{_PREFIX}{column.name}."
    ignore_retract = _flag(schema, f"{prefix}ignore-retract")
    if ignore_retract and _flag(schema, AGGREGATION_REMOVE_ON_DELETE):
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
        distinct=_flag(schema, f"{prefix}distinct"),
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
    prefix = f"{_PREFIX}{function.column}."
    fields = {column.name: column for column in function.type.element.fields}
    if not function.nested_keys:
        for ending, needs in (
            ("nested-sequence-field", bool(function.nested_sequence_fields)),
            ("nested-key-null-strategy", has_strategy),
        ):
            if needs:
                raise InvalidRequest(f"Option {prefix}{ending} says nothing without {prefix}nested-key: set it too.")
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
                    f"Option {prefix}{ending} names {shown(name)}, which is no field of the column's rows: they have "
                    f"{', '.join(fields)}."
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
    option = f"{_PREFIX}{function.column}.ts-field"
    name = function.time_field if function.time_field is not None else function.type.value.fields[-1].name
    if name not in fields:
        raise InvalidRequest(
            f"Option {option} names {shown(name)}, which is no field of the column's rows: they have "
            f"{', '.join(fields)}."
        )
    if not is_character_string(fields[name].type):
        raise InvalidRequest(
            f"Column {function.column}: {function.name} compares the field {name} as text, and it is "
            f"{type_to_sql(fields[name].type)}. Declare it STRING, or name another field in {option}."
        )


# Texts.


def _split(text: str | None) -> tuple[str, ...]:
    """Split at commas as Java's String.split does: blanks stay, empty names at the end go."""
    if not text:
        return () if text is None else ("",)
    names = text.split(",")
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _flag(schema: Mergeable, key: str) -> bool:
    return parse_bool(key, schema.options.get(key, "false"))


def _count_limit(options: Mapping[str, str], key: str) -> int:
    """Return a whole number of 32 bits; one below 1 keeps nothing, as in Java."""
    limit = parse_int(key, options.get(key, str(MAX_COUNT)))
    if not -MAX_COUNT <= limit <= MAX_COUNT:
        raise InvalidRequest(f"Option {key} is {limit}: it is at most {MAX_COUNT}.")
    return limit
