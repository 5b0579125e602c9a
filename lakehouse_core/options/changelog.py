"""Changelog options: which producer makes the row-level changes of a table.

Source: docs/semantics/changelog.md.
"""

from enum import StrEnum


class ChangelogProducer(StrEnum):
    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"
