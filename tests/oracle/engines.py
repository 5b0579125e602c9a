"""What becomes of the records of one key, merge engine by merge engine.

Source: docs/semantics/merge-engines.md#merge-engines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lakehouse_core.format.data_types import DataType
from tests.oracle.functions import Function, Refused, function
from tests.oracle.merge import compare_keys

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Field:
    id: int
    name: str
    type: DataType
    default: Any = None


@dataclass(frozen=True)
class Schema:
    fields: tuple[Field, ...]
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    options: dict[str, str]

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def sequence_fields(self) -> list[int]:
        names = self.options.get("sequence.field", "")
        return [self.names.index(name.strip()) for name in names.split(",") if name]

    def is_on(self, option: str) -> bool:
        return self.options.get(option, "false") == "true"


@dataclass(frozen=True)
class Record:
    key: Values
    number: int
    kind: str
    values: Values
    level: int = 0

    @property
    def adds(self) -> bool:
        return self.kind in ("+I", "+U")


class Deduplicate:
    def __init__(self, schema: Schema, quirks: frozenset[str]) -> None:
        self._ignores_delete = schema.is_on("ignore-delete")
        self._last: Record | None = None

    def add(self, record: Record) -> None:
        if record.adds or not self._ignores_delete:
            self._last = record

    def result(self) -> Record | None:
        return self._last


class FirstRow:
    def __init__(self, schema: Schema, quirks: frozenset[str]) -> None:
        self._ignores_delete = schema.is_on("ignore-delete")
        self._first: Record | None = None

    def add(self, record: Record) -> None:
        if not record.adds:
            if self._ignores_delete:
                return
            raise Refused("first-row takes no retracts")
        self._first = self._first or record

    def result(self) -> Record | None:
        return self._first


class Aggregation:
    def __init__(self, schema: Schema, quirks: frozenset[str]) -> None:
        self._functions = [self._function(schema, field, quirks) for field in schema.fields]
        self._removes = schema.is_on("aggregation.remove-record-on-delete")
        self._row: list[Any] = [None] * len(schema.fields)
        self._last: Record | None = None
        self._removed = False

    def add(self, record: Record) -> None:
        self._last = record
        self._removed = self._removes and record.kind == "-D"
        if self._removed:
            self._row = list(record.values)
            return
        for i, (function_, value) in enumerate(zip(self._functions, record.values, strict=True)):
            step = function_.add if record.adds else function_.retract
            self._row[i] = step(self._row[i], value)

    def result(self) -> Record | None:
        assert self._last is not None
        return replace(self._last, kind="-D" if self._removed else "+I", values=tuple(self._row))

    @staticmethod
    def _function(schema: Schema, field: Field, quirks: frozenset[str]) -> Function:
        options = schema.options
        name = options.get(f"fields.{field.name}.aggregate-function") or options.get(
            "fields.default-aggregate-function", "last_non_null_value"
        )
        if schema.names.index(field.name) in schema.sequence_fields:
            name = "last_value"
        elif field.name in schema.primary_keys:
            name = "primary-key"
        return function(name, field.name, field.type, options, quirks)


class PartialUpdate:
    """Fields that are not null overwrite; fields of a sequence group go by the group's own order."""

    def __init__(self, schema: Schema, quirks: frozenset[str]) -> None:
        options, names = schema.options, schema.names
        self._not_null = [not field.type.nullable for field in schema.fields]
        self._ignores_delete = schema.is_on("ignore-delete")
        self._removes = schema.is_on("partial-update.remove-record-on-delete")
        removing = options.get("partial-update.remove-record-on-sequence-group", "")
        self._removing = [names.index(name.strip()) for name in removing.split(",") if name]
        # By column: the sequence columns of its group, which belong to the group themselves.
        self._group: dict[int, list[int]] = {}
        for key, protected in options.items():
            if key.startswith("fields.") and key.endswith(".sequence-group"):
                sequence = [names.index(name.strip()) for name in key[7:-15].split(",")]
                for name in [*(names[i] for i in sequence), *protected.split(",")]:
                    self._group[names.index(name.strip())] = sequence
        self._functions: dict[int, Function] = {}
        for i, field in enumerate(schema.fields):
            name = options.get(f"fields.{field.name}.aggregate-function") or options.get(
                "fields.default-aggregate-function"
            )
            if name and field.name not in schema.primary_keys and i not in self._group.get(i, ()):
                self._functions[i] = function(name, field.name, field.type, options, quirks)
        self._row: list[Any] = [None] * len(schema.fields)
        self._filled = self._added = self._removed = False
        self._last: Record | None = None
        self._number = 0

    def add(self, record: Record) -> None:
        self._last, self._removed = record, False
        if record.adds:
            self._number = record.number
            self._update(record)
            self._added = self._filled = True
            return
        if not self._filled:
            self._row, self._filled = list(record.values), True
        if self._ignores_delete:
            return
        self._number = record.number
        if self._group:
            self._retract(record)
        elif not self._removes:
            raise Refused("partial-update takes no retracts")
        elif record.kind == "-D":
            self._row, self._removed = list(record.values), True

    def result(self) -> Record | None:
        assert self._last is not None
        kind = "-D" if self._removed or not self._added else "+I"
        return replace(self._last, number=self._number, kind=kind, values=tuple(self._row))

    def _update(self, record: Record) -> None:
        for i, value in enumerate(record.values):
            group, aggregate = self._group.get(i), self._functions.get(i)
            if group is None:
                if aggregate is not None and self._group:
                    self._row[i] = aggregate.add(self._row[i], value)
                elif value is not None:
                    self._row[i] = value
                elif self._not_null[i]:
                    raise Refused(f"null in the NOT NULL column {i}")
            elif any(record.values[s] is not None for s in group):
                if self._is_late(record, group):
                    if aggregate is not None:
                        self._row[i] = aggregate.add_older(self._row[i], value)
                elif i in group:
                    for s in group:
                        self._row[s] = record.values[s]
                else:
                    self._row[i] = value if aggregate is None else aggregate.add(self._row[i], value)

    def _retract(self, record: Record) -> None:
        for i, value in enumerate(record.values):
            group, aggregate = self._group.get(i), self._functions.get(i)
            if group is None or all(record.values[s] is None for s in group):
                continue
            late = self._is_late(record, group)
            if not late and i in group:
                if record.kind == "-D" and any(s in self._removing for s in group):
                    self._row, self._removed = list(record.values), True
                    return
                for s in group:
                    self._row[s] = record.values[s]
            elif aggregate is not None:
                self._row[i] = aggregate.retract(self._row[i], value)
            elif not late:
                self._row[i] = None

    def _is_late(self, record: Record, group: list[int]) -> bool:
        return compare_keys([record.values[s] for s in group], [self._row[s] for s in group]) < 0


ENGINES = {
    "deduplicate": Deduplicate,
    "first-row": FirstRow,
    "aggregation": Aggregation,
    "partial-update": PartialUpdate,
}
