"""Merge spec: how the records of one key are merged, by the table's options."""

from lakehouse_core.table.merge_spec.spec import REMOVE_ON_SEQUENCE_GROUP, merge_spec
from lakehouse_core.table.merge_spec.values import AggregateFunction, Mergeable, MergeSpec, SequenceGroup

__all__ = ["REMOVE_ON_SEQUENCE_GROUP", "AggregateFunction", "MergeSpec", "Mergeable", "SequenceGroup", "merge_spec"]
