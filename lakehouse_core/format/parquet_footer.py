"""A Parquet footer told that its INT96 columns are plain 12-byte values, which is how they are stored.

Arrow turns INT96 into nanoseconds without a look at overflow and at negative times of day; as bytes it leaves them as
they are. Source: parquet.thrift, and the Thrift compact protocol.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from lakehouse_core.errors import CorruptTable

INT96_BYTES: Final = 12

# Thrift's types in the compact protocol.
_BOOLEANS: Final = (1, 2)
_VARINTS: Final = (4, 5, 6)
_FIXED_BYTES: Final = {3: 1, 7: 8, 13: 16}
_BINARY, _LISTS, _MAP, _STRUCT = 8, (9, 10), 11, 12
_MOST_DEPTH: Final = 32

# Numbers of fields and types in parquet.thrift, values as the compact protocol writes them (zigzag).
_VERSION_FIELD, _SCHEMA_FIELD, _ROW_GROUPS_FIELD = 1, 2, 4
_COLUMNS_FIELD, _CHUNK_METADATA_FIELD = 1, 3
_TYPE_FIELD, _TYPE_LENGTH_FIELD = 1, 2
_PAGE_SIZE_FIELD, _PAGE_CHECKSUM_FIELD = 3, 4
_DATA_PAGE_FIELDS, _VALUE_COUNT_FIELD = (5, 8), 1
_INT96, _FIXED_LEN_BYTE_ARRAY = 3 * 2, 7 * 2
_TYPE_LENGTH: Final = bytes([0x10 | 5, INT96_BYTES * 2])

_NUMBER: Final = rb"\x15[\x80-\xff]*[\x00-\x7f]"
# The usual headers, without statistics, of a page of version 1 (its bytes, its values) and of a dictionary (its bytes).
_USUAL_HEADER: Final = re.compile(
    rb"\x15(?:\x00N(N)(?:N\x1c|\x2c)(N)NNN|\x04N(N)(?:N\x3c|\x4c)NN[\x11\x12]?)\x00\x00".replace(b"N", _NUMBER)
)

_Edit: TypeAlias = tuple[int, int, bytes]
# A field of a struct: its number, its type, where its header and its value begin, where the value ends.
_Field: TypeAlias = tuple[int, int, int, int, int]


def int96_as_bytes(footer: bytes) -> bytes:
    """Return the footer with every INT96 column as FIXED_LEN_BYTE_ARRAY(12); the values are the same bytes.

    `footer` is the Thrift structure alone, one that a Parquet library could read. Raises CorruptTable for other bytes.
    """
    try:
        edits = sorted(_edits(footer))
    except IndexError as error:
        raise CorruptTable("a Parquet footer ends inside a value") from error
    parts, position = [], 0
    for start, end, replacement in edits:
        parts += [footer[position:start], replacement]
        position = end
    return b"".join([*parts, footer[position:]])


def schema_end(footer: bytes) -> int:
    """Return where the schema of a footer ends, 0 if its first fields are not a version and a schema.

    Raises IndexError where `footer` ends inside the schema, CorruptTable for bytes that are no footer.
    """
    numbers: list[int] = []
    for number, _, _, _, end in _fields(footer, 0):
        numbers.append(number)
        if number == _SCHEMA_FIELD:
            return end if numbers == [_VERSION_FIELD, _SCHEMA_FIELD] else 0
    return 0


def page_header(data: bytes, position: int) -> tuple[int, int, int | None]:
    """Return where the page whose header is at `position` begins, where it ends, and its checksum, None if it has none.

    Raises IndexError where `data` ends inside the header.
    """
    size, checksum, end = 0, None, position
    for number, _, _, value, end in _fields(data, position):  # noqa: B007
        if number == _PAGE_SIZE_FIELD:
            size = _whole(data, value)
        elif number == _PAGE_CHECKSUM_FIELD:
            checksum = _whole(data, value) & 0xFFFFFFFF
    start = end + 1
    return start, start + size, checksum


def value_count(pages: bytes) -> int | None:
    """Return how many values the data pages of a column chunk hold by their headers, nulls included; None if the bytes
    are not whole pages.
    """
    count, position = 0, 0
    try:
        while position < len(pages):
            if usual := _USUAL_HEADER.match(pages, position):
                size, values, dictionary_size = usual.span(1)[0], usual.span(2)[0], usual.span(3)[0]
                start = usual.end()
                end = start + _whole(pages, max(size, dictionary_size) + 1)
                count += _whole(pages, values + 1) if values >= 0 else 0
            else:
                start, end, _ = page_header(pages, position)
                count += _values_of_page(pages, position)
            if not start <= end <= len(pages):
                return None
            position = end
    except (CorruptTable, IndexError):
        return None
    return count


def _values_of_page(data: bytes, position: int) -> int:
    for number, kind, _, start, _ in _fields(data, position):
        if number in _DATA_PAGE_FIELDS and kind == _STRUCT:
            for inner, _, _, value, _ in _fields(data, start):
                if inner == _VALUE_COUNT_FIELD:
                    return _whole(data, value)
    return 0


def _whole(data: bytes, position: int) -> int:
    zigzag, _ = _varint(data, position)
    return (zigzag >> 1) ^ -(zigzag & 1)


def _edits(footer: bytes) -> Iterator[_Edit]:
    for number, kind, _, start, _ in _fields(footer, 0):
        if number == _SCHEMA_FIELD:
            for element in _structs(footer, kind, start):
                yield from _element_edits(footer, list(_fields(footer, element)))
        elif number == _ROW_GROUPS_FIELD:
            for group in _structs(footer, kind, start):
                yield from _group_edits(footer, group)


def _element_edits(footer: bytes, fields: list[_Field]) -> Iterator[_Edit]:
    """Set the type of a schema element and, right behind it, the length that the new type has."""
    if not fields or fields[0][0] != _TYPE_FIELD or footer[fields[0][3]] != _INT96:
        return
    _, _, _, start, end = fields[0]
    following = fields[1:]
    if following and following[0][0] == _TYPE_LENGTH_FIELD:
        yield start, following[0][4], bytes([_FIXED_LEN_BYTE_ARRAY]) + _TYPE_LENGTH
        following = following[1:]
    else:
        yield start, end, bytes([_FIXED_LEN_BYTE_ARRAY]) + _TYPE_LENGTH
        if following and (header := footer[following[0][2]]) >> 4:
            # Headers say how far their number is from the one before, which is now that of the length.
            yield following[0][2], following[0][2] + 1, bytes([header - 0x10])


def _group_edits(footer: bytes, group: int) -> Iterator[_Edit]:
    for number, kind, _, start, _ in _fields(footer, group):
        if number != _COLUMNS_FIELD:
            continue
        for chunk in _structs(footer, kind, start):
            for inner, _, _, metadata, _ in _fields(footer, chunk):
                if inner != _CHUNK_METADATA_FIELD:
                    continue
                for field, _, _, value, end in _fields(footer, metadata):
                    if field == _TYPE_FIELD and footer[value] == _INT96:
                        yield value, end, bytes([_FIXED_LEN_BYTE_ARRAY])


def _fields(data: bytes, position: int, depth: int = 0) -> Iterator[_Field]:
    """Yield the fields of the struct at `position`."""
    number = 0
    while header := data[position]:
        begin, kind = position, header & 0x0F
        position += 1
        if header >> 4:
            number += header >> 4
        else:
            zigzag, position = _varint(data, position)
            number = (zigzag >> 1) ^ -(zigzag & 1)
        # A boolean field is its header.
        end = position if kind in _BOOLEANS else _end(data, kind, position, depth)
        yield number, kind, begin, position, end
        position = end


def _structs(data: bytes, kind: int, position: int) -> Iterator[int]:
    """Yield where each struct of the list at `position` begins."""
    if kind not in _LISTS:
        raise CorruptTable(f"a Parquet footer has a value of type {kind} where a list belongs")
    element, count, position = _list_header(data, position)
    for _ in range(count):
        if element != _STRUCT:
            raise CorruptTable(f"a Parquet footer has a list of type {element} where structures belong")
        yield position
        position = _end(data, _STRUCT, position, 0)


def _end(data: bytes, kind: int, position: int, depth: int) -> int:
    """Return where the value at `position` ends."""
    if depth > _MOST_DEPTH:
        raise CorruptTable(f"a Parquet footer is nested more than {_MOST_DEPTH} deep")
    if kind in _VARINTS:
        return _varint(data, position)[1]
    if kind in _FIXED_BYTES:
        return position + _FIXED_BYTES[kind]
    if kind == _BINARY:
        length, position = _varint(data, position)
        return position + length
    if kind == _STRUCT:
        for *_, end in _fields(data, position, depth + 1):
            position = end
        return position + 1
    if kind in _LISTS:
        element, count, position = _list_header(data, position)
        return _many(data, [element], count, position, depth)
    if kind == _MAP:
        count, position = _varint(data, position)
        if not count:
            return position
        return _many(data, [data[position] >> 4, data[position] & 0x0F], count, position + 1, depth)
    raise CorruptTable(f"a Parquet footer has a value of the unknown type {kind}")


def _many(data: bytes, kinds: list[int], count: int, position: int, depth: int) -> int:
    for _ in range(count):
        for kind in kinds:
            position = position + 1 if kind in _BOOLEANS else _end(data, kind, position, depth + 1)
            if position > len(data):
                raise IndexError
    return position


def _list_header(data: bytes, position: int) -> tuple[int, int, int]:
    element, count = data[position] & 0x0F, data[position] >> 4
    position += 1
    if count == 0x0F:
        count, position = _varint(data, position)
    return element, count, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while (byte := data[position]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift, position + 1
