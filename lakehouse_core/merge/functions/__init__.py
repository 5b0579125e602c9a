"""Aggregate functions, row by row: how one column combines the records of a key.

Source: docs/semantics/merge-engines.md#aggregate-functions.
"""

from lakehouse_core.merge.functions.aggregator import Aggregator
from lakehouse_core.merge.functions.by_name import aggregator

__all__ = ["Aggregator", "aggregator"]
