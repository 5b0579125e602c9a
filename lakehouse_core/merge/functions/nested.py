"""Functions of columns with parts: arrays that collect, maps that merge, nested tables.

Where Java's order is that of a hash map, and so undefined, the order here is that of first arrival. Binary elements and
keys are equal when their bytes are, as in Java since 2.1.
Source: docs/semantics/merge-engines.md#aggregate-functions; Java 2.0.0, asked.
"""

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from typing import Any, TypeAlias

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import (
    FLOAT_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakehouse_core.merge.functions.aggregator import Aggregator, aggregator_of, gathering_non_null, one_of
from lakehouse_core.merge.functions.choices import float_order
from lakehouse_core.table.merge_spec import AggregateFunction

Array: TypeAlias = tuple[Any, ...]
Map: TypeAlias = tuple[tuple[Any, Any], ...]
Row: TypeAlias = tuple[Any, ...]
Identity: TypeAlias = Callable[[Any], Hashable]


def identity_of(data_type: DataType) -> Identity:
    """Return the function from values of the type to hashable values that are equal if Java's values are equal.

    Floats are equal by Java's order: NaN equals itself, -0.0 does not equal 0.0. Entries of maps have no order.
    """
    if not _has_floats(data_type) and not _has_maps(data_type):
        return lambda value: value
    match data_type:
        case AtomicType():
            return lambda value: None if value is None else float_order(value)
        case ArrayType(element):
            inner = identity_of(element)
            return lambda value: None if value is None else tuple(map(inner, value))
        case MapType(key, item):
            return _identity_of_map(identity_of(key), identity_of(item))
        case MultisetType(element):
            return _identity_of_map(identity_of(element), lambda count: count)
        case RowType(fields):
            parts = [identity_of(field.type) for field in fields]
            return lambda value: (
                None if value is None else tuple(part(item) for part, item in zip(parts, value, strict=True))
            )


def _identity_of_map(key: Identity, item: Identity) -> Identity:
    return lambda value: None if value is None else frozenset((key(name), item(held)) for name, held in value)


def _has_floats(data_type: DataType) -> bool:
    return _contains(data_type, lambda part: isinstance(part, AtomicType) and part.root in FLOAT_ROOTS)


def _has_maps(data_type: DataType) -> bool:
    return _contains(data_type, lambda part: isinstance(part, MapType | MultisetType))


def _contains(data_type: DataType, is_wanted: Callable[[DataType], bool]) -> bool:
    if is_wanted(data_type):
        return True
    match data_type:
        case AtomicType():
            return False
        case ArrayType(element) | MultisetType(element):
            return _contains(element, is_wanted)
        case MapType(key, value):
            return _contains(key, is_wanted) or _contains(value, is_wanted)
        case RowType(fields):
            return any(_contains(field.type, is_wanted) for field in fields)


# Arrays.


def collect(function: AggregateFunction) -> Aggregator:
    assert isinstance(function.type, ArrayType)
    identity = identity_of(function.type.element)

    def add_all(accumulator: Array | None, values: Iterable[Array | None]) -> Array | None:
        there = [value for value in chain((accumulator,), values) if value is not None]
        if not there:
            return None
        elements = chain.from_iterable(there)
        return _without_repeats(elements, identity) if function.distinct else tuple(elements)

    def retract(accumulator: Array | None, value: Array | None) -> Array | None:
        """Return the array without, for each element of the value, the first equal element."""
        if accumulator is None or not value:
            return accumulator
        leaving = [identity(element) for element in value]
        left = []
        for element in accumulator:
            if (same := identity(element)) in leaving:
                leaving.remove(same)
            else:
                left.append(element)
        return tuple(left)

    return aggregator_of(function, one_of(add_all), add_all=add_all, retract=retract, add_older=one_of(add_all))


def _without_repeats(elements: Iterable[Any], identity: Identity) -> Array:
    kept: dict[Hashable, Any] = {}
    for element in elements:
        kept.setdefault(identity(element), element)
    return tuple(kept.values())


# Maps.


def merge_map(function: AggregateFunction) -> Aggregator:
    assert isinstance(function.type, MapType)
    identity = identity_of(function.type.key)

    def union(accumulator: Map, values: Iterable[Map]) -> Map:
        entries = chain(accumulator, chain.from_iterable(values))
        return tuple({identity(entry[0]): entry for entry in entries}.values())

    def retract(accumulator: Map | None, value: Map | None) -> Map | None:
        if accumulator is None or not value:
            return accumulator
        leaving = {identity(key) for key, _ in value}
        return tuple(entry for entry in accumulator if identity(entry[0]) not in leaving)

    add_all = gathering_non_null(union)
    return aggregator_of(function, one_of(add_all), add_all=add_all, retract=retract)


def merge_map_with_keytime(function: AggregateFunction) -> Aggregator:
    assert isinstance(function.type, MapType)
    assert isinstance(function.type.value, RowType)
    identity = identity_of(function.type.key)
    names = [field.name for field in function.type.value.fields]
    place = len(names) - 1 if function.time_field is None else names.index(function.time_field)

    def merge(accumulator: Map, values: Iterable[Map]) -> Map:
        merged = {identity(entry[0]): entry for entry in accumulator}
        for key, row in chain.from_iterable(values):
            same = identity(key)
            if row is None:
                merged.pop(same, None)
            elif row[place] is not None:
                held = merged[same][1] if same in merged else None
                if held is None or held[place] is None or _text_order(row[place]) > _text_order(held[place]):
                    merged[same] = (key, row)
        return tuple(merged.values())

    add_all = gathering_non_null(merge)
    return aggregator_of(function, one_of(add_all), add_all=add_all)


def _text_order(text: str) -> bytes:
    """Return the sort key of a text: Java compares texts by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


# Nested tables: arrays of rows. Null rows are left out.


def nested_update(function: AggregateFunction) -> Aggregator:
    return _keyed_rows(function) if function.nested_keys else _plain_rows(function)


def _plain_rows(function: AggregateFunction) -> Aggregator:
    assert isinstance(function.type, ArrayType)
    identity = identity_of(function.type.element)

    def add_all(accumulator: Array | None, values: Iterable[Array | None]) -> Array | None:
        there = [value for value in values if value is not None]
        held = accumulator or ()
        # NULL rows count towards the limit until the first rows are added.
        room = function.count_limit - len(held)
        if not there or (accumulator is not None and room <= 0):
            return accumulator
        rows = [*_rows(held), *_rows(there[0])[: max(room, 0)]]
        for value in there[1:]:
            rows += _rows(value)[: max(function.count_limit - len(rows), 0)]
        return tuple(rows)

    def retract(accumulator: Array | None, value: Array | None) -> Array | None:
        """Return the rows without those equal to a row of the value."""
        if accumulator is None or value is None:
            return accumulator
        leaving = {identity(row) for row in _rows(value)}
        return tuple(row for row in _rows(accumulator) if identity(row) not in leaving)

    return aggregator_of(function, one_of(add_all), add_all=add_all, retract=retract)


def _keyed_rows(function: AggregateFunction) -> Aggregator:
    key_of, is_newer = _row_key(function), _row_order(function)

    def add_all(accumulator: Array | None, values: Iterable[Array | None]) -> Array | None:
        there = [value for value in values if value is not None]
        if not there:
            return accumulator
        rows: dict[Hashable, Row] = {}
        added = ((row, True) for value in there for row in _rows(value))
        for row, is_limited in chain(((row, False) for row in _rows(accumulator)), added):
            key = key_of(row)
            if key is None:
                continue
            if key in rows:
                if is_newer(row, rows[key]):
                    rows[key] = row
            elif not is_limited or len(rows) < function.count_limit:
                rows[key] = row
        return tuple(rows.values())

    def retract(accumulator: Array | None, value: Array | None) -> Array | None:
        if accumulator is None or value is None:
            return accumulator
        rows = {key: row for row in _rows(accumulator) if (key := key_of(row)) is not None}
        for row in _rows(value):
            rows.pop(key_of(row), None)
        return tuple(rows.values())

    return aggregator_of(function, one_of(add_all), add_all=add_all, retract=retract)


def nested_partial_update(function: AggregateFunction) -> Aggregator:
    key_of = _row_key(function)

    def add_all(accumulator: Array | None, values: Iterable[Array | None]) -> Array | None:
        there = [value for value in values if value is not None]
        if not there:
            return accumulator
        rows: dict[Hashable, Row] = {}
        for row in chain.from_iterable(map(_rows, (accumulator, *there))):
            if (key := key_of(row)) is not None:
                held = rows.get(key, row)
                rows[key] = tuple(old if new is None else new for old, new in zip(held, row, strict=True))
        return tuple(rows.values())

    return aggregator_of(function, one_of(add_all), add_all=add_all)


def _rows(value: Array | None) -> list[Row]:
    return [row for row in value or () if row is not None]


def _row_key(function: AggregateFunction) -> Callable[[Row], Hashable]:
    """Return the function from a row to its key; None: the strategy for NULL keys drops the row."""
    places, identity = _parts(function, function.nested_keys)

    def key_of(row: Row) -> Hashable:
        key = tuple(row[place] for place in places)
        if None in key and function.nested_key_null_strategy != "merge":
            if function.nested_key_null_strategy == "ignore":
                return None
            raise InvalidRequest(
                f"Column {function.column}: a nested row has NULL in its key ({', '.join(function.nested_keys)}), "
                f"and fields.{function.column}.nested-key-null-strategy is error. Correct the row, or set merge "
                "or ignore."
            )
        return identity(key)

    return key_of


def _row_order(function: AggregateFunction) -> Callable[[Row, Row], bool]:
    """Return the function that tells whether a row replaces another of its key: its sequence fields are not smaller;
    NULL is smallest.
    """
    places, identity = _parts(function, function.nested_sequence_fields)

    def order(row: Row) -> tuple[tuple[bool, Any], ...]:
        values = identity(tuple(row[place] for place in places))
        assert isinstance(values, tuple)
        return tuple((value is not None, value) for value in values)

    return lambda row, held: order(row) >= order(held)


def _parts(function: AggregateFunction, names: tuple[str, ...]) -> tuple[list[int], Identity]:
    assert isinstance(function.type, ArrayType)
    assert isinstance(function.type.element, RowType)
    fields = function.type.element.fields
    places = [[field.name for field in fields].index(name) for name in names]
    return places, identity_of(RowType(tuple(fields[place] for place in places)))
