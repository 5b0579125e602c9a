"""Deduplicate: of all versions of a key the newest stays, its kind with it. Source: Paimon semantics, C.2, D.1."""

from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse_core.merge.order import KeyOrder, Rows

Kinds = npt.NDArray[Any]


def deduplicate(order: KeyOrder, kinds: Kinds | None = None, *, ignore_delete: bool = False) -> Rows:
    """Return the row that stands for each key, in key order.

    `kinds` by row number (0 +I, 1 -U, 2 +U, 3 -D) is needed with `ignore_delete` only, which passes over retracts;
    a key with one version keeps it whatever its kind, a key of retracts alone then vanishes.
    """
    if not ignore_delete or kinds is None or not (kinds & 1).any():
        return order.rows[order.ends]
    positions = np.arange(len(order.rows), dtype=np.int64)
    starts, ends = order.starts, order.ends
    newest_add = np.maximum.accumulate(np.where(is_add(kinds[order.rows]), positions, -1))[ends]
    newest_add[starts == ends] = ends[starts == ends]
    return order.rows[newest_add[newest_add >= starts]]


def is_add(kinds: Kinds) -> npt.NDArray[np.bool_]:
    """Say which kinds are +I or +U. The numbers are those of `_VALUE_KIND`."""
    add: npt.NDArray[np.bool_] = (kinds & 1) == 0
    return add
