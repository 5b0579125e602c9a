"""Merge options: how the versions of a key become one row.

Source: docs/semantics/merge-engines.md.
"""

from enum import StrEnum


class MergeEngine(StrEnum):
    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"
