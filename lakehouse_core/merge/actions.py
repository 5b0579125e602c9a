"""Actions: what each version of a key does to the columns of its row, in partial-update and aggregation.

Rule: which versions count is decided here, once for all columns that share a sequence; folds combine their values.
Source: docs/semantics/merge-engines.md#partial-update, docs/semantics/merge-engines.md#aggregation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_words import Words
from lakehouse_core.merge.positions import Flags, precedes
from lakehouse_core.table.merge_spec import MergeSpec, SequenceGroup


class Action(IntEnum):
    """What one version does to a column's accumulator."""

    KEEP = 0
    ADD = 1
    # Add a version that is older than the accumulated ones.
    ADD_OLDER = 2
    RETRACT = 3
    # The accumulator becomes the version's value, null included.
    SET = 4
    # Set the version's value, then retract it.
    SET_RETRACT = 5
    # Retract a version that is older than the accumulated ones.
    RETRACT_OLDER = 6


Actions = npt.NDArray[np.uint8]
Kinds = npt.NDArray[np.int8]
INSERT: Final = 0
DELETE: Final = 3


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """The versions of all keys by position, each key's oldest first: their `kinds`, and the start and end of each key.

    `folded`: the keys to merge; the others have one version, which stays as it is.
    """

    kinds: Kinds
    starts: Rows
    ends: Rows
    folded: Flags


@dataclass(frozen=True, slots=True)
class GroupSequence:
    """The order of one sequence group by position: the words, and a mask of versions whose sequence fields are all
    null.
    """

    words: Sequence[Words]
    unset: Flags


Sequences = Mapping[SequenceGroup, GroupSequence]


@dataclass(frozen=True, slots=True)
class Decisions:
    """The actions by position in key order, and the result kind of each key.

    `ungrouped` None: every version adds. `grouped`: by sequence group. `kinds`: the result kind by key. `last`: by key,
    the position of the version that gives the sequence number.
    """

    ungrouped: Actions | None
    grouped: Mapping[SequenceGroup, Actions]
    kinds: Kinds
    last: Rows


def aggregation_decisions(keys: KeyVersions, spec: MergeSpec) -> Decisions:
    """Return the decisions of the aggregation engine."""
    results = np.where(keys.folded, INSERT, keys.kinds[keys.ends]).astype(np.int8)
    retracts = (keys.kinds & 1) == 1
    if not retracts.any():
        return Decisions(None, {}, results, keys.ends)
    actions = np.where(retracts, Action.RETRACT, Action.ADD).astype(np.uint8)
    if spec.removes_on_delete:
        actions[keys.kinds == DELETE] = Action.SET
        results[keys.kinds[keys.ends] == DELETE] = DELETE
    actions[keys.starts[~keys.folded]] = Action.SET
    return Decisions(actions, {}, results, keys.ends)


def partial_update_decisions(keys: KeyVersions, sequences: Sequences, spec: MergeSpec) -> Decisions:
    """Return the decisions of partial-update. Raises InvalidRequest for a retract that the table refuses."""
    results = np.where(keys.folded, INSERT, keys.kinds[keys.ends]).astype(np.int8)
    lone = keys.starts[~keys.folded]
    grouped = {group: _newer_or_older(sequence, keys) for group, sequence in sequences.items()}
    for actions in grouped.values():
        actions[lone] = Action.SET
    retracts = (keys.kinds & 1) == 1
    if not retracts.any():
        return Decisions(None, grouped, results, keys.ends)
    ungrouped = np.full(len(keys.kinds), Action.ADD, dtype=np.uint8)
    ungrouped[lone] = Action.SET
    last = keys.ends.copy()
    for key in np.unique(np.searchsorted(keys.ends, np.flatnonzero(retracts))):
        if keys.folded[key]:
            walk = _RetractWalk(keys.kinds, sequences, spec, Decisions(ungrouped, grouped, results, last))
            results[key], last[key] = walk.walk(int(keys.starts[key]), int(keys.ends[key]))
    return Decisions(ungrouped, grouped, results, last)


