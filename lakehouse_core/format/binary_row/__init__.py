"""BinaryRow: the encoding of partitions, keys and statistics, and what buckets are computed from."""

from lakehouse_core.format.binary_row.decoding import decode_array, decode_row, deserialize_row, whole_number_rows
from lakehouse_core.format.binary_row.encoding import encode_array, encode_row, serialize_row, unscaled
from lakehouse_core.format.binary_row.hashing import hash_bytes, hash_row
from lakehouse_core.format.binary_row.vectors import encode_rows, hash_rows, serialize_rows

__all__ = [
    "decode_array",
    "decode_row",
    "deserialize_row",
    "encode_array",
    "encode_row",
    "encode_rows",
    "hash_bytes",
    "hash_row",
    "hash_rows",
    "serialize_row",
    "serialize_rows",
    "unscaled",
    "whole_number_rows",
]
