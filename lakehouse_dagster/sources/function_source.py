"""Function source: the rows that a Python function yields, since a cursor, for a partition, or as a whole.

Rule: the function is imported by the run that calls it, never while assets are defined.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc
from lakehouse_dagster.frames import is_spark, rows_of
from lakehouse_dagster.pipeline import Cursor, NewRows
from lakehouse_dagster.sources.cursor_source import arrow_batch, refuse_unknown_columns
from lakehouse_dagster.sources.queried_source import QueriedSource, stream_of
from lakehouse_dagster.sources.row_source import Delivery, table_of
from lakehouse_dagster.sources.run_delivery import run_delivery
from lakehouse_dagster.specs import FunctionSpec, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSource(QueriedSource):
    """The rows of a function. `key` is the asset of the table."""

    kind = "function"

    spec: FunctionSpec

    @property
    def label(self) -> str:
        return f"the function {self.spec.name}"

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        if self.spec.cursor is not None:
            return self._cursor_delivery(context.resources, self._read_since)
        table = table_of(self._lakehouse(context.resources).local_catalog(), self.key)

        def read(key: str | None) -> pa.RecordBatchReader:
            return self._reader(table, *(() if key is None else (key,)))

        return run_delivery(context, table, self.key, self.partitions, read)

    def _read_since(self, table: lc.Table, since: Cursor) -> tuple[NewRows, Iterator[pa.RecordBatch]]:
        cursor = self.spec.cursor
        assert cursor is not None
        new = NewRows(since, cursor, is_sorted=True)

        def batches() -> Iterator[pa.RecordBatch]:
            for found in self._tables(table, since.value):
                if cursor not in found.column_names:
                    raise lc.InvalidRequest(
                        f"{table.name}: function.cursor names {cursor!r}, but {self.spec.name} yields "
                        f"{', '.join(found.column_names)}. Yield the column, or name another cursor."
                    )
                rows = self._typed(table, found)
                places = new.places(rows[cursor].to_pylist(), partial(_rows_at, rows))
                if places:
                    yield self._written(table, _taken(rows, places))

        return new, batches()

    def _reader(self, table: lc.Table, *arguments: str) -> pa.RecordBatchReader:
        typed = (self._typed(table, rows) for rows in self._tables(table, *arguments))
        return stream_of(table, (self._written(table, rows) for rows in typed))

    def _tables(self, table: lc.Table, *arguments: object) -> Iterator[pa.Table]:
        """Call the function and yield its rows. Raises InvalidRequest for what are not rows."""
        function = loaded(self.spec, table.name)
        self._check_takes(function, table.name, arguments)
        found = function(*arguments)
        names: list[str] | None = None
        for item in [found] if _is_rows(found) else found if hasattr(found, "__iter__") else [found]:
            if not _is_rows(item):
                raise lc.InvalidRequest(
                    f"{table.name}: {self.spec.name} yields an object of {type(item)!r}, expected Arrow, pandas or "
                    "polars rows. Yield such rows."
                )
            rows = pa.table(rows_of(item))
            names = names or rows.column_names
            if set(rows.column_names) != set(names):
                raise lc.InvalidRequest(
                    f"{table.name}: {self.spec.name} yields the columns {', '.join(rows.column_names)} after "
                    f"{', '.join(names)}. Yield the same columns each time."
                )
            yield rows.select(names)

    def _check_takes(self, function: Callable[..., Any], table: str, arguments: Sequence[object]) -> None:
        """Raise InvalidRequest for a function that cannot be called as the specification says."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            # Of some functions Python does not know what they take.
            return
        try:
            signature.bind(*arguments)
        except TypeError as error:
            given = "the last value of its cursor" if self.spec.cursor is not None else "the key of a partition"
            raise lc.InvalidRequest(
                f"{table}: {self.spec.name}{_names(signature)} does not take what it is called with, "
                f"{given if arguments else 'no argument'} ({error}). Correct the function, or cursor and partitions of "
                "the specification."
            ) from error

    def _typed(self, table: lc.Table, rows: pa.Table) -> pa.RecordBatch:
        refuse_unknown_columns(table, rows.column_names, {self.rowkind_column, self.spec.cursor}, self.spec.name)
        return arrow_batch(table, {name: rows[name] for name in rows.column_names})

    def _written(self, table: lc.Table, rows: pa.RecordBatch) -> pa.RecordBatch:
        own = self._own_columns(table)
        return rows.select([name for name in rows.schema.names if name in own])


def loaded(spec: FunctionSpec, table: str) -> Callable[..., Any]:
    """Return the function of a specification. Raises InvalidRequest when it cannot be imported."""
    if not isinstance(spec.call, str):
        return spec.call
    module_name, _, name = spec.call.rpartition(".")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise lc.InvalidRequest(
            f"{table}: function.call {spec.call!r}: the module {module_name!r} cannot be imported ({error}). Install "
            "it where runs are executed, or correct the name."
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        what = "is not a function" if hasattr(module, name) else "does not exist"
        known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise lc.InvalidRequest(f"{table}: function.call {spec.call!r}: {name!r} {what}{nearest(name, known)}")
    function: Callable[..., Any] = found
    return function


def _names(signature: inspect.Signature) -> inspect.Signature:
    """Return the names of parameters alone: a default may be a password."""
    names = [
        each.replace(default=inspect.Parameter.empty, annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
    ]
    return inspect.Signature(names)


def _taken(rows: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
    return rows.take(pa.array(places, pa.int64()))


def _rows_at(rows: pa.RecordBatch, places: Sequence[int]) -> list[object]:
    found: list[object] = _taken(rows, places).to_pylist()
    return found


def _is_rows(found: object) -> bool:
    if is_spark(found):
        return False
    try:
        rows_of(found)
    except lc.InvalidRequest:
        return False
    return True
