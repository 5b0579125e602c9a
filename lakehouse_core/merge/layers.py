"""Layers: the versions of all keys in layers, so that a vectorised step combines one version of every key.

Layer n holds the n-th oldest version of each key. Keys with the most versions come first, so a layer is a prefix of the
keys and a step needs no index. Files hold a key once, so layers are few; keys with very many versions are kept apart,
after all layers.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_words import Words
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import NONE, Flags

# A step takes about the same time for few keys as for many, so keys with more versions than this are merged one by one.
MOST_LAYERS: Final = 64


class Layers:
    """`positions` (in key order) and `rows` of the versions, in the order of the layers; taking a column at `rows`
    brings it into this order.

    `keys`: the keys in layers, in the order of a layer. `counts`: the number of versions in each layer. `long`: the
    other keys, each with the slice of its versions.
    """

    def __init__(self, order: KeyOrder) -> None:
        starts, ends = order.starts, order.ends
        sizes = ends - starts + 1
        deepest = min(int(sizes.max(initial=0)), MOST_LAYERS)
        # A stable sort of single bytes is one pass.
        depths = np.where(sizes > MOST_LAYERS, 0, sizes).astype(np.uint8)
        by_depth = np.argsort(np.uint8(MOST_LAYERS) - depths, kind="stable")
        self.counts = [int(np.count_nonzero(depths > layer)) for layer in range(deepest)]
        self.keys: Rows = by_depth[: self.counts[0] if self.counts else 0]
        found = [starts[self.keys[:count]] + layer for layer, count in enumerate(self.counts)]
        begin = sum(self.counts)
        self.long: list[tuple[int, slice]] = []
        for key in np.sort(by_depth[len(self.keys) :]).tolist():
            self.long.append((key, slice(begin, begin + int(sizes[key]))))
            begin += int(sizes[key])
            found.append(np.arange(starts[key], ends[key] + 1))
        self.key_count = len(ends)
        self.positions: Rows = np.concatenate(found) if found else starts
        self.rows: Rows = order.rows[self.positions]

    def later(self) -> Iterator[slice]:
        """Yield the slice of each layer after the oldest; a layer of n versions belongs to the first n `keys`."""
        begin = len(self.keys)
        for count in self.counts[1:]:
            yield slice(begin, begin + count)
            begin += count

    def by_key(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return `values`, given in the order of a layer, by key; the caller fills in those of `long` keys."""
        found = np.empty(self.key_count, dtype=values.dtype)
        found[self.keys] = values
        return found


def last_in(layers: Layers, fits: Flags) -> Rows:
    """Return for each key the position of its newest version that fits, or NONE. `fits` in the order of the layers."""
    positions, oldest = layers.positions, len(layers.keys)
    return _last(layers, fits, positions, np.where(fits[:oldest], positions[:oldest], NONE), otherwise=NONE)


def last_row_in(layers: Layers, fits: Flags) -> Rows:
    """Return for each key the row of its newest version that fits, or any of its rows; faster than `last_in`."""
    rows = layers.rows
    return _last(layers, fits, rows, rows[: len(layers.keys)].copy(), otherwise=None)


def _last(layers: Layers, fits: Flags, places: Rows, chosen: Rows, *, otherwise: int | None) -> Rows:
    """Return, for each key, the last of `places` that fits, else `otherwise`; `chosen`: the start values, of the oldest
    layer.
    """
    for layer in layers.later():
        np.copyto(chosen[: layer.stop - layer.start], places[layer], where=fits[layer])
    found = layers.by_key(chosen)
    for key, versions in layers.long:
        fitting = np.flatnonzero(fits[versions])
        found[key] = places[versions][fitting[-1] if len(fitting) else 0]
        if otherwise is not None and not len(fitting):
            found[key] = otherwise
    return found


def first_in(layers: Layers, fits: Flags) -> Rows:
    """Return for each key the position of its oldest version that fits, or NONE. `fits` in the order of the layers."""
    positions, oldest = layers.positions, len(layers.keys)
    chosen = np.where(fits[:oldest], positions[:oldest], NONE)
    for layer in layers.later():
        reached = chosen[: layer.stop - layer.start]
        np.copyto(reached, positions[layer], where=fits[layer] & (reached == NONE))
    found = layers.by_key(chosen)
    for key, versions in layers.long:
        fitting = np.flatnonzero(fits[versions])
        found[key] = positions[versions.start + fitting[0]] if len(fitting) else NONE
    return found


def greatest_in(layers: Layers, fits: Flags, words: Sequence[Words], *, smallest: bool = False) -> Rows:
    """Return for each key the position of its greatest (or smallest) version that fits, the oldest of equals, or NONE.

    `fits` and `words`, which order the values, in the order of the layers.
    """
    oldest = len(layers.keys)
    # The greatest version so far of each key, and its position.
    present = [word[:oldest].copy() for word in words]
    chosen = np.where(fits[:oldest], layers.positions[:oldest], NONE)
    for layer in layers.later():
        count = layer.stop - layer.start
        better = chosen[:count] == NONE
        tied = ~better
        for word, greatest in zip(words, present, strict=True):
            one, other = (word[layer], greatest[:count]) if smallest else (greatest[:count], word[layer])
            better |= tied & (one < other)
            tied &= one == other
        better &= fits[layer]
        np.copyto(chosen[:count], layers.positions[layer], where=better)
        for word, greatest in zip(words, present, strict=True):
            np.copyto(greatest[:count], word[layer], where=better)
    found = layers.by_key(chosen)
    for key, versions in layers.long:
        candidates = versions.start + np.flatnonzero(fits[versions])
        for word in words:
            values = word[candidates]
            if len(values):
                candidates = candidates[values == (values.min() if smallest else values.max())]
        found[key] = layers.positions[candidates[0]] if len(candidates) else NONE
    return found
