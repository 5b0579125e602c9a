"""Casts: how values of an old file become values of the column's present type. Java's semantics.

Text and what loses digits are in `cast_text` and `cast_numbers`.
Source: docs/semantics/tables.md#casts.
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast_numbers import to_boolean, to_integer, to_timestamp, zoned_to_date
from lakehouse_core.format.cast_text import from_text, to_text
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MAX_LENGTH,
    MILLIS_PER_DAY,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
    column_of,
    timestamp_unit,
    type_to_sql,
    values_of,
)

_INTEGERS: Final = tuple(INTEGER_BITS)
_NUMBERS: Final = frozenset({*_INTEGERS, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL})
_STRINGS: Final = STRING_ROOTS
_TIMES: Final = TIMESTAMP_ROOTS

# To each type, the other types whose values it takes by itself. Same roots always cast, see `_cast_atomic`.
_IMPLICIT: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    TypeRoot.VARCHAR: frozenset({TypeRoot.CHAR}),
    TypeRoot.VARBINARY: frozenset({TypeRoot.BINARY}),
    TypeRoot.SMALLINT: frozenset(_INTEGERS[:1]),
    TypeRoot.INT: frozenset(_INTEGERS[:2]),
    TypeRoot.BIGINT: frozenset(_INTEGERS[:3]),
    TypeRoot.FLOAT: frozenset({*_INTEGERS, TypeRoot.DECIMAL}),
    TypeRoot.DOUBLE: _NUMBERS,
    TypeRoot.DECIMAL: _NUMBERS,
    TypeRoot.DATE: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIME: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: _TIMES,
    TypeRoot.TIMESTAMP_LTZ: _TIMES,
}

# The casts beyond those that Java carries out when a user asks for them; and of DATE and times to STRING, and of
# constructed types to any character type, see `can_cast`.
_EXPLICIT: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    TypeRoot.CHAR: frozenset({*_NUMBERS, *_STRINGS, TypeRoot.BOOLEAN, TypeRoot.BINARY, TypeRoot.VARBINARY}),
    TypeRoot.VARCHAR: frozenset({*_NUMBERS, *_STRINGS, TypeRoot.BOOLEAN, TypeRoot.BINARY, TypeRoot.VARBINARY}),
    TypeRoot.BOOLEAN: frozenset({*_STRINGS, *_INTEGERS}),
    TypeRoot.BINARY: frozenset({*_STRINGS, TypeRoot.VARBINARY}),
    TypeRoot.VARBINARY: _STRINGS,
    TypeRoot.DECIMAL: frozenset({*_STRINGS, TypeRoot.BOOLEAN}),
    **{root: frozenset({*_NUMBERS, *_STRINGS, TypeRoot.BOOLEAN}) for root in (TypeRoot.TINYINT, TypeRoot.SMALLINT)},
    **{root: frozenset({*_NUMBERS, *_STRINGS, *_TIMES, TypeRoot.BOOLEAN}) for root in (TypeRoot.INT, TypeRoot.BIGINT)},
    TypeRoot.FLOAT: frozenset({*_STRINGS, TypeRoot.BOOLEAN, TypeRoot.DOUBLE}),
    TypeRoot.DOUBLE: frozenset({*_STRINGS, TypeRoot.BOOLEAN}),
    TypeRoot.DATE: frozenset({*_STRINGS, TypeRoot.TIMESTAMP_LTZ}),
    TypeRoot.TIME: frozenset({*_STRINGS, TypeRoot.TIMESTAMP_LTZ}),
    **{root: frozenset({*_STRINGS, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME}) for root in _TIMES},
}

_TO_STRING_ONLY: Final = frozenset({*_TIMES, TypeRoot.DATE, TypeRoot.TIME})

_HALF_UP: Final = Context(prec=400, rounding=ROUND_HALF_UP)
# Integers up to here, and powers of ten up to 10^22, are exact doubles: one division rounds once.
_EXACT_DOUBLE_DIGITS: Final = 15
_EXACT_DOUBLE_SCALE: Final = 22
_MAX_ARRAY_BYTES: Final = 2**31 - 1
_UNITS_PER_SECOND: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# What 64 bits do not hold, by units a second.
_BEYOND: Final = {
    1_000: "292 million years from 1970",
    1_000_000: "292,000 years from 1970",
    1_000_000_000: "outside 1677 to 2262",
}


def can_cast(source: DataType, target: DataType, *, explicit: bool = False) -> bool:
    """Whether values of `source` can become values of `target`; with `explicit`, also where Java asks for a wish.

    Nullability at the top does not count. ROW is matched by field id, ARRAY by element, MAP by value.
    """
    match source, target:
        case AtomicType(), AtomicType():
            if source.root == target.root:
                # Java has no cast between precisions of TIME.
                return source.root is not TypeRoot.TIME or source.precision == target.precision
            if source.root in _IMPLICIT.get(target.root, ()):
                return True
            if target.root is TypeRoot.VARCHAR and source.root in _TO_STRING_ONLY:
                return explicit and target.length == MAX_LENGTH
            return explicit and source.root in _EXPLICIT.get(target.root, ())
        case ((ArrayType() | MapType() | RowType()), AtomicType()):
            return explicit and target.root in _STRINGS and _has_text(source)
        case ArrayType(element), ArrayType(target_element):
            return can_cast(element, target_element, explicit=explicit)
        case MapType(key, value), MapType(target_key, target_value):
            return _is_same(key, target_key) and can_cast(value, target_value, explicit=explicit)
        case MultisetType(element), MultisetType(target_element):
            return _is_same(element, target_element)
        case RowType(fields), RowType(target_fields):
            by_id = {field.id: field.type for field in fields}
            return all(
                field.id not in by_id or can_cast(by_id[field.id], field.type, explicit=explicit)
                for field in target_fields
            )
    return False


def cast_array(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Return the values of `source` as values of `target`, of `target`'s Arrow type.

    Decimals are rounded HALF_UP, and NULL where they do not fit; strings and binaries are cut to their length, CHAR and
    BINARY filled up to it; timestamps lose digits they have no room for. A ROW field that the source lacks is NULL.
    TIMESTAMP and TIMESTAMP_LTZ meet in UTC. Raises UnsupportedFeature naming both types where there is no cast, where
    text stands for no value, and where Arrow's nanoseconds cannot hold a time.
    """
    wanted = arrow_type(source)
    if array.type != wanted:
        array = array.cast(wanted)
    if _is_same(source, target):
        # Arrow's own cast matches fields of structs by name: one that was renamed would be null.
        return array.view(arrow_type(target))
    match source, target:
        case AtomicType(), AtomicType() if can_cast(source, target):
            return _cast_atomic(array, source, target)
        case AtomicType(), AtomicType() if can_cast(source, target, explicit=True):
            return _cast_explicit(array, source, target)
        case _, AtomicType() if can_cast(source, target, explicit=True):
            return to_text(array, source)
        case ArrayType(element), ArrayType(target_element):
            return _cast_list(array, element, target_element)
        case MapType(key, value), MapType(target_key, target_value) if _is_same(key, target_key):
            return _cast_map(array, value, target, target_value)
        case RowType(), RowType():
            return _cast_row(array, source, target)
    raise UnsupportedFeature(
        f"Values of {type_to_sql(source)} cannot be read as {type_to_sql(target)}: there is no such cast."
    )