def _newer_or_older(sequence: GroupSequence, keys: KeyVersions) -> Actions:
    """Return the action of each version: add if it is at least as new as the earlier ones, else add as older; keep
    without a sequence.
    """
    actions = np.where(sequence.unset, Action.KEEP, Action.ADD).astype(np.uint8)
    newest = keys.starts.copy()
    sizes = keys.ends - keys.starts + 1
    open_keys = np.flatnonzero(sizes > 1)
    step = 1
    while len(open_keys):
        candidates = keys.starts[open_keys] + step
        # Null comes first, so versions without a sequence never hide a later one.
        older = precedes(sequence.words, candidates, newest[open_keys])
        is_set = ~sequence.unset[candidates]
        actions[candidates[older & is_set]] = Action.ADD_OLDER
        newer = ~older & is_set
        newest[open_keys[newer]] = candidates[newer]
        step += 1
        open_keys = open_keys[sizes[open_keys] > step]
    return actions


class _RetractWalk:
    """Steps through the versions of one key that has retracts, and records their actions."""

    def __init__(self, kinds: Kinds, sequences: Sequences, spec: MergeSpec, written: Decisions) -> None:
        assert written.ungrouped is not None
        self._kinds = kinds
        self._sequences = sequences
        self._spec = spec
        self._ungrouped = written.ungrouped
        self._grouped = written.grouped
        # The position of the version that gives each group its sequence so far; None: all null.
        self._newest: dict[SequenceGroup, int | None] = dict.fromkeys(written.grouped)

    def walk(self, start: int, end: int) -> tuple[int, int]:
        """Return the result kind of the key and the position of the version that gives its sequence number."""
        is_filled = is_deleted = has_insert = False
        last = start
        for position in range(start, end + 1):
            is_deleted = False
            if self._kinds[position] & 1:
                first = not is_filled
                is_filled = True
                if self._spec.ignore_delete:
                    self._everywhere(position, Action.SET if first else Action.KEEP)
                    continue
                last = position
                is_deleted = self._retract(position, first)
            else:
                last = position
                self._ungrouped[position] = Action.ADD
                for group in self._grouped:
                    self._advance(group, position, Action.ADD, Action.ADD_OLDER)
                is_filled = has_insert = True
        return (DELETE if is_deleted or not has_insert else INSERT), last

    def _retract(self, position: int, first: bool) -> bool:
        """Record the actions of a retract, and return whether it deletes the row. `first`: it is the first version."""
        is_delete = self._kinds[position] == DELETE
        if self._spec.groups:
            return self._retract_groups(position, first, is_delete)
        if not self._spec.removes_on_delete:
            raise InvalidRequest(
                "partial-update: found a -D or -U record, expected +I or +U. Set ignore-delete to true to drop "
                "such records, partial-update.remove-record-on-delete to true to delete the row, or a sequence "
                "group to retract its columns."
            )
        self._everywhere(position, Action.SET if is_delete or first else Action.KEEP)
        return bool(is_delete)

    def _retract_groups(self, position: int, first: bool, is_delete: bool) -> bool:
        self._ungrouped[position] = Action.SET if first else Action.KEEP
        if first:
            self._newest = dict.fromkeys(self._grouped, position)
        for group in self._grouped:
            newer = self._advance(group, position, Action.RETRACT, Action.RETRACT_OLDER)
            if newer and is_delete and set(group.fields) & set(self._spec.removing_fields):
                self._everywhere(position, Action.SET)
                return True
            if first:
                self._grouped[group][position] = Action.SET if not newer else Action.SET_RETRACT
        return False

    def _advance(self, group: SequenceGroup, position: int, newer: Action, older: Action) -> bool:
        """Record the action of a version on a group; return whether the version is at least as new as the earlier
        ones.
        """
        actions, newest = self._grouped[group], self._newest[group]
        sequence = self._sequences[group]
        if sequence.unset[position]:
            actions[position] = Action.KEEP
            return False
        pair = np.array([position]), np.array([position if newest is None else newest])
        if precedes(sequence.words, *pair)[0]:
            actions[position] = older
            return False
        actions[position] = newer
        self._newest[group] = position
        return True

    def _everywhere(self, position: int, action: Action) -> None:
        self._ungrouped[position] = action
        for group, actions in self._grouped.items():
            actions[position] = action
            if action is Action.SET:
                self._newest[group] = position
