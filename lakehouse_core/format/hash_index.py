"""Hash index: the hashes of the keys of one bucket in a table with dynamic buckets, as bytes.

Source: docs/format/buckets.md#hash-index.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lakehouse_core.errors import CorruptTable

Hashes: TypeAlias = npt.NDArray[np.int32]

HASH_BYTES: Final = 4


def encode_hashes(hashes: Hashes) -> bytes:
    """Return the content of an index file, in the given order."""
    return hashes.astype(">i4").tobytes()


def decode_hashes(data: bytes, key: str) -> Hashes:
    """Return the distinct hashes in the index file `key`, rising; other engines store them in any order.

    Raises CorruptTable for bytes that are not whole hashes.
    """
    if len(data) % HASH_BYTES:
        raise CorruptTable(
            f"{key}: it has {len(data)} bytes, expected hashes of {HASH_BYTES} bytes each. "
            "Do not expire snapshots; run `lakehouse verify` and keep its report."
        )
    return distinct(np.frombuffer(data, ">i4").astype(np.int32))


def distinct(hashes: Hashes) -> Hashes:
    """Return the distinct hashes, rising; the same array if it is so already."""
    if len(hashes) < 2 or bool((hashes[1:] > hashes[:-1]).all()):
        return hashes
    ordered = np.sort(hashes)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
