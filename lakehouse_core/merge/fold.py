"""Fold: combine the versions of each key into one value of a column, by the column's function.

Most functions pick one version, or compute a sum or product, for all keys at once. The others (text lists, nested rows,
sketches; keys with retracts or late versions whose order matters; overflows) go row by row, only for keys that need it.
Source: docs/semantics/merge-engines.md#partial-update, docs/semantics/merge-engines.md#aggregation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakehouse_core.format.data_types import DataType, column_of, values_of
from lakehouse_core.format.rows import Rows, row_indices, take, take_indices
from lakehouse_core.merge.actions import Action
from lakehouse_core.merge.functions import Aggregator, aggregator
from lakehouse_core.merge.key_words import comparison_words
from lakehouse_core.merge.layers import first_in, greatest_in, last_in, last_row_in
from lakehouse_core.merge.numeric_fold import Numbers, added, extreme, multiplied, numbers_of, validity
from lakehouse_core.merge.numeric_fold import column_of as number_column
from lakehouse_core.merge.positions import NONE, Flags
from lakehouse_core.merge.version_actions import VersionActions
from lakehouse_core.table.merge_spec import AggregateFunction

COPY: Final = "copy"
COPY_NON_NULL: Final = "copy non-null"
SEQUENCE: Final = "sequence"
"""How a column without a function follows its versions: all of them, those that are not null, or (a sequence field)
also retracts."""
_NO_KEYS: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one column, `column` by row, and their actions."""

    column: pa.Array
    acting: VersionActions

    def valid(self) -> Flags:
        """Return a mask, in the order of the layers, of the values that are not null."""
        layers = self.acting.layers
        return validity(self.column)[layers.rows] if self.column.null_count else np.ones(len(layers.rows), dtype=bool)

    def numbers(self) -> Numbers | None:
        """Return the values as numbers, in the order of the layers, null for versions with the action keep."""
        numbers = numbers_of(self.column)
        if numbers is None:
            return None
        taken = numbers.take(self.acting.layers.rows)
        return taken if self.acting.actions is None else replace(taken, valid=taken.valid & ~self.does(Action.KEEP))

    def does(self, *what: Action) -> Flags:
        """Return a read-only mask, in the order of the layers, of the versions with an action in `what`."""
        return self.acting.does(*what)

    def last_valid(self) -> pa.Array:
        """Return, for each key, the newest value that is not null, null if all are null."""
        if not self.column.null_count:
            return self.picked(self.acting.ends)
        # For a key without such a version, any of its versions is right, because all are null.
        return take(self.column, last_row_in(self.acting.layers, self.valid()))

    def picked(self, positions: Rows) -> pa.Array:
        """Return the values at these positions, null at NONE."""
        found, rows = positions != NONE, self.acting.order.rows
        if found.all():
            return take(self.column, rows[positions])
        if self.acting.actions is None:
            # All versions add, so the versions left out are null, and any of them is right.
            return take(self.column, rows[np.where(found, positions, self.acting.ends)])
        return take_indices(self.column, row_indices(rows[np.maximum(positions, 0)], ~found))


def fold_plain(versions: Versions, how: str) -> pa.Array:
    """Fold a column without a function."""
    acting = versions.acting
    if how == COPY_NON_NULL:
        if acting.actions is None:
            return versions.last_valid()
        writes = versions.does(Action.SET) | (versions.does(Action.ADD) & versions.valid())
        return versions.picked(last_in(acting.layers, writes))
    if acting.actions is None:
        return versions.picked(acting.ends)
    if how == SEQUENCE:
        writes = versions.does(Action.ADD, Action.SET, Action.RETRACT, Action.SET_RETRACT)
        return versions.picked(last_in(acting.layers, writes))
    # A retract older than the accumulated versions does not change a plain column.
    return versions.picked(acting.last_or_erased(Action.RETRACT, Action.SET_RETRACT))


def fold_function(versions: Versions, function: AggregateFunction) -> pa.Array:
    """Fold a column by its function.

    Raises InvalidRequest for a retract that the function refuses, and for overflows.
    """
    if function.ignore_retract:
        versions = Versions(versions.column, versions.acting.without_retracts)
    fold = _FOLDS.get(function.name, _nothing)
    folded, left = fold(versions, function)
    return _patched(folded, left, versions, function)


_Fold = Callable[[Versions, AggregateFunction], tuple[pa.Array | None, Rows]]


def _nothing(versions: Versions, function: AggregateFunction) -> tuple[None, Rows]:
    """Return that every folded key must be folded row by row, because nothing is vectorised."""
    return None, np.flatnonzero(versions.acting.folded)


