"""Positions of versions in key order, and their comparison.

Source: docs/semantics/merge-engines.md#order-of-versions.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_words import Words

Flags = npt.NDArray[np.bool_]
# The position of a key without a fitting version.
NONE: Final = -1


def precedes(words: Sequence[Words], left: Rows, right: Rows) -> Flags:
    """Return a mask of the pairs in which the value at `left` is before the one at `right`."""
    before: Flags = np.zeros(len(left), dtype=bool)
    tied: Flags = np.ones(len(left), dtype=bool)
    for word in words:
        one, other = word[left], word[right]
        before |= tied & (one < other)
        tied &= one == other
        if not tied.any():
            break
    return before
