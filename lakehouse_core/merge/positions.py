"""Picks one version of each key: the last, first, smallest or greatest that fits. All keys at once, in rounds.

A round looks at one more version of every key that is not decided yet. Files hold a key once, so keys have few
versions and rounds are few; a key written over and over again is decided by one running maximum instead.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakehouse_core.merge.key_words import Words
from lakehouse_core.merge.order import Rows

Flags = npt.NDArray[np.bool_]
# What stands for a key none of whose versions fits.
NONE = -1
# Rounds cost the same whether few keys or many are left; keys of more versions than this are decided one by one.
MOST_ROUNDS = 64


def last_fitting(fits: Flags, starts: Rows, ends: Rows) -> Rows:
    """Return for each key the position of its newest version that fits, or NONE.

    Positions count in key order, versions of a key oldest first; a key's lie from `starts` to `ends`, both included.
    """
    found = ends.copy()
    open_keys = np.flatnonzero(~fits[ends])
    for _ in range(MOST_ROUNDS):
        if not len(open_keys):
            return found
        found[open_keys] -= 1
        left = found[open_keys] >= starts[open_keys]
        found[open_keys[~left]] = NONE
        open_keys = open_keys[left]
        open_keys = open_keys[~fits[found[open_keys]]]
    if len(open_keys):
        newest = np.maximum.accumulate(np.where(fits, np.arange(len(fits)), NONE))[found[open_keys]]
        found[open_keys] = np.where(newest >= starts[open_keys], newest, NONE)
    return found


def first_fitting(fits: Flags, starts: Rows, ends: Rows) -> Rows:
    """Return for each key the position of its oldest version that fits, or NONE."""
    last = len(fits) - 1
    found = last_fitting(fits[::-1], last - ends[::-1], last - starts[::-1])[::-1]
    return np.where(found == NONE, NONE, last - found)


def greatest_fitting(fits: Flags, words: Sequence[Words], starts: Rows, ends: Rows, *, smallest: bool = False) -> Rows:
    """Return for each key the position of its greatest (or smallest) version that fits, the oldest of equals, or NONE.

    `words` by position order the values.
    """
    found = np.where(fits[starts], starts, NONE)
    sizes = ends - starts + 1
    for key in np.flatnonzero(sizes > MOST_ROUNDS):
        found[key] = _greatest(np.flatnonzero(fits[starts[key] : ends[key] + 1]) + starts[key], words, smallest)
    open_keys = np.flatnonzero((sizes > 1) & (sizes <= MOST_ROUNDS))
    step = 1
    while len(open_keys):
        candidates = starts[open_keys] + step
        present = found[open_keys]
        better = precedes(words, candidates, present) if smallest else precedes(words, present, candidates)
        taken = fits[candidates] & ((present == NONE) | better)
        found[open_keys[taken]] = candidates[taken]
        step += 1
        open_keys = open_keys[sizes[open_keys] > step]
    return found


def _greatest(positions: Rows, words: Sequence[Words], smallest: bool) -> int:
    for word in words:
        if len(positions) > 1:
            values = word[positions]
            positions = positions[values == (values.min() if smallest else values.max())]
    return int(positions[0]) if len(positions) else NONE


def precedes(words: Sequence[Words], left: Rows, right: Rows) -> Flags:
    """Say for each pair of positions whether the value at `left` comes before the one at `right`."""
    before: Flags = np.zeros(len(left), dtype=bool)
    tied: Flags = np.ones(len(left), dtype=bool)
    for word in words:
        one, other = word[left], word[right]
        before |= tied & (one < other)
        tied &= one == other
        if not tied.any():
            break
    return before
