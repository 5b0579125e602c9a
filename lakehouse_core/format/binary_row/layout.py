"""Sizes that encoder, decoder and the vectorised hash share. Source: docs/format/binary-row.md#row-layout."""

from lakehouse_core.format.data_types import TIMESTAMP_ROOTS, AtomicType, DataType, TypeRoot

# Longer text and binary lies in the variable part. Hashed and compared: never change.
LONGEST_INLINE = 7
MAX_DEPTH = 32

_ELEMENT_SIZES = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
}


def null_bits_size(arity: int) -> int:
    """Return the bytes of a row's header and null bits."""
    return (arity + 63 + 8) // 64 * 8


def padded_size(size: int) -> int:
    """Return `size` rounded up to whole words of eight bytes."""
    return (size + 7) // 8 * 8


def is_compact(data_type: AtomicType) -> bool:
    """True unless the value of a DECIMAL or timestamp needs more than its slot."""
    if data_type.root is TypeRoot.DECIMAL:
        return (data_type.precision or 0) <= 18
    return data_type.root not in TIMESTAMP_ROOTS or (data_type.precision or 0) <= 3


def element_size(data_type: DataType) -> int:
    """Return the bytes of one element of a BinaryArray."""
    return _ELEMENT_SIZES.get(data_type.root, 8) if isinstance(data_type, AtomicType) else 8
