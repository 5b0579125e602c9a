"""Aggregate functions row by row: what one column does with the records of a key."""

from lakehouse_core.merge.functions.aggregator import Aggregator
from lakehouse_core.merge.functions.by_name import aggregator

__all__ = ["Aggregator", "aggregator"]
