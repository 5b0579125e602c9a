"""Option key: the kind of value, default, bounds and treatment of an option, read from a list with one line for each.

Source: docs/semantics/options.md#treatment; the option classes of Java 2.0.0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Treatment(Enum):
    """How an option is treated when a table sets it."""

    HONOURED = "carried out"
    HARMLESS = "changes no result, file or promise"
    LEFT_TO_OTHERS = "tables of other engines may have it; it is not set here"
    MAINTENANCE_ONLY = "tables that have it are maintained; rows are not written"
    REFUSED = "not supported unless it has its default"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionKey:
    """`kind` is one of bool, int, float, size, duration, text, levels, or the allowed words. `default` None: unset.

    `low` and `high` are the first and the last value that may be set, as texts of that kind; None: no bound but the
    kind's own. A value beyond them would make a table useless. Tables that other engines made with such values are
    still read.
    """

    name: str
    kind: str | tuple[str, ...]
    default: str | None
    treatment: Treatment
    reason: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options with the same treatment, and the reason."""

    reason: str
    # One option a line: name, kind, default; "-" for no default, '' for the empty text. Of a number that is carried out
    # also its bounds, as in 1..22; either may be left open.
    lines: str


_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "table-type": ("table", "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table"),
    "scan-mode": (
        "default",
        "latest-full",
        "full",
        "latest",
        "latest-delta",
        "compacted-full",
        "from-timestamp",
        "from-creation-timestamp",
        "from-file-creation-time",
        "from-snapshot",
        "from-snapshot-full",
        "incremental",
    ),
    "path-strategy": ("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin"),
    "tag-formatter": ("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "index-action": ("throw_error", "drop_partition_index", "ignore"),
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "producer": ("none", "input", "full-compaction", "lookup"),
}


def option_keys(treatment: Treatment, groups: Iterable[OptionGroup]) -> dict[str, OptionKey]:
    """Return the options of the groups, by name, in their order."""
    keys = {}
    for group in groups:
        for line in filter(None, map(str.strip, group.lines.splitlines())):
            name, kind, default, *bounds = line.split()
            low, _, high = bounds[0].partition("..") if bounds else ("", "", "")
            keys[name] = OptionKey(
                name=name,
                kind=_WORDS.get(kind) or (tuple(kind.split("|")) if "|" in kind else kind),
                default={"-": None, "''": ""}.get(default, default),
                treatment=treatment,
                reason=group.reason,
                low=low or None,
                high=high or None,
            )
    return keys
