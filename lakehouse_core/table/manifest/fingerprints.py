"""Fingerprints of many values at once: 64-bit hashes, which are equal for equal values and rarely for others."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Prints: TypeAlias = npt.NDArray[np.uint64]


def text_fingerprints(texts: pa.StringArray) -> Prints:
    """Return a fingerprint of each text, made of its bytes eight at a time."""
    prints = np.zeros(len(texts), np.uint64)
    if not len(texts):
        return prints
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    padded[: last - first] = np.frombuffer(data, np.uint8, last - first, first) if last > first else 0
    words: Prints = np.ndarray((len(padded) - 7,), "<u8", padded.data, strides=(1,))
    starts, lengths = bounds[:-1] - first, np.diff(bounds)
    for position in range(0, int(lengths.max()), 8):
        left = np.clip(lengths - position, 0, 8)
        word = words[np.minimum(starts + position, len(words) - 1)]
        # The bytes after the end of a text belong to the next one.
        word <<= (8 * (8 - np.maximum(left, 1))).astype(np.uint64)
        prints = np.where(left > 0, stirred(prints ^ word), prints)
    return stirred(prints ^ lengths.astype(np.uint64))


def stirred(prints: Prints) -> Prints:
    """Return `prints` with mixed bits, so that the next value to combine affects other bits."""
    prints = prints * np.uint64(0x9E3779B97F4A7C15)
    return prints ^ (prints >> np.uint64(29))