def _primary_key(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    return versions.picked(versions.acting.ends), _NO_KEYS


def _last_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    found = versions.acting.last_or_erased(Action.RETRACT, Action.RETRACT_OLDER, Action.SET_RETRACT)
    return versions.picked(found), _NO_KEYS


def _last_non_null_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    acting = versions.acting
    if acting.actions is None:
        return versions.last_valid(), _NO_KEYS
    valid = versions.valid()
    erases = versions.does(Action.SET_RETRACT) | (versions.does(Action.RETRACT, Action.RETRACT_OLDER) & valid)
    writes = versions.does(Action.SET) | (versions.does(Action.ADD) & valid) | erases
    written = last_in(acting.layers, writes)
    found = acting.unless(written, Action.SET_RETRACT, Action.RETRACT, Action.RETRACT_OLDER)
    # An older version counts only if no other version was added: then the first of them.
    older = versions.does(Action.ADD_OLDER) & valid
    if not older.any():
        return versions.picked(found), _NO_KEYS
    found = np.where(written == NONE, first_in(acting.layers, older), found)
    mixed = (Action.RETRACT, Action.RETRACT_OLDER, Action.SET_RETRACT, Action.SET)
    left = np.intersect1d(acting.keys_that_do(*mixed), acting.keys_that_do(Action.ADD_OLDER))
    return versions.picked(found), left


def _first_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    adds = versions.does(Action.ADD, Action.SET)
    return versions.picked(first_in(versions.acting.layers, adds)), _beyond_first(versions.acting)


def _first_non_null_value(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
    adds = versions.does(Action.ADD, Action.SET) & versions.valid()
    return versions.picked(first_in(versions.acting.layers, adds)), _beyond_first(versions.acting)


def _beyond_first(acting: VersionActions) -> Rows:
    """Return the keys with a version that sets a value and is not the first one."""
    keys = acting.keys_that_do(Action.SET)
    return np.union1d(_beyond_adding(acting), keys[acting.starts[keys] < acting.ends[keys]])


def _extreme(*, smallest: bool) -> _Fold:
    def fold(versions: Versions, function: AggregateFunction) -> tuple[pa.Array, Rows]:
        layers, kind = versions.acting.layers, versions.column.type
        left = _beyond_adding(versions.acting, Action.ADD_OLDER)
        numbers = None if pa.types.is_floating(kind) else versions.numbers()
        if numbers is not None:
            return number_column(extreme(numbers, layers, smallest=smallest), kind), left
        fits = versions.does(Action.ADD, Action.ADD_OLDER, Action.SET) & versions.valid()
        words = [word[layers.rows] for word in comparison_words(versions.column)]
        return versions.picked(greatest_in(layers, fits, words, smallest=smallest)), left

    return fold


def _sum(versions: Versions, function: AggregateFunction) -> tuple[pa.Array | None, Rows]:
    numbers, acting = versions.numbers(), versions.acting
    if numbers is None:
        return _nothing(versions, function)
    kind = versions.column.type
    retracted = np.flatnonzero(versions.does(Action.RETRACT, Action.RETRACT_OLDER))
    least = retracted[:0]
    if pa.types.is_signed_integer(kind):
        # The smallest integer has no negation.
        least = retracted[(numbers.values[retracted] <= -(1 << (kind.bit_width - 1))) & numbers.valid[retracted]]
    with np.errstate(over="ignore"):
        numbers.values[retracted] = -numbers.values[retracted]
    total, doubtful = added(numbers, acting.layers, kind)
    left = _beyond_adding(acting, Action.ADD_OLDER, Action.RETRACT, Action.RETRACT_OLDER)
    doubtful = np.union1d(doubtful, acting.keys_of(least))
    return _numbers_or_null(total, kind, doubtful), np.union1d(left, doubtful)


def _product(versions: Versions, function: AggregateFunction) -> tuple[pa.Array | None, Rows]:
    numbers = None if pa.types.is_decimal(versions.column.type) else versions.numbers()
    if numbers is None:
        return _nothing(versions, function)
    product, doubtful = multiplied(numbers, versions.acting.layers, versions.column.type)
    left = _beyond_adding(versions.acting, Action.ADD_OLDER)
    return _numbers_or_null(product, versions.column.type, doubtful), np.union1d(left, doubtful)


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


def _beyond_adding(acting: VersionActions, *fine: Action) -> Rows:
    """Return the keys with actions other than add, keep, set as the first, and the actions in `fine`."""
    if acting.actions is None:
        return _NO_KEYS
    others = (each for each in Action if each not in (Action.ADD, Action.KEEP, Action.SET, *fine))
    return np.union1d(acting.keys_that_do(*others), acting.setting_late)


def _numbers_or_null(numbers: Numbers, kind: pa.DataType, doubtful: Rows) -> pa.Array:
    """Return the column; the `doubtful` keys are null, because they are folded later."""
    if len(doubtful):
        numbers.valid[doubtful] = False
        numbers.values[doubtful] = 0
    return number_column(numbers, kind)


def _patched(folded: pa.Array | None, left: Rows, versions: Versions, function: AggregateFunction) -> pa.Array:
    """Return `folded` with the keys in `left` folded row by row."""
    if folded is None:
        folded = versions.picked(versions.acting.ends)
    if not len(left):
        return folded
    step = aggregator(function)
    values = [_fold_rows(versions, key, step, function.type) for key in left]
    exact = column_of(values, function.type).cast(folded.type)
    rows = np.arange(len(folded), dtype=np.int64)
    rows[left] = len(folded) + np.arange(len(left))
    return take(pa.concat_arrays([folded, exact]), rows)


def _fold_rows(versions: Versions, key: int, step: Aggregator, data_type: DataType) -> Any:
    acting = versions.acting
    start, end = int(acting.starts[key]), int(acting.ends[key]) + 1
    values = values_of(take(versions.column, acting.order.rows[start:end]), data_type)
    actions = [Action.ADD] * len(values) if acting.actions is None else acting.actions[start:end].tolist()
    step.reset()
    accumulator: Any = None
    for action, group in groupby(zip(actions, values, strict=True), key=itemgetter(0)):
        alike = (value for _, value in group)
        match action:
            case Action.ADD:
                accumulator = step.add_all(accumulator, alike)
            case Action.ADD_OLDER:
                accumulator = reduce(step.add_older, alike, accumulator)
            case Action.RETRACT | Action.RETRACT_OLDER:
                accumulator = reduce(step.retract, alike, accumulator)
            case Action.SET:
                (*_, accumulator) = alike
            case Action.SET_RETRACT:
                for value in alike:
                    accumulator = step.retract(value, value)
    return accumulator