def cast_value(value: Any, source: DataType, target: DataType) -> Any:
    """Return one comparable value, as `cast_array` casts it. Raises UnsupportedFeature as that does."""
    (cast,) = values_of(cast_array(column_of([value], source), source, target), target)
    return cast


def _has_text(data_type: DataType) -> bool:
    """Whether Java makes text of the values."""
    match data_type:
        case AtomicType():
            return can_cast(data_type, AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH), explicit=True)
        case ArrayType(element):
            return _has_text(element)
        case MapType(key, value):
            return _has_text(key) and _has_text(value)
        case RowType(fields):
            return all(_has_text(field.type) for field in fields)
    return False


def _cast_explicit(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if target.root in _STRINGS:
        text = to_text(array, source)
        # Java decodes bytes into strings of any length.
        return text if source.root in BINARY_ROOTS else _fit_text(text, target)
    if target.root in BINARY_ROOTS:
        return _fit_bytes(array.cast(pa.binary()), target)
    if source.root in _STRINGS:
        return from_text(array, target)
    match target.root:
        case TypeRoot.BOOLEAN:
            return to_boolean(array)
        case TypeRoot.DECIMAL:
            return _to_decimal(array.cast(pa.int8()), AtomicType(TypeRoot.TINYINT), target)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            plain = array.cast(pa.int8()) if source.root is TypeRoot.BOOLEAN else array
            return plain.cast(arrow_type(target), safe=False)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return to_timestamp(array, source, target)
        case TypeRoot.DATE:
            return zoned_to_date(array, source)
        case TypeRoot.TIME:
            return _cast_timestamp(array, source, target)
    return to_integer(array, source, target)


def _is_same(source: DataType, target: DataType) -> bool:
    """Whether no value changes: the types are equal but for nullability, names and comments at any depth."""
    match source, target:
        case AtomicType(), AtomicType():
            same = (source.root, source.length, source.precision, source.scale)
            return same == (target.root, target.length, target.precision, target.scale)
        case (ArrayType(element), ArrayType(other)) | (MultisetType(element), MultisetType(other)):
            return _is_same(element, other)
        case MapType(key, value), MapType(other_key, other_value):
            return _is_same(key, other_key) and _is_same(value, other_value)
        case RowType(fields), RowType(others):
            return len(fields) == len(others) and all(
                field.id == other.id and _is_same(field.type, other.type)
                for field, other in zip(fields, others, strict=True)
            )
    return False


def _cast_atomic(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    match target.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _fit_text(array, target)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _fit_bytes(array, target)
        case TypeRoot.DECIMAL:
            return _to_decimal(array, source, target)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE if source.root is TypeRoot.DECIMAL:
            return _decimal_to_floating(array, source, target)
        case TypeRoot.DATE | TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if source.root in _TIMES:
            return _cast_timestamp(array, source, target)
        case _:
            # Java rounds integers to the nearest float, too.
            return array.cast(arrow_type(target), safe=False)


def _fit_text(array: pa.Array, target: AtomicType) -> pa.Array:
    length = target.length
    assert length is not None
    cut = pc.utf8_slice_codeunits(array, 0, length)
    if target.root is TypeRoot.VARCHAR:
        return cut
    # `utf8_rpad` counts nulls and four bytes for each character, and so refuses what would well fit.
    _check_filled_size(array, target)
    return pa.array([None if value is None else value.ljust(length) for value in cut.to_pylist()], pa.string())


def _fit_bytes(array: pa.Array, target: AtomicType) -> pa.Array:
    length = target.length
    assert length is not None
    cut = pc.binary_slice(array, 0, length)
    if target.root is TypeRoot.VARBINARY:
        return cut
    _check_filled_size(array, target)
    return pa.array([None if value is None else value.ljust(length, b"\0") for value in cut.to_pylist()], pa.binary())


def _check_filled_size(array: pa.Array, target: AtomicType) -> None:
    assert target.length is not None
    if (len(array) - array.null_count) * target.length > _MAX_ARRAY_BYTES:
        raise UnsupportedFeature(
            f"{len(array)} values filled up to {type_to_sql(target)} exceed what one batch holds: declare it shorter."
        )


def _to_decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    assert target.precision is not None
    assert target.scale is not None
    if source.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _floating_to_decimal(array, target)
    source_scale = source.scale or 0
    # 76 digits hold 38 before and 38 after the point, so that nothing overflows before the check below.
    wide = array.cast(pa.decimal256(76, source_scale))
    if source_scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    wide = wide.cast(pa.decimal256(76, target.scale))
    bound = pa.scalar(Decimal(10) ** (target.precision - target.scale), pa.decimal256(76, target.scale))
    fits = pc.less(pc.abs(wide), bound)
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(arrow_type(target))


def _floating_to_decimal(array: pa.Array, target: AtomicType) -> pa.Array:
    assert target.precision is not None
    assert target.scale is not None
    unit, bound = Decimal(1).scaleb(-target.scale), Decimal(10) ** (target.precision - target.scale)
    result: list[Decimal | None] = []
    for value in array.cast(pa.float64()).to_pylist():
        if value is None:
            result.append(None)
            continue
        if not math.isfinite(value):
            raise UnsupportedFeature(
                f"{value} has no value of {type_to_sql(target)}: correct the row with its old type."
            )
        rounded = Decimal(repr(value)).quantize(unit, context=_HALF_UP)
        result.append(rounded if abs(rounded) < bound else None)
    return pa.array(result, arrow_type(target))


def _decimal_to_floating(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    assert source.precision is not None
    assert source.scale is not None
    exact = source.precision <= _EXACT_DOUBLE_DIGITS and source.scale <= _EXACT_DOUBLE_SCALE
    if exact and target.root is TypeRoot.DOUBLE:
        unscaled = _unscaled(array, source.scale)
        return pc.divide(unscaled.cast(pa.float64()), float(10**source.scale))
    # Java rounds to double first for FLOAT, too; so does this.
    doubles = pa.array([None if value is None else float(value) for value in array.to_pylist()], pa.float64())
    return doubles.cast(arrow_type(target), safe=False)


def _unscaled(array: pa.Array, scale: int) -> pa.Array:
    """Return value × 10^scale as int64; the decimals have at most 15 digits."""
    shift = pa.scalar(Decimal(10**scale), pa.decimal128(scale + 1, 0))
    return pc.multiply(array, shift).cast(pa.decimal256(76, scale)).cast(pa.int64())


def _cast_timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    assert source.precision is not None
    units = _UNITS_PER_SECOND[timestamp_unit(source.precision)]
    ticks = array.cast(pa.int64())
    if target.root in (TypeRoot.DATE, TypeRoot.TIME):
        millis = _floor_divide(ticks, units // 1_000)
        if target.root is TypeRoot.DATE:
            # Towards zero, as in Java: a time of day before 1970 belongs to the day after. Of far days, the low bits.
            return pc.divide(millis, MILLIS_PER_DAY).cast(pa.int32(), safe=False).cast(pa.date32())
        days = _floor_divide(millis, MILLIS_PER_DAY)
        return pc.subtract(millis, pc.multiply(days, MILLIS_PER_DAY)).cast(pa.int32()).cast(pa.time32("ms"))
    assert target.precision is not None
    target_units = _UNITS_PER_SECOND[timestamp_unit(target.precision)]
    try:
        if target.precision < source.precision:
            ticks, units = _truncate(ticks, units, target.precision)
        if target_units > units:
            ticks = pc.multiply_checked(ticks, target_units // units)
        elif target_units < units:
            ticks = _floor_divide(ticks, units // target_units)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(
            f"A value of {type_to_sql(source)} lies {_BEYOND[target_units]}, "
            f"beyond what {type_to_sql(target)} holds here."
        ) from error
    return ticks.cast(arrow_type(target))


def _truncate(ticks: pa.Array, units: int, precision: int) -> tuple[pa.Array, int]:
    """Drop the digits of a second beyond `precision`; return the ticks and how many there are to a second.

    As in Java, digits below a millisecond go down and those above towards zero.
    """
    if precision < 3:
        step = 10 ** (3 - precision)
        return pc.multiply(pc.divide(_floor_divide(ticks, units // 1_000), step), step), 1_000
    step = max(1, units // 10**precision)
    # The tick below the first one that 64 bits hold is none.
    return pc.multiply_checked(_floor_divide(ticks, step), step), units


def _floor_divide(ticks: pa.Array, divisor: int) -> pa.Array:
    """Return the quotients rounded down; Arrow's own division rounds towards zero."""
    quotient = pc.divide(ticks, divisor)
    remainder = pc.subtract(ticks, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, pc.less(remainder, 0).cast(pa.int64()))


def _cast_list(array: pa.Array, element: DataType, target_element: DataType) -> pa.Array:
    offsets, values = _offsets(array), array.values
    field = pa.field("element", arrow_type(target_element), target_element.nullable)
    cast = _cast_between(values, offsets, lambda part: cast_array(part, element, target_element))
    return pa.ListArray.from_arrays(_from_zero(offsets), cast, type=pa.list_(field), mask=array.is_null())


def _cast_map(array: pa.Array, value: DataType, target: DataType, target_value: DataType) -> pa.Array:
    offsets = _offsets(array)
    items = _cast_between(array.items, offsets, lambda part: cast_array(part, value, target_value))
    keys = _cast_between(array.keys, offsets, lambda part: part)
    return pa.MapArray.from_arrays(_from_zero(offsets), keys, items, type=arrow_type(target), mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of a list or map array; of a slice too, where they do not begin at 0."""
    return array.offsets


def _from_zero(offsets: pa.Array) -> pa.Array:
    return pc.subtract(offsets, offsets[0])


def _cast_between(values: pa.Array, offsets: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> pa.Array:
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    return cast(values.slice(start, stop - start))


def _cast_row(array: pa.Array, source: RowType, target: RowType) -> pa.Array:
    positions = {field.id: index for index, field in enumerate(source.fields)}
    children, fields = [], []
    for field in target.fields:
        wanted = arrow_type(field.type)
        if (index := positions.get(field.id)) is None:
            children.append(pa.nulls(len(array), wanted))
        else:
            # `field` of a struct array honours the slice, and the parent's nulls come from the mask below.
            children.append(cast_array(array.field(index), source.fields[index].type, field.type))
        fields.append(pa.field(field.name, wanted, field.type.nullable))
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
