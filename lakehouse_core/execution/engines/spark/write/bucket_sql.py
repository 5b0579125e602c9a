"""The hash of bucket keys as Spark SQL, so that Spark routes rows before it sends them to Python.

Spark's `hash(a, b)` is the table's Murmur3, seed included, but it hashes values and not rows, and it applies the final
mixing after each value: `b` starts from the final hash of `a`. This module undoes the final mixing, whose steps are
bijections. Every state is the hash of exactly one integer i, so `hash(i, slot)` continues from any state.
Source: docs/format/binary-row.md#row-layout, docs/format/binary-row.md#hash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from lakehouse_core.format.data_types import BINARY_ROOTS, STRING_ROOTS, AtomicType, DataType, TypeRoot

_SEED: Final = 42
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593
_N: Final = 0xE6546B64
_M1: Final = 0x85EBCA6B
_M2: Final = 0xC2B2AE35

_SLOT_BYTES: Final = 8
_INLINE_BYTES: Final = 7
_COMPACT_DECIMAL_PRECISION: Final = 18
# Above it the null bits need a second word.
_MAX_COLUMNS: Final = 56
# Each combination of nulls has its own header, and the expression contains all of them.
_MAX_NULLABLE_COLUMNS: Final = 6
_BYTES_ROOTS: Final = (STRING_ROOTS | BINARY_ROOTS) - {TypeRoot.BLOB}
# A number fills the low bytes of its slot and leaves the others zero, even a negative one.
_SLOT_MASKS: Final = {
    TypeRoot.TINYINT: 0xFF,
    TypeRoot.SMALLINT: 0xFFFF,
    TypeRoot.INT: 0xFFFFFFFF,
    TypeRoot.DATE: 0xFFFFFFFF,
}


@dataclass(frozen=True, slots=True)
class SqlHash:
    """`layers`: columns to add in this order, as (name, expression). `hash`: an INT expression over these columns.

    Each layer is a projection: Spark computes a subexpression that occurs twice in one projection twice.
    """

    layers: tuple[tuple[str, str], ...]
    hash: str


def can_hash(types: Sequence[DataType]) -> bool:
    """Return whether `sql_hash` supports key columns of these types; otherwise Python must compute the hash."""
    nullable_count = sum(data_type.nullable for data_type in types)
    return 0 < len(types) <= _MAX_COLUMNS and nullable_count <= _MAX_NULLABLE_COLUMNS and all(map(_is_covered, types))


def _is_covered(data_type: DataType) -> bool:
    match data_type:
        case AtomicType(TypeRoot.DECIMAL, precision=int(precision)):
            return precision <= _COMPACT_DECIMAL_PRECISION
        case AtomicType(root):
            return root in {TypeRoot.BOOLEAN, TypeRoot.BIGINT} or root in _SLOT_MASKS or root in _BYTES_ROOTS
        case _:
            return False


def sql_hash(types: Sequence[DataType], columns: Sequence[str], prefix: str) -> SqlHash:
    """Return the SQL expressions for the hash of the BinaryRow of these columns.

    `columns` are SQL expressions of the Spark types of `types`; names of layers begin with `prefix`. A null in a NOT
    NULL column gives an arbitrary number, never an error. REQUIRES: `can_hash(types)`.
    """
    layers = _Layers(prefix)
    slots = [_slot(data_type, column, layers) for data_type, column in zip(types, columns, strict=True)]
    size = str(_SLOT_BYTES * (1 + len(slots)))
    seed = _header_seed(types, columns)
    state = None
    for slot in slots:
        seed = seed if state is None else _seed_of(state, layers)
        state = _State(layers.add(slot.hash(seed, size)), str(_SLOT_BYTES))
        size = f"{size} + {slot.padded}" if slot.padded else size
    assert state is not None
    for slot in slots:
        if slot.padded:
            content = f"hash({_seed_of(state, layers)}, rpad({slot.value}, {slot.padded}, X'00'))"
            finished = layers.add(f"if({slot.padded} = 0, {state.finished}, {content})")
            state = _State(finished, layers.add(f"if({slot.padded} = 0, {state.size}, {slot.padded})"))
    hashed = _finish(state, size, layers)
    return SqlHash(tuple(layers.columns), hashed)


class _Layers:
    """The layers so far; each new column gets the next name."""

    def __init__(self, prefix: str) -> None:
        self.columns: list[tuple[str, str]] = []
        self._prefix = prefix

    def add(self, expression: str) -> str:
        name = f"{self._prefix}{len(self.columns)}"
        self.columns.append((name, expression))
        return name


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot: eight bytes of the row. `padded`, for strings and binaries only: the name of the column with the byte
    count outside the slot, 0 when the value is inline.
    """

    column: str
    value: str
    nullable: bool
    length: str = ""
    padded: str = ""

    def hash(self, seed: str, offset: str) -> str:
        """Return the hash of the slot from `seed`; a value longer than the slot is stored at `offset` bytes of the
        row.
        """
        if self.padded:
            inline = f"concat(rpad({self.value}, 7, X'00'), substring(X'8081828384858687', {self.length} + 1, 1))"
            outside = f"shiftleft(cast({offset} as bigint), 32) + {self.length}"
            slot = f"if({self.length} <= {_INLINE_BYTES}, hash({seed}, {inline}), hash({seed}, {outside}))"
        else:
            slot = f"hash({seed}, {self.value})"
        return f"if({self.column} is null, hash({seed}, 0L), {slot})" if self.nullable else slot


@dataclass(frozen=True, slots=True)
class _State:
    """A state of the hash, as the finished hash of `size` bytes that ends in it. Both are expressions."""

    finished: str
    size: str


