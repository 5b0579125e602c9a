"""Folds one column: the versions of each key become one value, as the column's function says.

Most functions pick one of the versions, sums and products compute; all keys at once. What neither can do (text lists,
nested rows, sketches; keys with retracts or late versions where the order of steps matters; overflows) goes row by row,
only for the keys that need it. Source: Paimon semantics, "partial-update" (D.3) and "aggregation" (D.4).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakehouse_core.format.data_types import DataType, column_of, values_of
from lakehouse_core.merge.actions import Action, Actions
from lakehouse_core.merge.functions import Aggregator, aggregator
from lakehouse_core.merge.key_words import Words, comparison_words
from lakehouse_core.merge.numbers import Numbers, added, multiplied, numbers_of, validity
from lakehouse_core.merge.numbers import column_of as number_column
from lakehouse_core.merge.order import KeyOrder, Rows
from lakehouse_core.merge.positions import NONE, Flags, first_fitting, greatest_fitting, last_fitting
from lakehouse_core.merge.taking import row_indices, take, take_indices
from lakehouse_core.table.merge_spec import AggregateFunction

COPY: Final = "copy"
COPY_NON_NULL: Final = "copy non-null"
SEQUENCE: Final = "sequence"
"""How a column without a function follows its versions: all of them, those that are not null, or (a sequence field)
also retracts."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one column: `column` by row, `order` says which rows are versions of which key."""

    column: pa.Array
    order: KeyOrder
    starts: Rows
    actions: Actions | None

    @property
    def ends(self) -> Rows:
        return self.order.ends

    @property
    def count(self) -> int:
        return len(self.order.rows)

    def valid(self) -> Flags:
        """Return by position which values are not null."""
        return validity(self.column)[self.order.rows] if self.column.null_count else np.ones(self.count, dtype=bool)

    def does(self, *actions: Action) -> Flags:
        """Return by position whether the version does one of `actions`."""
        if self.actions is None:
            return np.full(self.count, Action.ADD in actions)
        table = np.zeros(len(Action), dtype=bool)
        table[list(actions)] = True
        return table[self.actions]

    def keys_that_do(self, *actions: Action) -> Rows:
        """Return the keys with a version that does one of `actions`."""
        if self.actions is None:
            return self.starts[:0]
        hits = np.flatnonzero(self.does(*actions))
        return np.unique(np.searchsorted(self.ends, hits)) if len(hits) else hits

    def picked(self, positions: Rows) -> pa.Array:
        """Return the values at these positions, null at NONE."""
        if (positions != NONE).all():
            return take(self.column, self.order.rows[positions])
        rows = self.order.rows[np.maximum(positions, 0)]
        return take_indices(self.column, row_indices(rows, positions == NONE))


def fold_plain(versions: Versions, how: str) -> pa.Array:
    """Fold a column without a function."""
    if how == COPY_NON_NULL:
        if versions.actions is None and not versions.column.null_count:
            return versions.picked(versions.ends)
        writes = versions.does(Action.SET) | (versions.does(Action.ADD) & versions.valid())
        return versions.picked(last_fitting(writes, versions.starts, versions.ends))
    if versions.actions is None:
        return versions.picked(versions.ends)
    if how == SEQUENCE:
        writes = versions.does(Action.ADD, Action.SET, Action.RETRACT, Action.SET_RETRACT)
        return versions.picked(last_fitting(writes, versions.starts, versions.ends))
    return versions.picked(_last_or_erased(versions, Action.RETRACT, Action.SET_RETRACT))


def fold_function(versions: Versions, function: AggregateFunction) -> pa.Array:
    """Fold a column by its function. Raises InvalidRequest for a retract that it does not take, and for overflows."""
    if function.ignore_retract and versions.actions is not None:
        versions = Versions(versions.column, versions.order, versions.starts, _without_retracts(versions.actions))
    fold = _FOLDS.get(function.name, _nothing)
    folded, left = fold(versions, function)
    return _patched(folded, left, versions, function)


_Fold = Callable[[Versions, AggregateFunction], tuple[pa.Array | None, Rows]]


