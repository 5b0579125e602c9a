"""BinaryRow decoding: read values from BinaryRow bytes, strictly.

Rule: an offset or a length is used only after it is known to lie inside the bytes at hand.
Source: docs/format/binary-row.md#row-layout.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row.layout import (
    LONGEST_INLINE,
    MAX_DEPTH,
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
)


def deserialize_row(data: bytes, types: Sequence[DataType], *, name: str = "row") -> tuple[Any, ...]:
    """Return the comparable values of a stored row: arity in four bytes, then the BinaryRow.

    Null slots may or may not reserve room, because writers differ. `name` names the row in errors. Raises CorruptTable
    for an impossible arity, header, length, offset or value.
    """
    if len(data) < 4:
        raise CorruptTable(f"{name}: it has {len(data)} bytes, expected a stored row. {_ADVICE}")
    arity = int.from_bytes(data[:4], "big", signed=True)
    if arity != len(types):
        raise CorruptTable(f"{name}: the row has {arity} fields, expected {len(types)}. {_ADVICE}")
    if len(data) > 4 and data[4] != 0:
        raise CorruptTable(f"{name}: byte 4: the row kind is {data[4]}, expected 0. {_ADVICE}")
    return decode_row(data[4:], types, name=name)


@lru_cache(maxsize=256)
def whole_number_rows(types: tuple[DataType, ...]) -> Callable[[bytes], tuple[int, ...] | None]:
    """Return a fast `deserialize_row` for types that are all whole numbers. It returns None for rows with nulls or of
    unusual bytes, and for other types: `deserialize_row` says what they are.
    """
    bits_size = null_bits_size(len(types))
    formats = [_SLOTS.get(each.root) if isinstance(each, AtomicType) else None for each in types]
    if None in formats:
        return lambda data: None
    row = struct.Struct("<" + "".join(map(str, formats)))
    head = len(types).to_bytes(4, "big") + bytes(bits_size)
    start, size, unpack = len(head), len(head) + row.size, row.unpack_from
    return lambda data: unpack(data, start) if len(data) == size and data.startswith(head) else None


def decode_row(data: bytes, types: Sequence[DataType], *, name: str = "row") -> tuple[Any, ...]:
    """Return the comparable values of a BinaryRow without its arity. Raises CorruptTable."""
    try:
        return _row(data, types, 0)
    except _Bad as error:
        raise CorruptTable(f"{name}: {error}. {_ADVICE}") from error


def decode_array(data: bytes, element: DataType, *, name: str = "array") -> tuple[Any, ...]:
    """Return the comparable values of a BinaryArray. Raises CorruptTable."""
    try:
        return _array(data, element, 0)
    except _Bad as error:
        raise CorruptTable(f"{name}: {error}. {_ADVICE}") from error


_ADVICE = "Keep the file it is from as evidence; restore it, or read a snapshot that does not name it."
_EXACT = Context(prec=100)
_COUNT = AtomicType(TypeRoot.INT, nullable=False)


class _Bad(ValueError):
    """The fault, and its field or byte."""


def _row(data: bytes, types: Sequence[DataType], depth: int) -> tuple[Any, ...]:
    bits_size = null_bits_size(len(types))
    fixed_size = bits_size + 8 * len(types)
    if depth > MAX_DEPTH:
        raise _Bad(f"values are nested deeper than {MAX_DEPTH}")
    if len(data) < fixed_size:
        raise _Bad(f"{len(data)} bytes are too few for {len(types)} fields, which take {fixed_size}")
    if data[0] > 3:
        raise _Bad(f"the row kind is {data[0]}, expected 0 to 3")
    bits = int.from_bytes(data[1:bits_size], "little")
    if bits >> len(types):
        raise _Bad(f"a null bit is set for a field beyond the last of {len(types)}")
    values: list[Any] = []
    for index, data_type in enumerate(types):
        if bits >> index & 1:
            values.append(None)
            continue
        at = bits_size + 8 * index
        try:
            values.append(_value(data, at, data_type, fixed_size, depth))
        except _Bad as error:
            raise _Bad(f"field {index}: {error}") from error
    return tuple(values)


def _array(data: bytes, element: DataType, depth: int) -> tuple[Any, ...]:
    if depth > MAX_DEPTH:
        raise _Bad(f"values are nested deeper than {MAX_DEPTH}")
    if len(data) < 4:
        raise _Bad(f"{len(data)} bytes are too few for an array")
    count = int.from_bytes(data[:4], "little", signed=True)
    size = element_size(element)
    bits_end = 4 + (count + 31) // 32 * 4
    fixed_size = padded_size(bits_end + size * count)
    if count < 0 or fixed_size > len(data):
        raise _Bad(f"an array claims {count} elements in {len(data)} bytes")
    bits = int.from_bytes(data[4:bits_end], "little")
    if bits >> count:
        raise _Bad(f"a null bit is set for an element beyond the last of {count}")
    return tuple(
        None if bits >> index & 1 else _value(data, bits_end + size * index, element, fixed_size, depth)
        for index in range(count)
    )


def _map(data: bytes, key: DataType, value: DataType, depth: int) -> tuple[tuple[Any, Any], ...]:
    keys_size = int.from_bytes(data[:4], "little", signed=True)
    if len(data) < 4 or not 0 <= keys_size <= len(data) - 4:
        raise _Bad(f"a map claims {keys_size} bytes of keys in {len(data)} bytes")
    keys = _array(data[4 : 4 + keys_size], key, depth)
    values = _array(data[4 + keys_size :], value, depth)
    if len(keys) != len(values):
        raise _Bad(f"a map has {len(keys)} keys and {len(values)} values")
    return tuple(zip(keys, values, strict=True))


def _value(data: bytes, at: int, data_type: DataType, fixed_size: int, depth: int) -> Any:
    match data_type:
        case AtomicType():
            return _atomic(data, at, data_type, fixed_size)
        case ArrayType(element):
            return _array(_variable(data, at, fixed_size), element, depth + 1)
        case MapType(key, item):
            return _map(_variable(data, at, fixed_size), key, item, depth + 1)
        case MultisetType(element):
            return _map(_variable(data, at, fixed_size), element, _COUNT, depth + 1)
        case RowType(fields):
            return _row(_variable(data, at, fixed_size), [field.type for field in fields], depth + 1)


def _atomic(data: bytes, at: int, data_type: AtomicType, fixed_size: int) -> Any:
    root = data_type.root
    if root in _FIXED:
        return _FIXED[root](data, at)[0]
    if root is TypeRoot.BOOLEAN:
        if data[at] > 1:
            raise _Bad(f"a boolean is {data[at]}, expected 0 or 1")
        return data[at] == 1
    if root in STRING_ROOTS:
        try:
            return _text_or_binary(data, at, fixed_size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _Bad("a string is not UTF-8") from error
    if root in BINARY_ROOTS:
        return _text_or_binary(data, at, fixed_size)
    if root in TIMESTAMP_ROOTS:
        return _timestamp(data, at, data_type, fixed_size)
    if root is TypeRoot.DECIMAL:
        return _decimal(data, at, data_type, fixed_size)
    content = _variable(data, at, fixed_size)
    value_size = int.from_bytes(content[:4], "little", signed=True)
    if len(content) < 4 or not 0 <= value_size <= len(content) - 4:
        raise _Bad(f"a variant claims a value of {value_size} bytes in {len(content)}")
    return content[4 : 4 + value_size], content[4 + value_size :]


def _text_or_binary(data: bytes, at: int, fixed_size: int) -> bytes:
    mark = data[at + 7]
    if mark & 0x80:
        size = mark & 0x7F
        if size > LONGEST_INLINE:
            raise _Bad(f"a value of {size} bytes claims to lie in its slot of 7")
        return data[at : at + size]
    return _variable(data, at, fixed_size)


def _variable(data: bytes, at: int, fixed_size: int) -> bytes:
    size, offset = _SIZE_AND_OFFSET(data, at)
    if not fixed_size <= offset <= len(data) - size:
        raise _Bad(f"a value claims bytes {offset} to {offset + size}, there are {fixed_size} to {len(data)}")
    return data[offset : offset + size]


def _timestamp(data: bytes, at: int, data_type: AtomicType, fixed_size: int) -> tuple[int, int]:
    if is_compact(data_type):
        return _LONG(data, at)[0], 0
    nanos, offset = _SIZE_AND_OFFSET(data, at)
    if nanos > 999_999:
        raise _Bad(f"a timestamp has {nanos} nanoseconds of a millisecond")
    if not fixed_size <= offset <= len(data) - 8:
        raise _Bad(f"a timestamp claims bytes {offset} to {offset + 8}, there are {fixed_size} to {len(data)}")
    return _LONG(data, offset)[0], nanos


def _decimal(data: bytes, at: int, data_type: AtomicType, fixed_size: int) -> Decimal:
    if is_compact(data_type):
        number = _LONG(data, at)[0]
    else:
        digits = _variable(data, at, fixed_size)
        if not 1 <= len(digits) <= 16:
            raise _Bad(f"a decimal has {len(digits)} bytes, expected 1 to 16")
        number = int.from_bytes(digits, "big", signed=True)
    if abs(number) >= 10 ** (data_type.precision or 0):
        raise _Bad(f"a decimal has more than {data_type.precision} digits")
    return _EXACT.scaleb(Decimal(number), -(data_type.scale or 0))


_LONG = struct.Struct("<q").unpack_from
_SIZE_AND_OFFSET = struct.Struct("<II").unpack_from
# The formats of values that fill their slots of eight bytes up.
_SLOTS: Mapping[TypeRoot, str] = {
    TypeRoot.TINYINT: "b7x",
    TypeRoot.SMALLINT: "h6x",
    TypeRoot.INT: "i4x",
    TypeRoot.DATE: "i4x",
    TypeRoot.TIME: "i4x",
    TypeRoot.BIGINT: "q",
}
_FIXED: Mapping[TypeRoot, Callable[[bytes, int], tuple[Any, ...]]] = {
    TypeRoot.TINYINT: struct.Struct("<b").unpack_from,
    TypeRoot.SMALLINT: struct.Struct("<h").unpack_from,
    TypeRoot.INT: struct.Struct("<i").unpack_from,
    TypeRoot.DATE: struct.Struct("<i").unpack_from,
    TypeRoot.TIME: struct.Struct("<i").unpack_from,
    TypeRoot.BIGINT: _LONG,
    TypeRoot.FLOAT: struct.Struct("<f").unpack_from,
    TypeRoot.DOUBLE: struct.Struct("<d").unpack_from,
}
