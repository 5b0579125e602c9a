"""ORC timestamps: columns with timestamps beyond 64-bit nanoseconds, read value by value, exactly."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from lakehouse_core.data_files.reader import corrupt_file
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
    timestamp_unit,
    type_to_sql,
)

_TICK_NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_SECOND_NANOS: Final = 1_000_000_000
_MOST_TICKS: Final = 1 << 63


class _RawTimestamp(ORCConverter):
    """Converts seconds since 1970 and nanoseconds of the second to nanoseconds since 1970."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> int:
        return seconds * _SECOND_NANOS + nanoseconds


class _RawDate(ORCConverter):
    @staticmethod
    def from_orc(days: int) -> int:
        return days


_CONVERTERS: Final = {
    pyorc.TypeKind.TIMESTAMP: _RawTimestamp,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _RawTimestamp,
    pyorc.TypeKind.DATE: _RawDate,
}


class ExactColumns:
    """Some columns of an open file, from `first_row` on. `key` names the file in errors."""

    def __init__(self, source: pa.NativeFile, fields: Sequence[DataField], key: str, first_row: int) -> None:
        self._key = key
        self._fields = tuple(fields)
        try:
            self._reader = pyorc.Reader(
                source,
                column_names=[field.name for field in fields],
                struct_repr=pyorc.StructRepr.DICT,
                converters=_CONVERTERS,
            )
            self._reader.seek(first_row)
        except (pyorc.ParseError, ValueError) as error:
            raise corrupt_file(key, f"its footer cannot be decoded ({error})") from error

    def read(self, row_count: int) -> list[pa.Array]:
        """Return the next rows, by column. Raises CorruptTable, UnsupportedFeature for times beyond their type."""
        try:
            rows = self._reader.read(row_count)
        except (pyorc.ParseError, ValueError) as error:
            raise corrupt_file(self._key, f"its timestamps cannot be decoded ({error})") from error
        if len(rows) != row_count:
            raise corrupt_file(self._key, f"it ends {row_count - len(rows)} rows too early")
        return [self._column([row[field.name] for row in rows], field) for field in self._fields]

    def _column(self, values: list[Any], field: DataField) -> pa.Array:
        convert = _converter(field.type)
        try:
            return pa.array([None if value is None else convert(value) for value in values], arrow_type(field.type))
        except OverflowError as error:
            raise UnsupportedFeature(
                f"{self._key}: column {field.name!r} holds {error}, expected a value in the range of its type. "
                "Leave out the column or the rows, or use Java Paimon."
            ) from error
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise corrupt_file(self._key, f"its column {field.name!r} cannot be decoded ({error})") from error


def _converter(data_type: DataType) -> Callable[[Any], Any]:
    match data_type:
        case AtomicType():
            return partial(_ticks, data_type) if data_type.root in TIMESTAMP_ROOTS else _same
        case ArrayType(element):
            return partial(_each, _converter(element))
        case MapType(key, value):
            return partial(_pairs, _converter(key), _converter(value))
        case MultisetType(element):
            return partial(_pairs, _converter(element), _same)
        case RowType(fields):
            return partial(_row, [(field.name, _converter(field.type)) for field in fields])


def _ticks(data_type: AtomicType, nanos: int) -> int:
    ticks, rest = divmod(nanos, _TICK_NANOS[timestamp_unit(data_type.precision or 0)])
    if rest:
        raise ValueError(f"a time of {nanos} nanoseconds has more digits than {type_to_sql(data_type)}")
    if not -_MOST_TICKS <= ticks < _MOST_TICKS:
        raise OverflowError(f"a time of {nanos // _SECOND_NANOS} seconds since 1970")
    return ticks


def _same(value: Any) -> Any:
    return value


def _each(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _pairs(
    convert_key: Callable[[Any], Any], convert: Callable[[Any], Any], value: dict[Any, Any]
) -> list[tuple[Any, Any]]:
    return [(convert_key(key), None if item is None else convert(item)) for key, item in value.items()]


def _row(converters: Sequence[tuple[str, Callable[[Any], Any]]], value: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value[name] is None else convert(value[name]) for name, convert in converters}