def _nothing(versions: Versions, function: AggregateFunction) -> tuple[None, Rows]:
    """Nothing is vectorised: every key of more than one version goes row by row."""
    single = versions.starts == versions.ends
    if versions.actions is not None:
        single &= versions.actions[versions.starts] == Action.SET
    return None, np.flatnonzero(~single)


def _primary_key(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    return versions.picked(versions.ends), versions.ends[:0]


def _last_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    # Unlike a plain column, one with a function takes a late retract too.
    erasing = (Action.RETRACT, Action.RETRACT_OLDER, Action.SET_RETRACT)
    return versions.picked(_last_or_erased(versions, *erasing)), versions.ends[:0]


def _last_non_null_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    if versions.actions is None and not versions.column.null_count:
        return versions.picked(versions.ends), versions.ends[:0]
    valid = versions.valid()
    erases = versions.does(Action.SET_RETRACT) | (versions.does(Action.RETRACT, Action.RETRACT_OLDER) & valid)
    writes = versions.does(Action.SET) | (versions.does(Action.ADD) & valid) | erases
    found = last_fitting(writes, versions.starts, versions.ends)
    found = np.where((found != NONE) & erases[found], NONE, found)
    # An older version fills a gap only: the first of them, when nothing else was there.
    older = versions.does(Action.ADD_OLDER) & valid
    if not older.any():
        return versions.picked(found), versions.ends[:0]
    filling = first_fitting(older, versions.starts, versions.ends)
    found = np.where(last_fitting(writes, versions.starts, versions.ends) == NONE, filling, found)
    mixed = (Action.RETRACT, Action.RETRACT_OLDER, Action.SET_RETRACT, Action.SET)
    return versions.picked(found), np.intersect1d(
        versions.keys_that_do(*mixed), versions.keys_that_do(Action.ADD_OLDER)
    )


def _first_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    adds = versions.does(Action.ADD, Action.SET)
    return versions.picked(first_fitting(adds, versions.starts, versions.ends)), _beyond_first(versions)


def _first_non_null_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    adds = versions.does(Action.ADD, Action.SET) & versions.valid()
    return versions.picked(first_fitting(adds, versions.starts, versions.ends)), _beyond_first(versions)


def _beyond_first(versions: Versions) -> Rows:
    """Return the keys in which something was set among others: it stands, but is not the first that was added."""
    keys = versions.keys_that_do(Action.SET)
    return np.union1d(_beyond_adding(versions), keys[versions.starts[keys] < versions.ends[keys]])


def _extreme(*, smallest: bool) -> _Fold:
    def fold(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
        fits = versions.does(Action.ADD, Action.ADD_OLDER, Action.SET) & versions.valid()
        words: Sequence[Words] = [word[versions.order.rows] for word in comparison_words(versions.column)]
        found = greatest_fitting(fits, words, versions.starts, versions.ends, smallest=smallest)
        return versions.picked(found), _beyond_adding(versions, Action.ADD_OLDER)

    return fold


def _sum(versions: Versions, function: AggregateFunction) -> tuple[pa.Array | None, Rows]:
    numbers = _in_order(versions)
    if numbers is None:
        return _nothing(versions, function)
    retracts = versions.does(Action.RETRACT, Action.RETRACT_OLDER)
    if retracts.any():
        with np.errstate(over="ignore"):
            numbers = Numbers(np.where(retracts, -numbers.values, numbers.values), numbers.valid)
    fits = ~versions.does(Action.KEEP)
    kind = versions.column.type
    total, doubtful = added(numbers, fits, versions.starts, versions.ends, kind)
    left = _beyond_adding(versions, Action.ADD_OLDER, Action.RETRACT, Action.RETRACT_OLDER)
    if retracts.any() and pa.types.is_signed_integer(kind):
        # The least number has no opposite.
        least = retracts & numbers.valid & (numbers.values <= -(1 << (kind.bit_width - 1)))
        doubtful = np.union1d(doubtful, np.searchsorted(versions.ends, np.flatnonzero(least)))
    return _numbers_or_null(total, kind, doubtful), np.union1d(left, doubtful)


def _product(versions: Versions, function: AggregateFunction) -> tuple[pa.Array | None, Rows]:
    numbers = None if pa.types.is_decimal(versions.column.type) else _in_order(versions)
    if numbers is None:
        return _nothing(versions, function)
    fits, kind = ~versions.does(Action.KEEP), versions.column.type
    product, doubtful = multiplied(numbers, fits, versions.starts, versions.ends, kind)
    left = _beyond_adding(versions, Action.ADD_OLDER)
    return _numbers_or_null(product, kind, doubtful), np.union1d(left, doubtful)


_FOLDS: Final[dict[str, _Fold]] = {
    "primary-key": _primary_key,
    "last_value": _last_value,
    "last_non_null_value": _last_non_null_value,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null_value,
    "first_not_null_value": _first_non_null_value,
    "max": _extreme(smallest=False),
    "min": _extreme(smallest=True),
    "bool_or": _extreme(smallest=False),
    "bool_and": _extreme(smallest=True),
    "sum": _sum,
    "product": _product,
}


def _last_or_erased(versions: Versions, *erasing: Action) -> Rows:
    """Return the position of the newest version that is added or set, NONE where an `erasing` one came after."""
    if versions.actions is None:
        return versions.ends
    erases = versions.does(*erasing)
    found = last_fitting(versions.does(Action.ADD, Action.SET) | erases, versions.starts, versions.ends)
    return np.where((found != NONE) & erases[found], NONE, found)


def _beyond_adding(versions: Versions, *fine: Action) -> Rows:
    """Return the keys with actions other than to add, to keep, to set at first, and those that are `fine`."""
    if versions.actions is None:
        return versions.starts[:0]
    keys = versions.keys_that_do(*set(Action) - {Action.ADD, Action.KEEP, Action.SET, *fine})
    setting = versions.does(Action.SET)
    setting[versions.starts] = False
    return np.union1d(keys, np.searchsorted(versions.ends, np.flatnonzero(setting)))


def _without_retracts(actions: Actions) -> Actions:
    table = np.arange(len(Action), dtype=np.uint8)
    table[[Action.RETRACT, Action.RETRACT_OLDER]] = Action.KEEP
    table[Action.SET_RETRACT] = Action.SET
    changed: Actions = table[actions]
    return changed


def _in_order(versions: Versions) -> Numbers | None:
    numbers = numbers_of(versions.column)
    return None if numbers is None else numbers.take(versions.order.rows)


def _numbers_or_null(numbers: Numbers, kind: pa.DataType, doubtful: Rows) -> pa.Array:
    """Return the column; keys in doubt are null, for they are still to be decided."""
    if len(doubtful):
        numbers.valid[doubtful] = False
        numbers.values[doubtful] = 0
    return number_column(numbers, kind)


def _patched(folded: pa.Array | None, left: Rows, versions: Versions, function: AggregateFunction) -> pa.Array:
    """Fold the keys that are `left` row by row, and put them in."""
    if folded is None:
        folded = versions.picked(versions.ends)
    if not len(left):
        return folded
    step = aggregator(function)
    values = [_fold_rows(versions, key, step, function.type) for key in left]
    exact = column_of(values, function.type).cast(folded.type)
    rows = np.arange(len(folded), dtype=np.int64)
    rows[left] = len(folded) + np.arange(len(left))
    return take(pa.concat_arrays([folded, exact]), rows)


def _fold_rows(versions: Versions, key: int, step: Aggregator, data_type: DataType) -> Any:
    start, end = int(versions.starts[key]), int(versions.ends[key]) + 1
    values = values_of(take(versions.column, versions.order.rows[start:end]), data_type)
    actions = [Action.ADD] * len(values) if versions.actions is None else versions.actions[start:end].tolist()
    step.reset()
    accumulator: Any = None
    for action, value in zip(actions, values, strict=True):
        match action:
            case Action.ADD:
                accumulator = step.add(accumulator, value)
            case Action.ADD_OLDER:
                accumulator = step.add_older(accumulator, value)
            case Action.RETRACT | Action.RETRACT_OLDER:
                accumulator = step.retract(accumulator, value)
            case Action.SET:
                accumulator = value
            case Action.SET_RETRACT:
                accumulator = step.retract(value, value)
    return accumulator
