"""Version actions: the actions of all versions on the columns that share a sequence, as arrays for their folds.

Source: docs/semantics/merge-engines.md#sequence-groups.
"""

from functools import cached_property

import numpy as np

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.actions import Action, Actions
from lakehouse_core.merge.layers import Layers, last_in
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import NONE, Flags


class VersionActions:
    """The versions of all keys and their actions. Results are cached, because the columns need the same ones.

    `actions`: by position, None: all add. `folded`: the keys to merge; the others have one version, which they keep.
    """

    def __init__(self, order: KeyOrder, layers: Layers, folded: Flags, actions: Actions | None) -> None:
        self.order = order
        self.layers = layers
        self.folded = folded
        self.actions = actions
        self.starts = order.starts
        self.ends = order.ends
        self._does: dict[tuple[Action, ...], Flags] = {}
        self._last: dict[tuple[Action, ...], Rows] = {}

    @property
    def without_retracts(self) -> "VersionActions":
        """Return the same actions, except that retracts do nothing."""
        # `self` is not cached in itself: a reference cycle would hold the arrays until a garbage collection.
        return self if self.actions is None else self._without_retracts

    @cached_property
    def _without_retracts(self) -> "VersionActions":
        assert self.actions is not None
        table = np.arange(len(Action), dtype=np.uint8)
        table[[Action.RETRACT, Action.RETRACT_OLDER]] = Action.KEEP
        table[Action.SET_RETRACT] = Action.SET
        actions = table[self.actions]
        return VersionActions(self.order, self.layers, self.folded, actions if (actions != Action.ADD).any() else None)

    def does(self, *what: Action) -> Flags:
        """Return a read-only mask, in the order of the layers, of the versions with an action in `what`."""
        if what not in self._does:
            self._does[what] = self._flags(self.layers.positions, what)
        return self._does[what]

    def last_or_erased(self, *erasing: Action) -> Rows:
        """Return the position of each key's newest version that adds or sets, NONE if an erasing version is newer."""
        if self.actions is None:
            return self.ends
        if erasing not in self._last:
            written = last_in(self.layers, self.does(Action.ADD, Action.SET, *erasing))
            self._last[erasing] = self.unless(written, *erasing)
        return self._last[erasing]

    def unless(self, positions: Rows, *erasing: Action) -> Rows:
        """Return the positions, NONE for versions with an action in `erasing`."""
        return np.where(self._flags(positions, erasing), NONE, positions)

    def keys_that_do(self, *what: Action) -> Rows:
        """Return the keys with a version that has an action in `what`."""
        if self.actions is None:
            return self.starts[:0]
        return np.unique(self._keys(self.layers.positions[self.does(*what)]))

    def keys_of(self, places: Rows) -> Rows:
        """Return the keys of the versions at these places in the order of the layers."""
        return np.unique(self._keys(self.layers.positions[places]))

    @cached_property
    def setting_late(self) -> Rows:
        """Return the keys with a version that sets a value and is not the oldest."""
        if self.actions is None:
            return self.starts[:0]
        positions = self.layers.positions[self.does(Action.SET)]
        keys = self._keys(positions)
        return np.unique(keys[self.starts[keys] != positions])

    def _keys(self, positions: Rows) -> Rows:
        return np.searchsorted(self.ends, positions)

    def _flags(self, positions: Rows, what: tuple[Action, ...]) -> Flags:
        if self.actions is None:
            return np.full(len(positions), Action.ADD in what)
        table = np.zeros(len(Action), dtype=bool)
        table[list(what)] = True
        return table[self.actions[positions]]