def _slot(data_type: DataType, column: str, layers: _Layers) -> _Slot:
    match data_type:
        case AtomicType(TypeRoot.BOOLEAN):
            value = f"cast({column} as bigint)"
        case AtomicType(TypeRoot.BIGINT):
            value = column
        case AtomicType(TypeRoot.DATE):
            value = f"cast(unix_date({column}) as bigint) & {_SLOT_MASKS[TypeRoot.DATE]}L"
        case AtomicType(TypeRoot.DECIMAL, scale=int(scale)):
            value = f"cast({column} * {10**scale}BD as bigint)"
        case AtomicType(root) if root in _SLOT_MASKS:
            value = f"cast({column} as bigint) & {_SLOT_MASKS[root]}L"
        case _:
            length = layers.add(f"coalesce(octet_length({column}), 0)")
            padded = layers.add(f"if({length} <= {_INLINE_BYTES}, 0, ({length} + 7) & -8)")
            return _Slot(column, f"cast({column} as binary)", data_type.nullable, length, padded)
    return _Slot(column, value, data_type.nullable)


def _header_seed(types: Sequence[DataType], columns: Sequence[str]) -> str:
    """Return the integer whose hash is the state after the header, which says which columns are null."""
    nullable = [index for index, data_type in enumerate(types) if data_type.nullable]
    seeds = []
    # The last column changes fastest: the position of a header is a binary number with a digit 1 for each null.
    for nulls in product((0, 1), repeat=len(nullable)):
        bits = sum(null << (8 + index) for index, null in zip(nullable, nulls, strict=True))
        state = _mixed(_mixed(_SEED, bits & 0xFFFFFFFF), bits >> 32)
        seeds.append(str(_integer_with_hash(state)))
    if len(seeds) == 1:
        return seeds[0]
    digits = [
        f"if({columns[index]} is null, {2 ** (len(nullable) - 1 - digit)}, 0)" for digit, index in enumerate(nullable)
    ]
    return f"element_at(array({', '.join(seeds)}), 1 + {' + '.join(digits)})"


def _seed_of(state: _State, layers: _Layers) -> str:
    """Return the integer whose hash is `state`."""
    unfinished = _unfinished(state.finished, layers)
    # The last step of the final mixing and the first of the next cancel out, except for the byte count between them.
    size = f"({state.size})"
    first = layers.add(_times(f"{unfinished} ^ {size} ^ shiftrightunsigned({size}, 16)", _inverse(_M2)))
    second = layers.add(_times(_undo_shift_13(first), _inverse(_M1)))
    third = layers.add(_times(f"{second} ^ shiftrightunsigned({second}, 16) ^ 4", _inverse(5), -_N * _inverse(5)))
    fourth = layers.add(_times(f"{_rotated(third, 19)} ^ {_SEED}", _inverse(_C2)))
    return _times(_rotated(fourth, 17), _inverse(_C1))


def _finish(state: _State, size: str, layers: _Layers) -> str:
    """Return the hash of a row of `size` bytes that ends in `state`."""
    unfinished = _unfinished(state.finished, layers)
    sizes = layers.add(f"({state.size}) ^ ({size})")
    first = layers.add(_times(f"{unfinished} ^ {sizes} ^ shiftrightunsigned({sizes}, 16)", _M1))
    second = layers.add(_times(f"{first} ^ shiftrightunsigned({first}, 13)", _M2))
    return f"({second} ^ shiftrightunsigned({second}, 16))"


def _unfinished(finished: str, layers: _Layers) -> str:
    """Return the expression u for which the state is u ^ u >>> 16 ^ byte count."""
    first = layers.add(_times(f"{finished} ^ shiftrightunsigned({finished}, 16)", _inverse(_M2)))
    return layers.add(_times(_undo_shift_13(first), _inverse(_M1)))


def _undo_shift_13(value: str) -> str:
    return f"{value} ^ shiftrightunsigned({value}, 13) ^ shiftrightunsigned({value}, 26)"


def _rotated(value: str, left: int) -> str:
    return f"(shiftleft({value}, {left}) | shiftrightunsigned({value}, {32 - left}))"


def _times(value: str, factor: int, plus: int = 0) -> str:
    """Return value · factor + plus as a wrapping INT, computed in BIGINT because INT raises an overflow error in ANSI
    mode.
    """
    product = f"cast({value} as bigint) * {_signed(factor)}L + {_signed(plus)}L"
    return f"cast(shiftright(shiftleft({product}, 32), 32) as int)"


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 2**32 if value >> 31 else value


def _inverse(factor: int) -> int:
    return pow(factor, -1, 2**32)


def _rotl(value: int, count: int) -> int:
    return (value << count | value >> (32 - count)) & 0xFFFFFFFF


def _mixed(state: int, word: int) -> int:
    word = _rotl(word * _C1 & 0xFFFFFFFF, 15) * _C2 & 0xFFFFFFFF
    return (_rotl(state ^ word, 13) * 5 + _N) & 0xFFFFFFFF


def _integer_with_hash(state: int) -> int:
    """Return the integer i with murmur3(i) = state: undo every step of the hash, the last one first."""
    state ^= state >> 16
    state = state * _inverse(_M2) & 0xFFFFFFFF
    state ^= state >> 13 ^ state >> 26
    state = state * _inverse(_M1) & 0xFFFFFFFF
    state ^= state >> 16 ^ 4
    word = _rotl((state - _N) * _inverse(5) & 0xFFFFFFFF, 19) ^ _SEED
    return _signed(_rotl(word * _inverse(_C2) & 0xFFFFFFFF, 17) * _inverse(_C1))
