"""Merge spec: parse the options about merging the records of one key.

Rule: a `MergeSpec` holds all settings of a merge engine, parsed and checked once. A table can be merged if its spec can
be made.
Source: docs/semantics/merge-engines.md#merge-engines, docs/semantics/writing.md#lone-records.
"""

from collections.abc import Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import DataField
from lakehouse_core.options import MergeEngine
from lakehouse_core.table.aggregate_types import LAST_NON_NULL_VALUE, LAST_VALUE, PRIMARY_KEY
from lakehouse_core.table.merge_spec.functions import AGGREGATION_REMOVE_ON_DELETE, aggregate_function, named_function
from lakehouse_core.table.merge_spec.option_texts import flag, split_names
from lakehouse_core.table.merge_spec.sequence_groups import GROUP_ENDING, sequence_groups
from lakehouse_core.table.merge_spec.values import AggregateFunction, Mergeable, MergeSpec, SequenceGroup

REMOVE_ON_DELETE: Final = "partial-update.remove-record-on-delete"
REMOVE_ON_SEQUENCE_GROUP: Final = "partial-update.remove-record-on-sequence-group"


def merge_spec(schema: Mergeable) -> MergeSpec:
    """Return the merge spec of the schema.

    Raises InvalidRequest naming the wrong option or column, UnsupportedFeature if Java's result is undefined.
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
        functions={one.name: aggregate_function(schema, one, _aggregation_name(schema, one)) for one in schema.fields},
        sequence_fields=options.sequence_fields,
        sequence_descending=options.sequence_descending,
        removes_on_delete=flag(schema, AGGREGATION_REMOVE_ON_DELETE),
    )


def _aggregation_name(schema: Mergeable, column: DataField) -> str:
    if column.name in schema.table_options.sequence_fields:
        return LAST_VALUE
    if column.name in schema.primary_keys:
        return PRIMARY_KEY
    return named_function(schema, column.name) or LAST_NON_NULL_VALUE


def _partial_update(schema: Mergeable) -> MergeSpec:
    options = schema.table_options
    groups = sequence_groups(schema)
    removes_on_delete = flag(schema, REMOVE_ON_DELETE)
    removing = split_names(schema.options.get(REMOVE_ON_SEQUENCE_GROUP))
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
                f"{REMOVE_ON_SEQUENCE_GROUP} names {shown(name)}, which is not a field of a sequence group: {known}."
            )


def _group_functions(schema: Mergeable, groups: Sequence[SequenceGroup]) -> dict[str, AggregateFunction]:
    ordering = {name for group in groups for name in group.fields}
    protected = {name for group in groups for name in group.protected}
    functions = {}
    for column in schema.fields:
        if column.name in ordering or column.name in schema.primary_keys:
            continue
        name = named_function(schema, column.name)
        if name is None:
            continue
        if name != LAST_NON_NULL_VALUE and column.name not in protected:
            raise InvalidRequest(
                f"Column {column.name} has the aggregate function {name} and is in no sequence group: with "
                "merge-engine = partial-update only columns of one are aggregated. Add it to the list of an option "
                f"fields.<sequence column>{GROUP_ENDING}, or take merge-engine = aggregation."
            )
        functions[column.name] = aggregate_function(schema, column, name)
    return functions
