"""The bucket of a row, by the three functions of `bucket-function.type`.

Bucket numbers are stored in the folder name of every data file: never change a result of these functions.
Source: docs/format/buckets.md#bucketing.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.binary_row import encode_row, hash_row, hash_rows
from lakehouse_core.format.data_types import AtomicType, DataType, TypeRoot, type_to_sql

Buckets: TypeAlias = npt.NDArray[np.int32]

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_SMALL = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE, TypeRoot.TIME)


def buckets(columns: Sequence[pa.Array], types: Sequence[DataType], count: int, function: str) -> Buckets:
    """Return the bucket (0 … count - 1) of every row; `columns` are the bucket key's, in its order."""
    match function:
        case "default":
            # The remainder is truncated as in Java, then made positive: not Python's %.
            return np.abs(np.fmod(hash_rows(columns, types), np.int32(count)))
        case "mod":
            _require_mod(types)
            values = pc.fill_null(columns[0], 0).to_numpy(zero_copy_only=False).astype(np.int64)
            modulo: Buckets = np.mod(values, count).astype(np.int32)
            return modulo
        case "hive":
            hashes = np.zeros(len(columns[0]), dtype=np.int32)
            for column, type_ in zip(columns, types, strict=True):
                hashes = hashes * np.int32(31) + _hive_hashes(column, type_)
            return (hashes & np.int32(0x7FFFFFFF)) % np.int32(count)
        case _:
            raise UnsupportedFeature(f"bucket-function.type is {function!r}: use 'default', 'mod' or 'hive'.")


def bucket_of(values: Sequence[Any], types: Sequence[DataType], count: int, function: str) -> int:
    """Return the bucket of one row of comparable values."""
    match function:
        case "default":
            # Of the magnitude, the remainder of Java's sign-keeping division followed by abs is the same.
            return abs(hash_row(encode_row(values, types))) % count
        case "mod":
            _require_mod(types)
            return int(values[0] or 0) % count
        case "hive":
            hashed = 0
            for value, type_ in zip(values, types, strict=True):
                hashed = _wrap(31 * hashed + hive_hash(value, type_))
            return (hashed & 0x7FFFFFFF) % count
        case _:
            raise UnsupportedFeature(f"bucket-function.type is {function!r}: use 'default', 'mod' or 'hive'.")


def hive_hash(value: Any, type_: DataType) -> int:
    """Return Hive's hash of one comparable value, as a signed 32-bit number; of NULL it is 0."""
    if value is None:
        return 0
    root = type_.root if isinstance(type_, AtomicType) else None
    if root is TypeRoot.BOOLEAN:
        return int(value)
    if root in _SMALL:
        return int(value)
    if root is TypeRoot.BIGINT:
        return _folded(value)
    if root is TypeRoot.FLOAT:
        return int(np.float32(value or 0.0).view(np.int32))
    if root is TypeRoot.DOUBLE:
        return _folded(int(np.float64(value or 0.0).view(np.int64)))
    if root in _TEXTS:
        return _bytes_hash(value.encode() if isinstance(value, str) else value)
    if root is TypeRoot.DECIMAL:
        return _decimal_hash(value)
    raise UnsupportedFeature(f"bucket-function.type=hive cannot hash {type_to_sql(type_)}: use 'default'.")


def _hive_hashes(column: pa.Array, type_: DataType) -> Buckets:
    root = type_.root if isinstance(type_, AtomicType) else None
    if root in _SMALL or root is TypeRoot.BIGINT:
        width = pa.int64() if root is TypeRoot.BIGINT else pa.int32()
        plain = column.view(pa.int32()) if root in (TypeRoot.DATE, TypeRoot.TIME) else column
        values = pc.fill_null(plain.cast(width), 0).to_numpy(zero_copy_only=False)
        if root is TypeRoot.BIGINT:
            unsigned = values.view(np.uint64)
            folded: Buckets = (unsigned ^ unsigned >> np.uint64(32)).astype(np.uint32).view(np.int32)
            return folded
        return np.ascontiguousarray(values, dtype=np.int32)
    distinct = column.dictionary_encode()
    # A bucket key of this kind has few distinct values, and each is hashed once.
    hashes = np.array([hive_hash(value, type_) for value in distinct.dictionary.to_pylist()] + [0], np.int32)
    codes = pc.fill_null(distinct.indices, len(hashes) - 1).to_numpy(zero_copy_only=False)
    by_row: Buckets = hashes[codes]
    return by_row


def _require_mod(types: Sequence[DataType]) -> None:
    root = types[0].root if len(types) == 1 and isinstance(types[0], AtomicType) else None
    if root not in (TypeRoot.INT, TypeRoot.BIGINT):
        shown = ", ".join(map(type_to_sql, types))
        raise InvalidRequest(f"bucket-function.type=mod takes one INT or BIGINT bucket key, not ({shown}).")


def _wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _folded(value: int) -> int:
    unsigned = value & 0xFFFFFFFFFFFFFFFF
    return _wrap(unsigned ^ unsigned >> 32)


def _bytes_hash(data: bytes) -> int:
    hashed = 0
    for byte in data:
        hashed = 31 * hashed + (byte - 256 if byte > 127 else byte)
    return _wrap(hashed)


def _decimal_hash(value: Decimal) -> int:
    """Return the hash of the decimal without trailing zeros: of the unscaled number as Java's BigInteger, then of the
    scale.
    """
    if not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    while exponent < 0 and unscaled % 10 == 0:
        unscaled, exponent = unscaled // 10, exponent + 1
    unscaled, scale = unscaled * 10 ** max(exponent, 0), max(-exponent, 0)
    hashed = 0
    for shift in range((unscaled.bit_length() + 31) // 32 * 32 - 32, -1, -32):
        hashed = 31 * hashed + (unscaled >> shift & 0xFFFFFFFF)
    return _wrap(31 * _wrap(-hashed if sign else hashed) + scale)
