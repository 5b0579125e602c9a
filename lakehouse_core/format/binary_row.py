"""BinaryRow: the bytes of partitions, keys, statistics and hashes. Source: Paimon format, "BinaryRow and relatives".

A row is a header and null bits, an eight-byte slot a field, and a variable part of eight-byte-aligned items. Numbers
inside are little-endian; the serialized form has the arity in front, big-endian. Values are the comparable values of
`format.data_types`.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    Root,
    RowType,
)

_HEADER_BITS = 8
_INLINE_MAX = 7
_COMPACT_DECIMAL = 18
_COMPACT_TIMESTAMP = 3
_MAX_DEPTH = 32
_FIXED = {
    Root.BOOLEAN: ("<?", 1),
    Root.TINYINT: ("<b", 1),
    Root.SMALLINT: ("<h", 2),
    Root.INT: ("<i", 4),
    Root.DATE: ("<i", 4),
    Root.TIME: ("<i", 4),
    Root.BIGINT: ("<q", 8),
    Root.FLOAT: ("<f", 4),
    Root.DOUBLE: ("<d", 8),
}
_STRINGS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY, Root.BLOB)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_INT = AtomicType(Root.INT, nullable=False)


def serialize_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return the form in which metadata holds a row: its arity, then its bytes."""
    return struct.pack(">i", len(types)) + encode_row(values, types)


