"""Cast rules: the implicit casts, and those that an explicit schema change allows.

Source: docs/semantics/tables.md#casts.
"""

from typing import Final

from lakehouse_core.format.data_types import (
    INTEGER_BITS,
    MAX_LENGTH,
    NUMBER_ROOTS,
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

_INTEGERS: Final = tuple(INTEGER_BITS)
_STRINGS: Final = STRING_ROOTS
_TIMES: Final = TIMESTAMP_ROOTS

# For each type, the other types that are cast to it implicitly. Equal roots always cast, see `can_cast`.
_IMPLICIT: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    TypeRoot.VARCHAR: frozenset({TypeRoot.CHAR}),
    TypeRoot.VARBINARY: frozenset({TypeRoot.BINARY}),
    TypeRoot.SMALLINT: frozenset(_INTEGERS[:1]),
    TypeRoot.INT: frozenset(_INTEGERS[:2]),
    TypeRoot.BIGINT: frozenset(_INTEGERS[:3]),
    TypeRoot.FLOAT: frozenset({*_INTEGERS, TypeRoot.DECIMAL}),
    TypeRoot.DOUBLE: NUMBER_ROOTS,
    TypeRoot.DECIMAL: NUMBER_ROOTS,
    TypeRoot.DATE: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIME: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: _TIMES,
    TypeRoot.TIMESTAMP_LTZ: _TIMES,
}

# The further casts of an explicit schema change in Java. For DATE and times to STRING, and constructed types to any
# character type, see `can_cast`.
_EXPLICIT: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    TypeRoot.CHAR: frozenset({*NUMBER_ROOTS, *_STRINGS, TypeRoot.BOOLEAN, TypeRoot.BINARY, TypeRoot.VARBINARY}),
    TypeRoot.VARCHAR: frozenset({*NUMBER_ROOTS, *_STRINGS, TypeRoot.BOOLEAN, TypeRoot.BINARY, TypeRoot.VARBINARY}),
    TypeRoot.BOOLEAN: frozenset({*_STRINGS, *_INTEGERS}),
    TypeRoot.BINARY: frozenset({*_STRINGS, TypeRoot.VARBINARY}),
    TypeRoot.VARBINARY: _STRINGS,
    TypeRoot.DECIMAL: frozenset({*_STRINGS, TypeRoot.BOOLEAN}),
    **{root: frozenset({*NUMBER_ROOTS, *_STRINGS, TypeRoot.BOOLEAN}) for root in (TypeRoot.TINYINT, TypeRoot.SMALLINT)},
    **{
        root: frozenset({*NUMBER_ROOTS, *_STRINGS, *_TIMES, TypeRoot.BOOLEAN})
        for root in (TypeRoot.INT, TypeRoot.BIGINT)
    },
    TypeRoot.FLOAT: frozenset({*_STRINGS, TypeRoot.BOOLEAN, TypeRoot.DOUBLE}),
    TypeRoot.DOUBLE: frozenset({*_STRINGS, TypeRoot.BOOLEAN}),
    TypeRoot.DATE: frozenset({*_STRINGS, TypeRoot.TIMESTAMP_LTZ}),
    TypeRoot.TIME: frozenset({*_STRINGS, TypeRoot.TIMESTAMP_LTZ}),
    **{root: frozenset({*_STRINGS, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME}) for root in _TIMES},
}
_TO_STRING_ONLY: Final = frozenset({*_TIMES, TypeRoot.DATE, TypeRoot.TIME})


def can_cast(source: DataType, target: DataType, *, explicit: bool = False) -> bool:
    """Return whether values of `source` can be cast to `target`; with `explicit`, also by a cast that Java makes only
    on request.

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
            return is_same(key, target_key) and can_cast(value, target_value, explicit=explicit)
        case MultisetType(element), MultisetType(target_element):
            return is_same(element, target_element)
        case RowType(fields), RowType(target_fields):
            by_id = {field.id: field.type for field in fields}
            return all(
                field.id not in by_id or can_cast(by_id[field.id], field.type, explicit=explicit)
                for field in target_fields
            )
    return False


def _has_text(data_type: DataType) -> bool:
    """Return whether Java casts values of the type to text."""
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


def is_same(source: DataType, target: DataType) -> bool:
    """Return whether a cast changes no value: the types are equal except for nullability, names and comments at any
    depth.
    """
    match source, target:
        case AtomicType(), AtomicType():
            same = (source.root, source.length, source.precision, source.scale)
            return same == (target.root, target.length, target.precision, target.scale)
        case (ArrayType(element), ArrayType(other)) | (MultisetType(element), MultisetType(other)):
            return is_same(element, other)
        case MapType(key, value), MapType(other_key, other_value):
            return is_same(key, other_key) and is_same(value, other_value)
        case RowType(fields), RowType(others):
            return len(fields) == len(others) and all(
                field.id == other.id and is_same(field.type, other.type)
                for field, other in zip(fields, others, strict=True)
            )
    return False
