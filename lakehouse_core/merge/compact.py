"""Compaction chunk: merge one chunk of a compaction that emits a changelog into merged records and changelog records.

Rule: each record carries the level of its file. Source: docs/semantics/changelog.md#full-compaction,
docs/semantics/changelog.md#lookup.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.changelog import Transitions, arrivals, changelog
from lakehouse_core.merge.chunk import LEVEL, MergeRule, merged, order_of
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.frontier import RunSlice
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.layers import Layers, greatest_in
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import NONE, Flags
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import Reduced, reduce
from lakehouse_core.options import MergeEngine

ROW_ADDRESS: Final = "_PLACE"
# The column of a looked-up record's row address, a BIGINT: the number of its file, and in the low bits its row.
POSITION_BITS: Final = 40
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogFilter:
    """Which changes are emitted.

    `compared`: an update must change one of these columns; None: every update is emitted.
    """

    compared: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of a chunk: merged records, changelog records, and row addresses of superseded looked-up records."""

    records: pa.RecordBatch
    changelog: pa.RecordBatch | None = None
    superseded: Rows | None = None


def merge_full_compaction(
    parts: Sequence[RunSlice],
    rule: MergeRule,
    names: Sequence[str],
    changelog_filter: ChangelogFilter,
    *,
    top_level: int,
) -> Compacted:
    """Merge a chunk into the top level. The before image is the row of the top level; the row after is the merged
    one.
    """
    records = _records(parts, rule)
    order = _order(parts, records, rule)
    reduced = merged(records, order, rule, names)
    before = _top_rows(order, _levels(records) == top_level)
    # A chunk of the top level only has no changes.
    is_news = (before == NONE) | (order.starts != order.ends)
    return _compacted(records, reduced, rule, names, _News(before, is_news, changelog_filter))


def merge_lookup(
    parts: Sequence[RunSlice],
    rule: MergeRule,
    names: Sequence[str],
    changelog_filter: ChangelogFilter | None,
    *,
    looked_up: frozenset[int],
) -> Compacted:
    """Merge a chunk with records of level 0. The before image is the version at the lowest level above 0; the row after
    is the merged one.

    Slices of the runs `looked_up` are not part of the compaction. They give the before image for keys of level 0 that
    have no version above level 0 in the compaction. Their own level-0 records give no before image, and any version in
    the compaction supersedes them (except in first-row tables). `changelog_filter` None: no changelog is emitted.
    """
    records = _records(parts, rule)
    order = _order(parts, records, rule)
    is_looked_up = np.repeat([part.run in looked_up for part in parts], [part.row_count for part in parts])[order.rows]
    levels = _levels(records)[order.rows]
    view = _LookupView(order, levels, is_looked_up)
    if rule.spec.engine is MergeEngine.FIRST_ROW:
        kept, keys = order.only(~is_looked_up)
        reduced = reduce(records, kept, rule.spec, names, folded=np.full(len(keys), True))
        # A version above level 0 came before those of level 0.
        is_new = ~view.has_high_inside[keys] & ~view.has_looked_up[keys]
        reduced = reduced.kept(is_new[reduced.keys] | view.has_high_inside[keys][reduced.keys])
        results = reduced.batch(records, names)
        # A first row is emitted as it came, +U too.
        emitted = None if changelog_filter is None else arrivals(results, np.flatnonzero(is_new[reduced.keys]))
        return Compacted(records=results, changelog=emitted)
    high = view.high()
    keep = ~is_looked_up & (levels == 0)
    keep[high[(high != NONE) & view.is_inside]] = True
    kept, keys = order.only(keep)
    reduced = reduce(records, kept, rule.spec, names, folded=np.full(len(keys), True))
    rows = _row_or_none(order, high)[keys]
    before = np.where((rows != NONE) & is_add(records.kinds[np.maximum(rows, 0)]), rows, NONE)
    compacted = _compacted(records, reduced, rule, names, _News(before, view.has_level_0[keys], changelog_filter))
    if ROW_ADDRESS not in records:
        return compacted
    found = high[(high != NONE) & view.is_inside]
    over = np.flatnonzero(is_looked_up & (levels == 0))
    over = over[view.is_inside[np.searchsorted(order.ends, over)]]
    superseded = np.concatenate([found[is_looked_up[found]], over])
    return replace(compacted, superseded=fixed_values(records.column(ROW_ADDRESS), np.int64)[order.rows[superseded]])


@dataclass(frozen=True, slots=True)
class _News:
    """By key: the row of the before image (or NONE), and whether its change is emitted by `changelog_filter`."""

    before: Rows
    is_told: Flags
    changelog_filter: ChangelogFilter | None


class _LookupView:
    """Facts about the keys of a chunk, from the positions of their versions."""

    def __init__(self, order: KeyOrder, levels: npt.NDArray[np.int8], is_looked_up: Flags) -> None:
        self._order = order
        self._levels = levels
        self._looked_up = is_looked_up
        self.has_level_0 = self._has(~is_looked_up & (levels == 0))
        self.has_high_inside = self._has(~is_looked_up & (levels > 0))
        self.has_looked_up = self._has(is_looked_up)
        self.is_inside = self.has_level_0 | self.has_high_inside

    def high(self) -> Rows:
        """Return for each key the position of its version at the lowest level above 0, first in the compaction."""
        layers = Layers(self._order)
        levels, is_looked_up = self._levels[layers.positions], self._looked_up[layers.positions]
        ages = levels.astype(np.uint64) + np.where(is_looked_up, 1 << 8, 0).astype(np.uint64)
        return greatest_in(layers, levels > 0, [ages], smallest=True)

    def _has(self, flags: Flags) -> Flags:
        """Return a mask of the keys with a version in `flags`."""
        return np.logical_or.reduceat(flags, self._order.starts) if len(flags) else flags


def _records(parts: Sequence[RunSlice], rule: MergeRule) -> RecordColumns:
    return RecordColumns([batch for part in parts for batch in part.batches], rule.kind_column)


def _order(parts: Sequence[RunSlice], records: RecordColumns, rule: MergeRule) -> KeyOrder:
    if len(parts) > 1:
        return order_of(records, rule)
    rows = np.arange(records.row_count, dtype=np.int64)
    return KeyOrder(rows, rows)


def _top_rows(order: KeyOrder, is_top: Flags) -> Rows:
    """Return, for each key, its row in the top level, NONE without one. The top level holds a key once."""
    positions = np.flatnonzero(is_top[order.rows])
    rows = np.full(len(order.ends), NONE)
    rows[np.searchsorted(order.ends, positions)] = order.rows[positions]
    return rows


def _levels(records: RecordColumns) -> npt.NDArray[np.int8]:
    levels: npt.NDArray[np.int8] = fixed_values(records.column(LEVEL), np.int8)
    return levels


def _row_or_none(order: KeyOrder, positions: Rows) -> Rows:
    return np.where(positions == NONE, NONE, order.rows[np.maximum(positions, 0)])


def _compacted(
    records: RecordColumns, reduced: Reduced, rule: MergeRule, names: Sequence[str], news: "_News"
) -> Compacted:
    results = reduced.batch(records, names)
    adds = is_add(reduced.kinds_in(records))
    emitted = None
    if news.changelog_filter is not None:
        after = np.full(len(news.before), NONE)
        after[reduced.keys[adds]] = np.flatnonzero(adds)
        transitions = Transitions(news.before, after).only(news.is_told)
        emitted = changelog(records, results, transitions, news.changelog_filter.compared)
    if rule.drops_deletes and not adds.all():
        results = results.filter(pa.array(adds))
    return Compacted(records=results, changelog=emitted)
