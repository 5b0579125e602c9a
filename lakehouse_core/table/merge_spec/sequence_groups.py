"""Sequence groups: columns that change together, from `fields.<sequence columns>.sequence-group`.

Rule: a column belongs to one part of one group. Options for which Java's result is undefined are refused.
Source: docs/semantics/merge-engines.md#sequence-groups.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.format.data_types import type_to_sql
from lakehouse_core.table.aggregate_types import is_comparable
from lakehouse_core.table.merge_spec.option_texts import FIELD_PREFIX, split_names
from lakehouse_core.table.merge_spec.values import Mergeable, SequenceGroup

GROUP_ENDING: Final = ".sequence-group"


def sequence_groups(schema: Mergeable) -> tuple[SequenceGroup, ...]:
    """Return the groups in schema order of their first sequence field. Raises InvalidRequest, UnsupportedFeature."""
    places = {column.name: place for place, column in enumerate(schema.fields)}
    groups: list[SequenceGroup] = []
    protectors: dict[str, str] = {}
    for key, value in schema.options.items():
        if not key.startswith(FIELD_PREFIX) or not key.endswith(GROUP_ENDING):
            continue
        fields, protected = split_names(key[len(FIELD_PREFIX) : -len(GROUP_ENDING)]), split_names(value)
        for name in (*fields, *protected):
            _check_group_column(schema, key, name)
        for name in protected:
            if (other := protectors.get(name)) is not None:
                where = "twice" if other == key else f"and {other} names it, too"
                raise InvalidRequest(f"Option {key} names the column {name} {where}: a column follows one order only.")
            protectors[name] = key
        for name in fields:
            _check_ordered(schema, key, name)
        inner = sorted(set(protected) - set(fields), key=places.__getitem__)
        groups.append(SequenceGroup(fields=tuple(dict.fromkeys(fields)), protected=tuple(inner)))
    _check_apart(groups)
    return tuple(sorted(groups, key=lambda group: min(places[name] for name in group.fields)))


def _check_apart(groups: Sequence[SequenceGroup]) -> None:
    """Raise InvalidRequest for a column in two groups, in one of them as sequence field: Java's hash map decides its
    group.
    """
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
        raise InvalidRequest(f"Option {key} names {shown(name)}, which is not a column.{blanks}")
    if name in schema.primary_keys:
        raise InvalidRequest(
            f"Option {key} names {name}, which is part of the primary key: it is the same in all records of a key and "
            "belongs to no sequence group."
        )
