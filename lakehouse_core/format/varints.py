"""Varints: whole numbers in as many bytes as they need, seven bits in each, as Avro and Thrift write them."""


def encode_long(number: int) -> bytes:
    """Return the zigzag variable-length form of a signed 64-bit integer."""
    return encode_varint((number << 1) ^ (number >> 63))


def encode_varint(number: int) -> bytes:
    """Return the variable-length form of a number that is not negative."""
    rest = number
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
