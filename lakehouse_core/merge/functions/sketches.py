"""Unions of sketches and bitmaps, in the bytes that Java writes: Apache DataSketches and Roaring bitmaps.

The Python libraries of both projects read and write the same bytes as their Java libraries; 64-bit bitmaps have a
layout of Java's own (`format.roaring64`).
Source: docs/semantics/merge-engines.md#aggregate-functions; `HllSketchUtil`, `ThetaSketch`, `RoaringBitmap32/64`.
"""

import struct
from collections.abc import Callable
from typing import Final

from datasketches import compact_theta_sketch, hll_sketch, hll_union, tgt_hll_type, theta_union
from pyroaring import BitMap

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.roaring64 import decode_roaring64, encode_roaring64, union_of
from lakehouse_core.merge.functions.aggregator import Aggregator, aggregator_of, skipping_nulls
from lakehouse_core.table.merge_spec import AggregateFunction

# 4096 entries, Java's default for the union of theta sketches.
_THETA_LG_ENTRIES: Final = 12
_EMPTY_THETA: Final = bytes.fromhex("01030300001e0000")
_THETA_FLAGS_AT: Final = 5
_THETA_SINGLE_FLAG: Final = 0x20
_THETA_SAMPLING: Final = struct.pack("<f", 1.0)


def hll_sketch_of(function: AggregateFunction) -> Aggregator:
    return _union(function, _united_hll)


def theta_sketch_of(function: AggregateFunction) -> Aggregator:
    return _union(function, _united_theta)


def rbm32_of(function: AggregateFunction) -> Aggregator:
    return _union(function, _united_rbm32)


def rbm64_of(function: AggregateFunction) -> Aggregator:
    return _union(function, _united_rbm64)


def _union(function: AggregateFunction, united: Callable[[bytes, bytes], bytes]) -> Aggregator:
    def combine(accumulator: bytes, value: bytes) -> bytes:
        try:
            return united(accumulator, value)
        # What the libraries raise for bytes that are no sketch of theirs, by kind of damage.
        except (InvalidRequest, ValueError, IndexError, RuntimeError, MemoryError) as error:
            raise InvalidRequest(
                f"Column {function.column}: found a value that is not a serialized {function.name}. Write values "
                f"that the same library of Java or Python serialized. ({error})"
            ) from error

    return aggregator_of(function, skipping_nulls(combine))


def _united_hll(accumulator: bytes, value: bytes) -> bytes:
    newer = hll_sketch.deserialize(value)
    union = hll_union(newer.lg_config_k)
    # Java begins with the newer one; small sketches list their entries in the order in which they came.
    union.update(newer)
    union.update(hll_sketch.deserialize(accumulator))
    return bytes(union.get_result(tgt_hll_type.HLL_4).serialize_compact())


def _united_theta(accumulator: bytes, value: bytes) -> bytes:
    union = theta_union(_THETA_LG_ENTRIES)
    union.update(compact_theta_sketch.deserialize(accumulator))
    union.update(compact_theta_sketch.deserialize(value))
    result = union.get_result()
    if result.is_empty():
        return _EMPTY_THETA
    data = bytearray(result.serialize())
    # Java also writes fields that readers derive: the mark of a single entry, and the sampling probability.
    if data[0] == 1:
        data[_THETA_FLAGS_AT] |= _THETA_SINGLE_FLAG
    else:
        data[12:16] = _THETA_SAMPLING
    return bytes(data)


def _united_rbm32(accumulator: bytes, value: bytes) -> bytes:
    united = BitMap.deserialize(accumulator) | BitMap.deserialize(value)
    united.run_optimize()
    return bytes(united.serialize())


def _united_rbm64(accumulator: bytes, value: bytes) -> bytes:
    return encode_roaring64(union_of(decode_roaring64(accumulator), decode_roaring64(value)))
