"""What a table's options say about merging the records of one key."""

from lakehouse_core.table.merge_spec.spec import REMOVE_ON_SEQUENCE_GROUP, merge_spec
from lakehouse_core.table.merge_spec.values import AggregateFunction, Mergeable, MergeSpec, SequenceGroup

__all__ = ["REMOVE_ON_SEQUENCE_GROUP", "AggregateFunction", "MergeSpec", "Mergeable", "SequenceGroup", "merge_spec"]
