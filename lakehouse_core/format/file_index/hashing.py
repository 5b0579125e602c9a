"""The 64-bit hashes of bloom filters, of whole columns at once.

Texts and bytes: XXH64 with seed 0. Everything else: Thomas Wang's hash of the value as a 64-bit integer.
Source: docs/format/file-index.md#bloom-filter.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lakehouse_core.format.data_types import BINARY_ROOTS, STRING_ROOTS, AtomicType, DataType, TypeRoot
from lakehouse_core.format.file_index.keys import KeyForm, column_keys, float_bits, key_form, literal_key

Hashes: TypeAlias = npt.NDArray[np.int64]

_BYTES: Final = (STRING_ROOTS | BINARY_ROOTS) - {TypeRoot.BLOB}
# So many rows at a time stay in the processor's cache.
_PIECE_ROWS: Final = 16 << 10
_UNHASHED: Final = frozenset({TypeRoot.BOOLEAN, TypeRoot.DECIMAL})


def is_hashed(data_type: DataType) -> bool:
    """Return whether values of the type have a hash."""
    if not isinstance(data_type, AtomicType) or data_type.root in _UNHASHED:
        return False
    return data_type.root in _BYTES or key_form(data_type) is not None


def hash_column(column: pa.Array, data_type: AtomicType) -> Hashes:
    """Return the hashes of the values of a column that are not null."""
    values = column.drop_null()
    if data_type.root in _BYTES:
        # One call for each distinct value costs less than one for each where values repeat; never much more.
        distinct = pc.unique(values) if len(values) and _repeats(values) else values
        raw = distinct.cast(pa.binary()).to_pylist()
        return np.fromiter(map(xxhash.xxh64_intdigest, raw), np.uint64, len(raw)).view(np.int64)
    form = _form(data_type)
    if form.is_floating:
        return _wang(float_bits(values, form.width))
    return _wang(column_keys(values, form).to_numpy(zero_copy_only=False))


def hash_literal(value: Any, data_type: AtomicType) -> int:
    """Return the hash of a comparable value; it may be an integer beyond a narrower integer type."""
    match value:
        case str():
            return _signed(xxhash.xxh64_intdigest(value.encode("utf-8", "surrogatepass")))
        case bytes():
            return _signed(xxhash.xxh64_intdigest(value))
        case float():
            form = _form(data_type)
            bits = float_bits(pa.array([value], pa.float32() if form.width == 4 else pa.float64()), form.width)
            return int(_wang(bits)[0])
        case _:
            return int(_wang(np.array([literal_key(value, _form(data_type))], np.int64))[0])


def _form(data_type: AtomicType) -> KeyForm:
    form = key_form(data_type)
    assert form is not None, data_type
    return form


_SAMPLE_ROWS: Final = 2048


def _repeats(values: pa.Array) -> bool:
    sample = values[:_SAMPLE_ROWS]
    distinct: int = pc.count_distinct(sample).as_py()
    return 2 * distinct < len(sample)


def _signed(hashed: int) -> int:
    return hashed - (1 << 64) if hashed >> 63 else hashed


def _wang(keys: npt.NDArray[np.int64]) -> Hashes:
    """Shifts to the right keep the sign, as Java's `>>`; everything wraps."""
    hashes: Hashes = np.empty(len(keys), np.int64)
    for start in range(0, len(keys), _PIECE_ROWS):
        piece = keys[start : start + _PIECE_ROWS]
        piece = ~piece + (piece << 21)
        piece ^= piece >> 24
        piece += (piece << 3) + (piece << 8)
        piece ^= piece >> 14
        piece += (piece << 2) + (piece << 4)
        piece ^= piece >> 28
        piece += piece << 31
        hashes[start : start + _PIECE_ROWS] = piece
    return hashes
