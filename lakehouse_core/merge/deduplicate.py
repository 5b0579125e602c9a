"""Whole-version engines: keep the newest version of a key (deduplicate) or the oldest (first-row).

Source: docs/semantics/merge-engines.md#deduplicate, docs/semantics/merge-engines.md#first-row.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.layers import Layers, first_in, last_in
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import NONE, Flags

Kinds = npt.NDArray[Any]


def newest(
    order: KeyOrder, kinds: Kinds | None = None, *, ignore_delete: bool = False, folded: Flags | None = None
) -> Rows:
    """Return for each key the position of its newest version.

    `kinds` by row number (0 +I, 1 -U, 2 +U, 3 -D) is needed with `ignore_delete` only, which skips retracts: a key with
    only retracts is then NONE. A key that is not `folded` (None: a key of one version) keeps its version whatever its
    kind is.
    """
    if not ignore_delete or kinds is None or not (kinds & 1).any():
        return order.ends
    starts, ends = order.starts, order.ends
    layers = Layers(order)
    found = last_in(layers, is_add(kinds[layers.rows]))
    return np.where(starts != ends if folded is None else folded, found, ends)


def oldest(order: KeyOrder, kinds: Kinds, *, ignore_delete: bool = False, folded: Flags | None = None) -> Rows:
    """Return for each key the position of its oldest version, with `ignore_delete` the oldest that is not a retract.

    A key that is not `folded` (None: a key of one version) keeps its version. Raises InvalidRequest for a retract among
    folded versions, unless retracts are ignored.
    """
    starts, ends = order.starts, order.ends
    if not (kinds & 1).any():
        return starts
    folded = starts != ends if folded is None else folded
    if not ignore_delete:
        check_adds(kinds[order.rows][np.repeat(folded, ends - starts + 1)])
        return starts
    layers = Layers(order)
    return np.where(folded, first_in(layers, is_add(kinds[layers.rows])), starts)


def check_adds(kinds: Kinds) -> None:
    """Raise InvalidRequest for a retract, which first-row does not take."""
    if not is_add(kinds).all():
        raise InvalidRequest(
            "first-row: found a -D or -U record, expected +I or +U. Set ignore-delete to true to drop such records, or "
            "leave them out."
        )


def deduplicate(order: KeyOrder, kinds: Kinds | None = None, *, ignore_delete: bool = False) -> Rows:
    """Return the row that represents each key, in key order, by `newest`."""
    found = newest(order, kinds, ignore_delete=ignore_delete)
    rows: Rows = order.rows[found if found is order.ends else found[found != NONE]]
    return rows


def first_row(order: KeyOrder, kinds: Kinds | None, *, ignore_delete: bool = False) -> Rows:
    """Return the row that represents each key, in key order, by `oldest`; `kinds` None: all are +I."""
    if kinds is None:
        return order.rows[order.starts]
    found = oldest(order, kinds, ignore_delete=ignore_delete)
    rows: Rows = order.rows[found[found != NONE]]
    return rows


def is_add(kinds: Kinds) -> npt.NDArray[np.bool_]:
    """Return which kinds are +I or +U. The numbers are those of `_VALUE_KIND`."""
    add: npt.NDArray[np.bool_] = (kinds & 1) == 0
    return add
