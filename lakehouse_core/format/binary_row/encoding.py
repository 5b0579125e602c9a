"""BinaryRow encoding: write values as BinaryRow bytes, one row at a time.

Rule: the bytes are hashed and compared, so each value has exactly one encoding: the one Java's generated rows have.
Source: docs/format/binary-row.md#row-layout.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.binary_row.layout import (
    LONGEST_INLINE,
    element_size,
    is_compact,
    null_bits_size,
    padded_size,
)
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    type_to_sql,
)


def serialize_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return the stored form of a row: its arity in four bytes, then `encode_row`."""
    return struct.pack(">i", len(types)) + encode_row(values, types)


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return the BinaryRow of comparable `values` (as `to_internal` makes them): what is hashed.

    Raises InvalidRequest when a value does not fit its type.
    """
    assert len(values) == len(types), f"{len(values)} values for {len(types)} types"
    bits_size = null_bits_size(len(types))
    bits = bytearray(bits_size)
    slots, tail = bytearray(), bytearray()
    tail_start = bits_size + 8 * len(types)
    for index, (value, data_type) in enumerate(zip(values, types, strict=True)):
        if value is None:
            bits[(index + 8) // 8] |= 1 << (index + 8) % 8
            # Java reserves room for a later value in place, so hashes and partition bytes contain it.
            reserved = _reserved_size(data_type)
            slots += struct.pack("<Q", (tail_start + len(tail)) << 32) if reserved else bytes(8)
            tail += bytes(reserved)
        else:
            slot, variable = _encode(value, data_type, tail_start + len(tail))
            slots += slot
            tail += variable
    return bytes(bits + slots + tail)


def encode_array(values: Sequence[Any], element: DataType) -> bytes:
    """Return the BinaryArray of comparable values. Raises InvalidRequest when one does not fit."""
    size = element_size(element)
    bits = bytearray((len(values) + 31) // 32 * 4)
    slots, tail = bytearray(), bytearray()
    tail_start = padded_size(4 + len(bits) + size * len(values))
    for index, value in enumerate(values):
        if value is None:
            # Nothing is reserved in arrays.
            bits[index // 8] |= 1 << index % 8
            slots += bytes(size)
        else:
            slot, variable = _encode(value, element, tail_start + len(tail))
            slots += slot[:size]
            tail += variable
    head = struct.pack("<i", len(values)) + bits + slots
    return bytes(head + bytes(tail_start - len(head)) + tail)


def encode_map(pairs: Sequence[tuple[Any, Any]], key: DataType, value: DataType) -> bytes:
    """Return the BinaryMap of (key, value) pairs, in their order."""
    keys = encode_array([pair[0] for pair in pairs], key)
    return struct.pack("<i", len(keys)) + keys + encode_array([pair[1] for pair in pairs], value)


def unscaled(value: Decimal, data_type: AtomicType) -> int:
    """Return the integer that a DECIMAL stores. Raises InvalidRequest when digits would be lost.

    Java's sums of short decimals, which are stored as 64 bits, may have more digits than the type says.
    """
    scaled = _EXACT.scaleb(value, data_type.scale or 0)
    number = int(scaled)
    precision = data_type.precision or 0
    limit = 1 << 63 if precision <= _SHORT_DIGITS else 10**precision
    if number != scaled or abs(number) >= limit:
        raise _misfit(value, data_type)
    return number


_EXACT = Context(prec=100)
_SHORT_DIGITS = 18
_COUNT = AtomicType(TypeRoot.INT, nullable=False)


def _reserved_size(data_type: DataType) -> int:
    if not isinstance(data_type, AtomicType) or is_compact(data_type):
        return 0
    return 16 if data_type.root is TypeRoot.DECIMAL else 8


def _encode(value: Any, data_type: DataType, offset: int) -> tuple[bytes, bytes]:
    """Return the slot of a value that is not null, and its bytes in the variable part at `offset`."""
    match data_type:
        case AtomicType():
            try:
                return _encode_atomic(value, data_type, offset)
            except (struct.error, OverflowError, TypeError, UnicodeEncodeError, AttributeError) as error:
                raise _misfit(value, data_type) from error
        case ArrayType(element):
            return _variable(encode_array(value, element), offset)
        case MapType(key, item):
            return _variable(encode_map(value, key, item), offset)
        case MultisetType(element):
            return _variable(encode_map(value, element, _COUNT), offset)
        case RowType(fields):
            return _variable(encode_row(value, [field.type for field in fields]), offset)


def _encode_atomic(value: Any, data_type: AtomicType, offset: int) -> tuple[bytes, bytes]:
    root = data_type.root
    if root in _FIXED:
        return _FIXED[root](value), b""
    if root in STRING_ROOTS:
        return _text_or_binary(value.encode("utf-8"), offset)
    if root in BINARY_ROOTS:
        return _text_or_binary(bytes(value), offset)
    if root in TIMESTAMP_ROOTS:
        millis, nanos = value
        if is_compact(data_type):
            if nanos:
                raise _misfit(value, data_type)
            return struct.pack("<q", millis), b""
        if not 0 <= nanos < 1_000_000:
            raise _misfit(value, data_type)
        return struct.pack("<II", nanos, offset), struct.pack("<q", millis)
    if root is TypeRoot.DECIMAL:
        number = unscaled(value, data_type)
        if is_compact(data_type):
            return struct.pack("<q", number), b""
        # One byte more than the magnitude needs, if its bits leave no room for the sign.
        digits = number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
        return struct.pack("<II", len(digits), offset), digits.ljust(16, b"\0")
    metadata_and_value = struct.pack("<i", len(value[0])) + value[0] + value[1]
    return _variable(metadata_and_value, offset)


def _text_or_binary(data: bytes, offset: int) -> tuple[bytes, bytes]:
    if len(data) <= LONGEST_INLINE:
        return data.ljust(7, b"\0") + bytes((0x80 | len(data),)), b""
    return _variable(data, offset)


def _variable(data: bytes, offset: int) -> tuple[bytes, bytes]:
    return struct.pack("<II", len(data), offset), data.ljust(padded_size(len(data)), b"\0")


_FIXED: Mapping[TypeRoot, Callable[[Any], bytes]] = {
    TypeRoot.BOOLEAN: struct.Struct("<?7x").pack,
    TypeRoot.TINYINT: struct.Struct("<b7x").pack,
    TypeRoot.SMALLINT: struct.Struct("<h6x").pack,
    TypeRoot.INT: struct.Struct("<i4x").pack,
    TypeRoot.DATE: struct.Struct("<i4x").pack,
    TypeRoot.TIME: struct.Struct("<i4x").pack,
    TypeRoot.BIGINT: struct.Struct("<q").pack,
    TypeRoot.FLOAT: struct.Struct("<f4x").pack,
    TypeRoot.DOUBLE: struct.Struct("<d").pack,
}


def _misfit(value: Any, data_type: DataType) -> InvalidRequest:
    return InvalidRequest(f"{value!r:.100} does not fit {type_to_sql(data_type)}: give a value of that type.")