def deserialize_row(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """Return the values of a serialized row. Raises CorruptTable when the bytes are not one of these types."""
    if len(data) < 4:
        raise CorruptTable(f"a serialized row has {len(data)} bytes, at least 12 were expected")
    (arity,) = struct.unpack_from(">i", data)
    if arity != len(types):
        raise CorruptTable(f"a serialized row has {arity} fields, {len(types)} were expected")
    return decode_row(data[4:], types)


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return the row's bytes, which are also what is hashed."""
    base = _bit_bytes(len(types), _HEADER_BITS, 64)
    out = _Writer(base + 8 * len(types))
    for index, (value, type_) in enumerate(zip(values, types, strict=True)):
        slot = base + 8 * index
        if value is None:
            out.set_bit(index + _HEADER_BITS)
            # Only rows reserve: it changes the hash and the bytes of a partition (spec, "Nulls: the hashing trap").
            if _reserves(type_):
                out.append(slot, bytes(16 if _root(type_) is Root.DECIMAL else 8), 0)
        else:
            _put(out, slot, value, type_)
    return bytes(out.data)


def decode_row(data: bytes, types: Sequence[DataType], depth: int = 0) -> tuple[Any, ...]:
    """Return the values in a row's bytes. Raises CorruptTable."""
    base = _bit_bytes(len(types), _HEADER_BITS, 64)
    _require(depth <= _MAX_DEPTH, f"a row is nested deeper than {_MAX_DEPTH} levels")
    _require(len(data) >= base + 8 * len(types), f"a row of {len(types)} fields has only {len(data)} bytes")
    return tuple(
        None if _bit(data, index + _HEADER_BITS) else _get(data, base + 8 * index, type_, depth)
        for index, type_ in enumerate(types)
    )


def encode_array(values: Sequence[Any], element: DataType) -> bytes:
    """Return a BinaryArray."""
    base = 4 + _bit_bytes(len(values), 0, 32)
    width = _element_width(element)
    out = _Writer((base + width * len(values) + 7) // 8 * 8, bits_at=4)
    struct.pack_into("<i", out.data, 0, len(values))
    for index, value in enumerate(values):
        if value is None:
            out.set_bit(index)
        else:
            _put(out, base + width * index, value, element)
    return bytes(out.data)


def decode_array(data: bytes, element: DataType, depth: int = 0) -> list[Any]:
    """Return the values in a BinaryArray. Raises CorruptTable."""
    _require(len(data) >= 4, "an array is cut short")
    (count,) = struct.unpack_from("<i", data)
    _require(count >= 0, f"an array has {count} elements")
    base = 4 + _bit_bytes(count, 0, 32)
    width = _element_width(element)
    _require(len(data) >= base + width * count, f"an array of {count} elements has only {len(data)} bytes")
    return [
        None if _bit(data[4:base], index) else _get(data, base + width * index, element, depth)
        for index in range(count)
    ]


def hash_row(row: bytes) -> int:
    """Return the signed 32-bit Murmur3 of a row's bytes (seed 42). Source: Paimon format, "Hash"."""
    state = 42
    for (word,) in struct.iter_unpack("<I", row):
        state = _rotate(state ^ (_rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK), 13)
        state = (state * 5 + 0xE6546B64) & _MASK
    state ^= len(row)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state


_MASK = 0xFFFFFFFF


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK


class _Writer:
    """The fixed part, and behind it the variable part as it grows."""

    def __init__(self, fixed_bytes: int, bits_at: int = 0) -> None:
        self.data = bytearray(fixed_bytes)
        self._bits_at = bits_at

    def set_bit(self, position: int) -> None:
        self.data[self._bits_at + position // 8] |= 1 << position % 8

    def append(self, slot: int, item: bytes, low: int) -> None:
        """Put `item` into the variable part, padded to eight bytes, and its offset and `low` into the slot."""
        struct.pack_into("<II", self.data, slot, low, len(self.data))
        self.data += item + bytes(-len(item) % 8)


def _put(out: _Writer, slot: int, value: Any, type_: DataType) -> None:
    match type_:
        case RowType(fields=fields):
            row = encode_row(value, [field.type for field in fields])
            out.append(slot, row, len(row))
        case ArrayType(element=element):
            array = encode_array(value, element)
            out.append(slot, array, len(array))
        case MapType(key=key, value=inner):
            _put_map(out, slot, value, key, inner)
        case MultisetType(element=element):
            _put_map(out, slot, value, element, _INT)
        case AtomicType(root=root):
            if root in _FIXED:
                struct.pack_into(_FIXED[root][0], out.data, slot, value)
            elif root in _STRINGS or root in _BYTES:
                _put_bytes(out, slot, value.encode() if isinstance(value, str) else value)
            elif root is Root.DECIMAL:
                _put_decimal(out, slot, value, type_)
            elif root in _TIMESTAMPS:
                millis, nanos = value
                if _precision(type_) <= _COMPACT_TIMESTAMP:
                    struct.pack_into("<q", out.data, slot, millis)
                else:
                    out.append(slot, struct.pack("<q", millis), nanos)


def _put_bytes(out: _Writer, slot: int, value: bytes) -> None:
    if len(value) <= _INLINE_MAX:
        out.data[slot : slot + len(value)] = value
        out.data[slot + 7] = 0x80 | len(value)
    else:
        out.append(slot, value, len(value))


def _put_decimal(out: _Writer, slot: int, value: Decimal, type_: AtomicType) -> None:
    unscaled = _unscaled(value, type_.scale or 0)
    if (type_.precision or 10) <= _COMPACT_DECIMAL:
        struct.pack_into("<q", out.data, slot, unscaled)
        return
    digits = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    out.append(slot, digits.ljust(16, b"\0"), len(digits))


def _put_map(out: _Writer, slot: int, value: Any, key: DataType, inner: DataType) -> None:
    pairs = list(value.items()) if isinstance(value, dict) else list(value)
    keys = encode_array([pair[0] for pair in pairs], key)
    item = struct.pack("<i", len(keys)) + keys + encode_array([pair[1] for pair in pairs], inner)
    out.append(slot, item, len(item))


def _get(data: bytes, slot: int, type_: DataType, depth: int) -> Any:
    match type_:
        case RowType(fields=fields):
            return decode_row(_item(data, slot), [field.type for field in fields], depth + 1)
        case ArrayType(element=element):
            return decode_array(_item(data, slot), element, depth + 1)
        case MapType(key=key, value=inner):
            return _get_map(_item(data, slot), key, inner, depth + 1)
        case MultisetType(element=element):
            return _get_map(_item(data, slot), element, _INT, depth + 1)
        case AtomicType(root=root):
            if root in _FIXED:
                return struct.unpack_from(_FIXED[root][0], data, slot)[0]
            if root in _STRINGS:
                return _text(_get_bytes(data, slot))
            if root in _BYTES:
                return _get_bytes(data, slot)
            if root is Root.DECIMAL:
                return _get_decimal(data, slot, type_)
            _require(root in _TIMESTAMPS, f"a row cannot hold a value of type {root}")
            return _get_timestamp(data, slot, type_)


def _get_bytes(data: bytes, slot: int) -> bytes:
    mark = data[slot + 7]
    if not mark & 0x80:
        return _item(data, slot)
    length = mark & 0x7F
    _require(length <= _INLINE_MAX, f"an inline value has length {length}, at most {_INLINE_MAX} was expected")
    return data[slot : slot + length]


def _get_decimal(data: bytes, slot: int, type_: AtomicType) -> Decimal:
    precision = type_.precision or 10
    if precision <= _COMPACT_DECIMAL:
        (unscaled,) = struct.unpack_from("<q", data, slot)
    else:
        digits = _item(data, slot)
        _require(1 <= len(digits) <= 16, f"a decimal has {len(digits)} bytes, 1 to 16 were expected")
        unscaled = int.from_bytes(digits, "big", signed=True)
    _require(abs(unscaled) < 10**precision, f"a decimal has more than {precision} digits")
    with localcontext() as context:
        context.prec = 40
        return Decimal(unscaled).scaleb(-(type_.scale or 0))


def _get_timestamp(data: bytes, slot: int, type_: AtomicType) -> tuple[int, int]:
    if _precision(type_) <= _COMPACT_TIMESTAMP:
        return struct.unpack_from("<q", data, slot)[0], 0
    nanos, offset = struct.unpack_from("<II", data, slot)
    _require(nanos < 1_000_000, f"a timestamp has {nanos} nanoseconds of a millisecond")
    _require(offset + 8 <= len(data), "a timestamp lies outside its row")
    return struct.unpack_from("<q", data, offset)[0], nanos


def _get_map(data: bytes, key: DataType, inner: DataType, depth: int) -> list[tuple[Any, Any]]:
    _require(len(data) >= 4, "a map is cut short")
    (size,) = struct.unpack_from("<i", data)
    _require(0 <= size <= len(data) - 4, f"a map's keys take {size} bytes of {len(data)}")
    keys = decode_array(data[4 : 4 + size], key, depth)
    values = decode_array(data[4 + size :], inner, depth)
    _require(len(keys) == len(values), f"a map has {len(keys)} keys and {len(values)} values")
    return list(zip(keys, values, strict=True))


def _item(data: bytes, slot: int) -> bytes:
    length, offset = struct.unpack_from("<II", data, slot)
    _require(offset + length <= len(data), f"a value of {length} bytes at {offset} lies outside its {len(data)} bytes")
    return data[offset : offset + length]


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptTable(f"a string is not UTF-8: {error}") from error


def _unscaled(value: Decimal, scale: int) -> int:
    with localcontext() as context:
        context.prec = 60
        return int(value.scaleb(scale))


def _root(type_: DataType) -> Root | None:
    return type_.root if isinstance(type_, AtomicType) else None


def _reserves(type_: DataType) -> bool:
    if not isinstance(type_, AtomicType):
        return False
    if type_.root is Root.DECIMAL:
        return (type_.precision or 10) > _COMPACT_DECIMAL
    return type_.root in _TIMESTAMPS and _precision(type_) > _COMPACT_TIMESTAMP


def _precision(type_: AtomicType) -> int:
    return 6 if type_.precision is None else type_.precision


def _element_width(type_: DataType) -> int:
    root = _root(type_)
    return _FIXED[root][1] if root in _FIXED else 8


def _bit_bytes(count: int, header_bits: int, word_bits: int) -> int:
    return (count + word_bits - 1 + header_bits) // word_bits * (word_bits // 8)


def _bit(data: bytes, position: int) -> bool:
    return bool(data[position // 8] >> position % 8 & 1)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise CorruptTable(f"{problem}: the bytes of a row are damaged or of another type")
