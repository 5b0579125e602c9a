"""Avro files: write records with fastavro, read them by a strict decoder of our own.

fastavro accepts a string that runs over the end of its block, and a block that holds more records than it counts; here
every byte of a block must belong to a record. `avro_columns` reads many equal records faster.
Source: Avro 1.11 specification, "Binary Encoding".
"""

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import fastavro

from lakehouse_core.errors import CorruptTable, InvalidRequest
from lakehouse_core.format.avro_container import BLOCK_BYTES, AvroContainer, build_container, corrupt, open_container

MAX_STRING_BYTES = 16 * 1024 * 1024
MAX_ITEMS = 10_000_000
MAX_DEPTH = 32

Record: TypeAlias = dict[str, Any]
# A function from a block and a position in it to the value there and the position after it.
_Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]


def write_avro(
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    *,
    codec: str = "zstandard",
    metadata: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return the file that holds `records`. `codec` as in `build_container`; equal input gives equal bytes.

    Raises InvalidRequest for a record that the decoders would refuse.
    """
    text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    return build_container(
        text,
        _blocks(text, records),
        codec=codec,
        metadata=metadata or {},
    )


def read_avro(data: bytes, name: str) -> list[Record]:
    """Return the records of a file; `name` stands for it in errors. Bytes are bytes, strings str, logical types raw.

    Raises CorruptTable naming block and byte, UnsupportedFeature for an unknown codec.
    """
    return list(records_of(open_container(data, name)))


def records_of(container: AvroContainer) -> Iterator[Record]:
    """Yield the records of an opened file in order. Raises CorruptTable naming block and byte."""
    read = _compile_schema(container)
    for index, block in enumerate(container.blocks):
        position = 0
        for number in range(block.count):
            try:
                record, position = read(block.data, position)
            except _Bad as error:
                raise corrupt(
                    f"{container.name}: block {index}, record {number}", error.position, error.found
                ) from error
            yield record
        if position != len(block.data):
            raise corrupt(
                f"{container.name}: block {index}",
                position,
                f"{len(block.data) - position} bytes follow the last of {block.count} records",
            )


def value_decoder(schema: Any) -> Callable[[bytes], Any]:
    """Return a function that decodes one value of `schema`, which must take all of its bytes, or raises ValueError."""
    read = _compile(schema, {}, 0)

    def decode(data: bytes) -> Any:
        try:
            value, position = read(data, 0)
        except _Bad as error:
            raise ValueError(error.found) from error
        if position != len(data):
            raise ValueError(f"{len(data) - position} bytes follow the value")
        return value

    return decode


def _blocks(schema_text: str, records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    parsed = _parsed(schema_text)
    buffer, count = io.BytesIO(), 0
    for record in records:
        start = buffer.tell()
        fastavro.schemaless_writer(buffer, parsed, record)
        count += 1
        # A record below this size cannot exceed the decoders' limits for values and blocks.
        if (size := buffer.tell() - start) > MAX_STRING_BYTES:
            raise InvalidRequest(
                f"A record of a metadata file would have {size} bytes, at most {MAX_STRING_BYTES} can be read back: "
                "keys, partitions or statistics are too long. Nothing was changed."
            )
        if buffer.tell() >= BLOCK_BYTES:
            yield count, buffer.getvalue()
            buffer, count = io.BytesIO(), 0
    if count:
        yield count, buffer.getvalue()


@lru_cache(maxsize=64)
def _parsed(schema_text: str) -> Any:
    return fastavro.parse_schema(json.loads(schema_text))


class _Bad(Exception):
    """The fault at a position of a block."""

    def __init__(self, position: int, found: str) -> None:
        super().__init__(found)
        self.position = position
        self.found = found


def _compile_schema(container: AvroContainer) -> _Reader:
    try:
        return _compiled(container.schema_text)
    except _Bad as error:
        raise CorruptTable(
            f"{container.name}: avro.schema in the header: {error.found}. Keep the file as evidence."
        ) from (error)


@lru_cache(maxsize=256)
def _compiled(schema_text: bytes) -> _Reader:
    """Return the reader of a schema, compiled once: a table's manifests have few schemas, each in thousands of
    files.
    """
    return _compile(json.loads(schema_text), {}, 0)


def _compile(schema: Any, named: dict[str, _Reader], depth: int) -> _Reader:
    if depth > MAX_DEPTH:
        raise _Bad(0, f"types are nested deeper than {MAX_DEPTH}")
    if isinstance(schema, list):
        return _union([_compile(branch, named, depth + 1) for branch in schema])
    if isinstance(schema, str):
        reader = _PRIMITIVES.get(schema) or named.get(schema) or named.get(schema.rpartition(".")[2])
        if reader is None:
            raise _Bad(0, f"unknown type {schema!r:.100}")
        return reader
    if not isinstance(schema, dict):
        raise _Bad(0, f"{schema!r:.100} is not a type")
    match schema.get("type"):
        case "record":
            return _record(schema, named, depth)
        case "array":
            return _array(_compile(schema.get("items"), named, depth + 1))
        case "map":
            return _map(_compile(schema.get("values"), named, depth + 1))
        case "fixed":
            return _remember(schema, named, _fixed(schema.get("size")))
        case "enum":
            return _remember(schema, named, _enum(schema.get("symbols")))
        case inner:
            return _compile(inner, named, depth + 1)


def _remember(schema: Mapping[str, Any], named: dict[str, _Reader], reader: _Reader) -> _Reader:
    named[str(schema.get("name")).rpartition(".")[2]] = reader
    return reader


def _record(schema: Mapping[str, Any], named: dict[str, _Reader], depth: int) -> _Reader:
    declared = schema.get("fields")
    if not isinstance(declared, list) or not all(
        isinstance(field, dict) and isinstance(field.get("name"), str) for field in declared
    ):
        raise _Bad(0, "a record has no list of named fields")
    names = [field["name"] for field in declared]
    if len(set(names)) != len(names):
        raise _Bad(0, "a record has two fields of one name")
    fields: list[tuple[str, _Reader]] = []

    def read(data: bytes, position: int) -> tuple[Record, int]:
        record = {}
        for name, reader in fields:
            record[name], position = reader(data, position)
        return record, position

    _remember(schema, named, read)
    fields.extend((field["name"], _compile(field.get("type"), named, depth + 1)) for field in declared)
    return read


def _union(branches: list[_Reader]) -> _Reader:
    def read(data: bytes, position: int) -> tuple[Any, int]:
        index, after = _long(data, position)
        if not 0 <= index < len(branches):
            raise _Bad(position, f"union branch is {index}, the type has {len(branches)}")
        return branches[index](data, after)

    return read


def _array(item: _Reader) -> _Reader:
    def read(data: bytes, position: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, position = _item_count(data, position, len(items))
            if count == 0:
                return items, position
            for _ in range(count):
                value, position = item(data, position)
                items.append(value)

    return read


def _map(value: _Reader) -> _Reader:
    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        while True:
            count, position = _item_count(data, position, len(found))
            if count == 0:
                return found, position
            for _ in range(count):
                start = position
                key, position = _string(data, position)
                if key in found:
                    raise _Bad(start, f"a map holds the key {key!r:.100} twice")
                found[key], position = value(data, position)

    return read


def _item_count(data: bytes, position: int, so_far: int) -> tuple[int, int]:
    start = position
    count, position = _long(data, position)
    if count < 0:
        count = -count
        _, position = _long(data, position)
    # An item of type null takes no byte, so the size of the block alone does not bound the count.
    if count + so_far > MAX_ITEMS:
        raise _Bad(start, f"{count} items are claimed, the limit is {MAX_ITEMS}")
    return count, position


def _fixed(size: Any) -> _Reader:
    if not isinstance(size, int) or not 0 <= size <= MAX_STRING_BYTES:
        raise _Bad(0, f"fixed has size {size!r:.100}")

    def read(data: bytes, position: int) -> tuple[bytes, int]:
        if len(data) - position < size:
            raise _Bad(position, f"{size} bytes are needed, {len(data) - position} are left")
        return data[position : position + size], position + size

    return read


def _enum(symbols: Any) -> _Reader:
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise _Bad(0, "enum has no list of symbols")

    def read(data: bytes, position: int) -> tuple[str, int]:
        index, after = _long(data, position)
        if not 0 <= index < len(symbols):
            raise _Bad(position, f"enum index is {index}, the type has {len(symbols)} symbols")
        return symbols[index], after

    return read


def _long(data: bytes, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        if position >= len(data):
            raise _Bad(position, "the block ends within a number")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 2**64:
                raise _Bad(position, "a number has more than 64 bits")
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > 63:
            raise _Bad(position, "a number has more than 64 bits")


def _int(data: bytes, position: int) -> tuple[int, int]:
    number, after = _long(data, position)
    if not -(2**31) <= number < 2**31:
        raise _Bad(position, f"{number} is not a 32-bit integer")
    return number, after


def _bytes(data: bytes, position: int) -> tuple[bytes, int]:
    size, start = _long(data, position)
    if not 0 <= size <= min(MAX_STRING_BYTES, len(data) - start):
        raise _Bad(position, f"a value claims {size} bytes, {len(data) - start} are left in its block")
    return data[start : start + size], start + size


def _string(data: bytes, position: int) -> tuple[str, int]:
    value, after = _bytes(data, position)
    try:
        return value.decode("utf-8"), after
    except UnicodeDecodeError as error:
        raise _Bad(position, "a string is not UTF-8") from error


def _boolean(data: bytes, position: int) -> tuple[bool, int]:
    if position >= len(data) or data[position] > 1:
        raise _Bad(position, "a boolean is neither 0 nor 1")
    return data[position] == 1, position + 1


def _null(data: bytes, position: int) -> tuple[None, int]:
    return None, position


def _float(data: bytes, position: int) -> tuple[float, int]:
    if len(data) - position < 4:
        raise _Bad(position, "the block ends within a float")
    return struct.unpack_from("<f", data, position)[0], position + 4


def _double(data: bytes, position: int) -> tuple[float, int]:
    if len(data) - position < 8:
        raise _Bad(position, "the block ends within a double")
    return struct.unpack_from("<d", data, position)[0], position + 8


_PRIMITIVES: Mapping[str, _Reader] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}
