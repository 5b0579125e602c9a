"""Key homes: the partition of each key of a batch, where keys move between partitions, and the rows to write there.

Rule: whatever the batch holds, a key ends in one partition.
Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.deduplicate import Kinds, first_row, is_add
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import Flags
from lakehouse_core.options import MergeEngine

# Numbers of partitions.
Partitions: TypeAlias = npt.NDArray[np.int64]

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class KeyHomes:
    """`rows`: the rows of the batch to write, `keys`: for each the position of its key. By key: `partitions`, its home,
    and `leaves`: whether it leaves another partition, where a delete is written.
    """

    rows: Rows
    keys: Rows
    partitions: Partitions
    leaves: Flags


def key_homes(
    engine: MergeEngine,
    order: KeyOrder,
    kinds: Kinds | None,
    *,
    partitions: Partitions,
    known: Partitions,
    is_sure: Flags,
) -> KeyHomes:
    """Return where the keys of a batch go. `order`: its rows by key. `partitions`: of each row, `known`: of each key,
    where it is, or `UNKNOWN`. `is_sure`: whether a known key is there whatever becomes of other staged commits.

    Raises InvalidRequest for a retract of a known key with the engine first-row.
    """
    count = len(order.ends)
    each: Rows = np.arange(count)
    stays: Flags = np.zeros(count, dtype=bool)
    match engine:
        case MergeEngine.DEDUPLICATE:
            last = order.rows[order.ends]
            homes = partitions[last]
            if kinds is not None:
                # A delete goes where the key is, whatever partition it names.
                homes = np.where(is_add(kinds[last]) | (known == UNKNOWN), homes, known)
            return KeyHomes(last, each, homes, (known != UNKNOWN) & (homes != known))
        case MergeEngine.PARTIAL_UPDATE | MergeEngine.AGGREGATION:
            homes = np.where(known == UNKNOWN, partitions[order.rows[order.starts]], known)
            return KeyHomes(order.rows, np.repeat(each, _sizes(order)), homes, stays)
        case MergeEngine.FIRST_ROW:
            rows = first_row(order, kinds)
            is_dropped = (known != UNKNOWN) & is_sure
            if kinds is not None and not is_add(kinds[order.rows])[np.repeat(known != UNKNOWN, _sizes(order))].all():
                raise InvalidRequest(
                    "first-row: found a -D or -U record of a key that the table has, expected +I or +U. Set "
                    "ignore-delete to true to drop such records, or leave them out."
                )
            homes = np.where(known == UNKNOWN, partitions[rows], known)
            return KeyHomes(rows[~is_dropped], each[~is_dropped], homes, stays)
        case _:
            assert_never(engine)


def rounds(order: KeyOrder, kinds: Kinds | None, partitions: Partitions) -> Sequence[Rows]:
    """Divide the rows of a batch, so that in each part the rows of a key stay in one partition. The parts come one
    after the other, and keep the order of the rows.

    An added row brings its key to its partition, a retract stays where the key is.
    """
    rows = order.rows
    at = np.arange(len(rows))
    adds = np.ones(len(rows), dtype=bool) if kinds is None else is_add(kinds[rows])
    starts = np.repeat(order.starts, _sizes(order))
    last_add = np.maximum.accumulate(np.where(adds, at, -1))
    homes = np.where(last_add >= starts, partitions[rows][last_add], UNKNOWN)
    moves = np.concatenate(([False], (homes[1:] != homes[:-1]) & (starts[1:] == starts[:-1])))
    if not moves.any():
        return [np.arange(len(rows))]
    counted = np.cumsum(moves)
    numbers = counted - counted[starts]
    by_number = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers))[:-1]
    return [np.sort(rows[part]) for part in np.split(by_number, ends)]


def logged_homes(order: KeyOrder, kinds: Kinds | None, *, partitions: Partitions, known: Partitions) -> KeyHomes:
    """Return where the keys of one of the `rounds` of a batch go, if a changelog has each of its rows, with
    `deduplicate`. `partitions` and `known`: as for `key_homes`.
    """
    rows = order.rows
    adds = np.ones(len(rows), dtype=bool) if kinds is None else is_add(kinds[rows])
    named = np.maximum.reduceat(np.where(adds, partitions[rows], UNKNOWN), order.starts)
    # A retract of an unknown key goes to the partition that it names, and others stay with it.
    stays = np.where(known == UNKNOWN, partitions[rows[order.starts]], known)
    homes = np.where(named == UNKNOWN, stays, named)
    keys = np.repeat(np.arange(len(order.ends)), _sizes(order))
    return KeyHomes(rows, keys, homes, (known != UNKNOWN) & (homes != known))


def _sizes(order: KeyOrder) -> Rows:
    return order.ends - order.starts + 1
