"""Bitmaps of 64-bit integers in the layout that Java's `Roaring64Bitmap.serialize` writes; no library but Java's does.

An empty mark, the number of containers, an adaptive radix tree from the upper 48 bits to container numbers, then the
containers: bitmaps of the lower 16 bits. Numbers are little-endian. Source: RoaringBitmap's `HighLowContainer`, `Art`
and `Containers`, and bytes that Java wrote.
"""

import struct
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from pyroaring import BitMap

from lakehouse_core.errors import InvalidRequest

# Containers by the upper 48 bits of their values, in the order in which they are stored.
Containers = dict[int, BitMap]

_EMPTY, _NOT_EMPTY = b"\0", b"\1"
_KEY_BYTES: Final = 6
# Kinds of tree nodes. Stored in every bitmap. Never renumber.
_NODE4, _NODE16, _NODE48, _NODE256, _LEAF = range(5)
_BODY_BYTES: Final = {_NODE4: 4, _NODE16: 16, _NODE48: 256, _NODE256: 32, _LEAF: _KEY_BYTES + 8}
# Kinds of containers.
_RUNS, _BITS, _ARRAY = range(3)
_BITS_BYTES: Final = 8192
# A list of containers that is as long as they are many.
_TRIMMED: Final = 0xFE

# The portable layout of a bitmap of one container, as `BitMap` reads and writes it.
_COOKIE_RUNS: Final = 12347
_COOKIE: Final = 12346
_MOST_IN_ARRAY: Final = 4096


def decode_roaring64(data: bytes) -> Containers:
    """Return the containers. Raises InvalidRequest for bytes that are not such a bitmap."""
    try:
        return _decode(_Bytes(data))
    except (struct.error, ValueError, LookupError) as error:
        raise InvalidRequest(
            f"{data[:16].hex()}… ({len(data)} bytes) is not a 64-bit Roaring bitmap of Java's."
        ) from error


def union_of(left: Mapping[int, BitMap], right: Mapping[int, BitMap]) -> Containers:
    """Return the union: the containers of the left in their order, then the new ones of the right."""
    united = dict(left)
    for key, low in right.items():
        united[key] = united[key] | low if key in united else low
    return united


def encode_roaring64(containers: Mapping[int, BitMap]) -> bytes:
    """Return the bytes; each container in the form that takes the fewest."""
    if not containers:
        return _EMPTY
    numbers = {key.to_bytes(_KEY_BYTES, "big"): number for number, key in enumerate(containers)}
    count = len(containers)
    return b"".join(
        (
            _NOT_EMPTY,
            struct.pack("<q", count),
            *_encode_node(sorted(numbers), 0, numbers),
            struct.pack("<iBi", 1, _TRIMMED, count),
            *map(_encode_container, containers.values()),
            struct.pack("<qii", count, 0, count - 1),
        )
    )


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def take(self, length: int) -> bytes:
        end = self._position + length
        if not 0 <= length <= len(self._data) - self._position:
            raise ValueError("the bytes end early")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))
        return int(value)


def _decode(source: _Bytes) -> Containers:
    if source.take(1) == _EMPTY:
        return {}
    expected = source.number("q")
    keys = {number: key for key, number in _leaves(source)}
    held: Containers = {}
    for first in range(source.number("i")):
        source.take(1)
        for second in range(source.number("i")):
            if source.take(1) == _EMPTY:
                continue
            held[keys[(first << 32) | second]] = _decode_container(source)
    if not len(held) == len(keys) == expected:
        raise ValueError("keys and containers differ")
    return held


def _leaves(source: _Bytes) -> Iterator[tuple[int, int]]:
    """Yield (upper bits, container number) of each leaf; a leaf holds its whole key, so nodes are only passed over."""
    left = 1
    while left:
        left -= 1
        kind, count, prefix_length = source.number("B"), source.number("H"), source.number("B")
        source.take(prefix_length)
        if kind not in _BODY_BYTES:
            raise ValueError("no such node")
        body = source.take(_BODY_BYTES[kind])
        if kind == _LEAF:
            yield int.from_bytes(body[:_KEY_BYTES], "big"), int.from_bytes(body[_KEY_BYTES:], "little")
        else:
            left += count


def _decode_container(source: _Bytes) -> BitMap:
    kind, cardinality = source.number("B"), source.number("i")
    if kind == _RUNS:
        run_count = source.number("H")
        body = struct.pack("<H", run_count) + source.take(4 * run_count)
        head = struct.pack("<IBHH", _COOKIE_RUNS, 1, 0, cardinality - 1)
    elif kind in (_BITS, _ARRAY):
        body = source.take(_BITS_BYTES if kind == _BITS else 2 * cardinality)
        if (kind == _ARRAY) != (cardinality <= _MOST_IN_ARRAY):
            # Java leaves a container that shrank in its form; the portable layout knows only one for each size.
            return _unusual_container(kind, body)
        head = struct.pack("<IIHHI", _COOKIE, 1, 0, cardinality - 1, 16)
    else:
        raise ValueError("no such container")
    return BitMap.deserialize(head + body)


def _unusual_container(kind: int, body: bytes) -> BitMap:
    if kind == _ARRAY:
        return BitMap(struct.unpack(f"<{len(body) // 2}H", body))
    bits = int.from_bytes(body, "little")
    return BitMap(place for place in range(8 * len(body)) if bits >> place & 1)


def _encode_container(low: BitMap) -> bytes:
    packed = BitMap(low)
    packed.run_optimize()
    portable = packed.serialize()
    cookie = int.from_bytes(portable[:2], "little")
    if cookie == _COOKIE_RUNS:
        return struct.pack("<BBi", 1, _RUNS, len(low)) + portable[9:]
    kind = _ARRAY if len(low) <= _MOST_IN_ARRAY else _BITS
    return struct.pack("<BBi", 1, kind, len(low)) + portable[16:]


def _encode_node(keys: list[bytes], depth: int, numbers: Mapping[bytes, int]) -> Iterator[bytes]:
    """Yield the node of sorted keys that share their first `depth` bytes, and all below it."""
    if len(keys) == 1:
        yield struct.pack("<BHB", _LEAF, 0, 0) + keys[0] + struct.pack("<q", numbers[keys[0]])
        return
    shared = depth
    while keys[0][shared] == keys[-1][shared]:
        shared += 1
    children = [(byte, list(group)) for byte, group in groupby(keys, key=lambda key: key[shared])]
    kind, body = _encode_children([byte for byte, _ in children])
    yield struct.pack("<BHB", kind, len(children), shared - depth) + keys[0][depth:shared] + body
    for _, group in children:
        yield from _encode_node(group, shared + 1, numbers)


def _encode_children(found: list[int]) -> tuple[int, bytes]:
    if len(found) <= 4:
        return _NODE4, bytes(found).ljust(4, b"\0")[::-1]
    if len(found) <= 16:
        return _NODE16, _swapped(bytes(found).ljust(16, b"\0"))
    if len(found) <= 48:
        places = bytearray(b"\xff" * 256)
        for place, byte in enumerate(found):
            places[byte] = place
        return _NODE48, _swapped(bytes(places))
    return _NODE256, sum(1 << byte for byte in found).to_bytes(32, "little")


def _swapped(data: bytes) -> bytes:
    """Bytes are packed into 64-bit numbers from their upper end, and the numbers are stored little-endian."""
    return b"".join(data[start : start + 8][::-1] for start in range(0, len(data), 8))
