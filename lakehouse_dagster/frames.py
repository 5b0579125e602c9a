"""Frames: a scan as the type that an input asks for, and what an asset returned as rows that a table can write.

Rule: pandas, polars and PySpark are imported only where a frame of theirs is asked for or returned.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc

Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A planned read. `scan` makes scans of the same snapshot and condition: of some columns, of so many rows."""

    scan: Callable[[Sequence[str] | None, int | None], lc.Scan]
    session: Callable[[], Any]

    def everything(self) -> lc.Scan:
        return self.scan(None, None)


def _lazy_frame(read: Read) -> Any:
    """Return a polars LazyFrame that reads only the columns its query needs, when the query is collected."""
    polars = import_module("polars")
    plugins = import_module("polars.io.plugins")
    everything = read.everything()
    empty = read.scan(None, 0).to_polars()

    def rows(columns: list[str] | None, predicate: Any, count: int | None, _: int | None) -> Iterator[Any]:
        # A condition comes after the read, so only without one the table itself can stop early.
        plain = columns is None and count is None
        scan = everything if plain else read.scan(columns, count if predicate is None else None)
        for batch in scan.to_batches():
            frame = polars.from_arrow(pa.Table.from_batches([batch]))
            frame = frame if predicate is None else frame.filter(predicate)
            if count is not None:
                frame = frame.head(count)
                count -= len(frame)
            yield frame
            if count == 0:
                return

    return plugins.register_io_source(rows, schema=empty.schema)


# What an annotation names: the package and the class.
_LOADERS: Mapping[tuple[str, str], Callable[[Read], Any]] = {
    ("lakehouse_core", "Scan"): Read.everything,
    ("pyarrow", "Table"): lambda read: read.everything().to_arrow(),
    ("pyarrow", "RecordBatchReader"): lambda read: read.everything().to_reader(),
    ("pandas", "DataFrame"): lambda read: read.everything().to_pandas(),
    ("polars", "DataFrame"): lambda read: read.everything().to_polars(),
    ("polars", "LazyFrame"): _lazy_frame,
    ("pyspark", "DataFrame"): lambda read: read.everything().to_spark(read.session()),
}


def loader_of(annotation: Any) -> Callable[[Read], Any]:
    """Return what makes a value of the annotated type from a read. Without annotation the value is the scan itself.

    Raises InvalidRequest for a type that the rows of a table cannot become.
    """
    if annotation is Any or annotation is None:
        return Read.everything
    if isinstance(annotation, type) and (loader := _LOADERS.get(_name(annotation))) is not None:
        return loader
    raise lc.InvalidRequest(
        f"found an input of the type {annotation!r}, expected one of "
        f"{', '.join('.'.join(name) for name in _LOADERS)}. Change the annotation."
    )


def is_spark(frame: object) -> bool:
    """Return whether a frame is one of Spark."""
    return _name(type(frame)) == ("pyspark", "DataFrame")


def rows_of(returned: object) -> Any:
    """Return what an asset returned as rows that a table can write. Raises InvalidRequest for anything else."""
    match _name(type(returned)):
        case ("pandas" | "polars" | "pyspark", "DataFrame"):
            return returned
        case ("polars", "LazyFrame"):
            lazy: Any = returned
            return lazy.collect()
        case ("pyarrow", "RecordBatch"):
            return pa.Table.from_batches([returned])
    if hasattr(returned, "__arrow_c_stream__"):
        return returned
    raise lc.InvalidRequest(
        f"the asset returned {'None' if returned is None else f'an object of {type(returned)!r}'}, expected an Arrow "
        "table, a pandas, polars or Spark frame, or a scan. Return rows, or no value at all with "
        "dg.MaterializeResult()."
    )


def parted(rows: Any, parts: Sequence[Values], *, giver: str = "the asset returned") -> list[Any]:
    """Return the rows of each part of a table: column → value. Raises InvalidRequest for rows of no part.

    `giver` begins the message about them.
    """
    if is_spark(rows):
        return _parted_spark(rows, parts, giver)
    if _name(type(rows))[0] not in ("pandas", "polars"):
        rows = pa.table(rows)
    columns = {name: _column(rows, name) for name in parts[0]}
    masks = [_mask(columns, part) for part in parts]
    inside = reduce(pc.or_, masks)
    if (outside := len(inside) - (pc.sum(inside).as_py() or 0)) > 0:
        first = pc.index(inside, False).as_py()
        found = ", ".join(f"{name}={column[first].as_py()}" for name, column in columns.items())
        raise _outside(f"{outside} rows of other partitions, the first of {found} in row {first}", parts, giver)
    return [rows] if len(parts) == 1 else [_filtered(rows, mask) for mask in masks]


def _parted_spark(frame: Any, parts: Sequence[Values], giver: str) -> list[Any]:
    if missing := [name for name in parts[0] if name not in frame.columns]:
        raise lc.InvalidRequest(f"the frame has no column {missing[0]!r}, which the partition_map names. Add it.")
    conditions = [
        reduce(lambda left, right: left & right, [frame[name].eqNullSafe(value) for name, value in part.items()])
        for part in parts
    ]
    inside = reduce(lambda left, right: left | right, conditions)
    if not frame.filter(~inside).isEmpty():
        raise _outside("rows of other partitions", parts, giver)
    return [frame] if len(parts) == 1 else [frame.filter(condition) for condition in conditions]


def _column(rows: Any, name: str) -> Any:
    names = list(rows.column_names if isinstance(rows, pa.Table) else rows.columns)
    if name not in names:
        raise lc.InvalidRequest(f"the rows have no column {name!r}, which the partition_map names. Add it.")
    column = rows[name]
    if isinstance(column, pa.ChunkedArray):
        return column
    made = column.to_arrow() if hasattr(column, "to_arrow") else pa.Array.from_pandas(column)
    return made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made])


def _mask(columns: Mapping[str, pa.ChunkedArray], part: Values) -> Any:
    masks = []
    for name, value in part.items():
        wanted = pa.scalar(value)
        try:
            masks.append(pc.fill_null(pc.equal(columns[name].cast(wanted.type), wanted), False))
        except pa.ArrowInvalid as error:
            raise lc.InvalidRequest(
                f"column {name}: found {columns[name].type}, expected values of {wanted.type}, by which the table is "
                f"partitioned ({error}). Cast the column."
            ) from error
    return reduce(pc.and_, masks)


def _filtered(rows: Any, mask: Any) -> Any:
    match _name(type(rows))[0]:
        case "pandas":
            return rows[mask.to_numpy()]
        case "polars":
            return rows.filter(import_module("polars").from_arrow(mask))
        case _:
            return rows.filter(mask)


def _outside(found: str, parts: Sequence[Values], giver: str) -> lc.InvalidRequest:
    expected = " or ".join(", ".join(f"{name}={value}" for name, value in part.items()) for part in parts[:3])
    more = f" or {len(parts) - 3} others" if len(parts) > 3 else ""
    return lc.InvalidRequest(f"{giver} {found}; expected {expected}{more}. Leave other rows out.")


def _name(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__name__
