"""Column values as the keys of indexes: integers or bytes that sort as the values do, and their stored form.

Floating point sorts as Java's `Double.compare`: -0.0 before 0.0, NaN last.
Source: docs/format/file-index.md#container.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.data_types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
    timestamp_unit,
)

Key: TypeAlias = int | bytes
# Keys from `low` up to but not including `high`; None: without that bound.
KeyRange: TypeAlias = tuple[Key | None, Key | None]
Longs: TypeAlias = npt.NDArray[np.int64]

# Unscaled decimals of more digits do not fit the 8 bytes that indexes have for them.
_MOST_DIGITS: Final = 18
_WIDTHS: Final = {
    TypeRoot.BOOLEAN: 1,
    **{root: bits // 8 for root, bits in INTEGER_BITS.items()},
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DECIMAL: 8,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
_LENGTH: Final = struct.Struct(">i")
_MICROS_PER_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How values of a type are keys. `width`: stored bytes of a key; 0 for texts, which have their length before them.

    `is_exact`: equal keys mean equal values; nanoseconds are cut off timestamps.
    """

    type: AtomicType
    width: int
    is_exact: bool

    @property
    def is_text(self) -> bool:
        return self.width == 0

    @property
    def is_floating(self) -> bool:
        return self.type.root in FLOAT_ROOTS

    @property
    def nan(self) -> int | None:
        """The key of NaN, above all others; None for types without."""
        return _NAN[self.width] if self.is_floating else None


_NAN: Final = {4: 0x7FC00000, 8: 0x7FF8000000000000}
_INFINITY: Final = {4: 0x7F800000, 8: 0x7FF0000000000000}


def key_form(data_type: DataType) -> KeyForm | None:
    """Return how values of the type are keys, None when no index orders them."""
    if not isinstance(data_type, AtomicType):
        return None
    if data_type.root in STRING_ROOTS:
        return KeyForm(data_type, 0, True)
    width = _WIDTHS.get(data_type.root)
    if width is None or (data_type.root is TypeRoot.DECIMAL and (data_type.precision or 0) > _MOST_DIGITS):
        return None
    is_exact = data_type.root not in TIMESTAMP_ROOTS or (data_type.precision or 0) <= 6
    return KeyForm(data_type, width, is_exact)


def column_keys(column: pa.Array, form: KeyForm) -> pa.Array:
    """Return the keys of a column of the type, nulls kept: int64, or binary for texts."""
    if form.is_text:
        return column.cast(pa.binary())
    if form.is_floating:
        return _float_keys(column, form.width)
    match form.type.root:
        case TypeRoot.BOOLEAN:
            return column.cast(pa.int8()).cast(pa.int64())
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _instants(column)
        case TypeRoot.DECIMAL:
            return _unscaled(column)
        case TypeRoot.DATE | TypeRoot.TIME:
            return column.cast(pa.int32()).cast(pa.int64())
        case _:
            return column.cast(pa.int64())


def literal_key(value: Any, form: KeyForm) -> Key:
    """Return the key of a comparable value."""
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case Decimal():
            return int(value.scaleb(form.type.scale or 0))
        case float():
            return _float_key(value, form)
        case (millis, nanos):
            micros = int(millis) * _MICROS_PER_MILLI + int(nanos) // _MICROS_PER_MILLI
            return int(millis) if timestamp_unit(form.type.precision or 0) == "ms" else micros
        case _:
            return int(value)


def successor(key: Key) -> Key:
    """Return the smallest key above."""
    return key + b"\0" if isinstance(key, bytes) else key + 1


def stored_key(key: Key, form: KeyForm) -> bytes:
    """Return the bytes of a key as dictionaries hold them."""
    if isinstance(key, bytes):
        return _LENGTH.pack(len(key)) + key
    return _flipped(key, form).to_bytes(form.width, "big", signed=True)


def stored_keys(keys: Sequence[Key], form: KeyForm) -> list[bytes]:
    """As `stored_key`, of many."""
    if form.is_text or len(keys) < 2:
        return [stored_key(key, form) for key in keys]
    raw = _flipped_all(np.array(keys, np.int64), form).astype(f">i{form.width}").tobytes()
    return [raw[at : at + form.width] for at in range(0, len(raw), form.width)]


def loaded_key(data: bytes, position: int, form: KeyForm) -> tuple[Key, int]:
    """Return the key stored at `position` and where it ends. Raises ValueError when the bytes end before."""
    if form.is_text:
        start = position + _LENGTH.size
        length = int.from_bytes(data[position:start], "big", signed=True)
        if length < 0 or start + length > len(data):
            raise ValueError(f"a key of {length} bytes at byte {position} of {len(data)}")
        return data[start : start + length], start + length
    end = position + form.width
    if position < 0 or end > len(data):
        raise ValueError(f"a key at byte {position} of {len(data)}")
    raw = int.from_bytes(data[position:end], "big", signed=True)
    return int(loaded_keys(np.array([raw], np.int64), form)[0]), end


def loaded_keys(raw: npt.NDArray[Any], form: KeyForm) -> Longs:
    """Return keys of stored numbers."""
    keys = _flipped_all(raw.astype(np.int64), form)
    if form.is_floating:
        # Whatever bits a NaN was stored with.
        infinity = _INFINITY[form.width]
        keys[(keys > infinity) | (keys < -infinity - 1)] = _NAN[form.width]
    return keys


def float_bits(column: pa.Array, width: int) -> Longs:
    """Return the bits of a floating-point column as signed integers, one NaN for all; nulls are anything."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(f"f{width}")
    bits = np.where(np.isnan(values), _NAN[width], values.view(f"i{width}"))
    return bits.astype(np.int64)


def _float_keys(column: pa.Array, width: int) -> pa.Array:
    bits = float_bits(column, width)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(_flipped_bits(bits, width), pa.int64(), mask=~valid)


def _float_key(value: float, form: KeyForm) -> int:
    text = struct.pack(">f" if form.width == 4 else ">d", value)
    bits = _NAN[form.width] if math.isnan(value) else int.from_bytes(text, "big", signed=True)
    return _flipped(bits, form)


def _flipped(key: int, form: KeyForm) -> int:
    return key ^ ((1 << (8 * form.width - 1)) - 1) if form.is_floating and key < 0 else key


def _flipped_all(keys: Longs, form: KeyForm) -> Longs:
    return _flipped_bits(keys, form.width) if form.is_floating else keys


def _flipped_bits(bits: Longs, width: int) -> Longs:
    """Bits of negative numbers grow downwards; flipped they grow upwards, and the other way round."""
    flipped: Longs = np.where(bits < 0, bits ^ ((1 << (8 * width - 1)) - 1), bits)
    return flipped


def _instants(column: pa.Array) -> pa.Array:
    """Milliseconds of columns in milliseconds, microseconds of finer ones, rounded down."""
    numbers = column.cast(pa.int64())
    if column.type.unit != "ns":
        return numbers
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False) // _MICROS_PER_MILLI
    return pa.array(values, pa.int64(), mask=numbers.is_null().to_numpy(zero_copy_only=False))


def _unscaled(column: pa.Array) -> pa.Array:
    # The low words of 128-bit integers; these have at most 18 digits.
    words = np.frombuffer(column.buffers()[1], np.int64, 2 * (column.offset + len(column)))
    low = words[2 * column.offset :: 2]
    return pa.array(low, pa.int64(), mask=pc.is_null(column).to_numpy(zero_copy_only=False))
