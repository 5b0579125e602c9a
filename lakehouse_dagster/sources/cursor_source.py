"""Cursor source: what a SQL query and a Python function share that give the rows after a cursor.

Rule: a run takes what is new as one delivery. Deliveries that are staged come first, in their order.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline import (
    CURSOR,
    Cursor,
    NewRows,
    advance_cursor,
    committed_identifier,
    incarnation,
    recorded_cursor,
    staged_deliveries,
)
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.row_source import Delivery, Expected, delivery_user, table_of

# The new rows of a table since a cursor, and what notes the cursor that they lead to.
ReadSince: TypeAlias = Callable[[lc.Table, Cursor], tuple[NewRows, Iterator[pa.RecordBatch]]]


def cursor_delivery(lakehouse: LakehouseResource, key: dg.AssetKey, kind: str, read_since: ReadSince) -> Delivery:
    """Return the delivery of the rows after the cursor of the table with asset `key`."""
    catalog = lakehouse.local_catalog()
    table = table_of(catalog, key)
    user = delivery_user(kind, table, key)
    new: dict[int, NewRows] = {}
    streams: dict[int, pa.RecordBatchReader] = {}

    def batches_to_stage(opened: lc.Table) -> list[Batch]:
        delivery, cursor = advance_cursor(catalog, opened, commit_user=user)
        batches = [_batch(staged) for staged in staged_deliveries(opened, delivery, commit_user=user)]
        rows, stream = read_since(opened, cursor)
        if (first := next(stream, None)) is None:
            return batches
        number = delivery + 1
        new[number] = rows
        streams[number] = pa.RecordBatchReader.from_batches(first.schema, chain([first], stream))
        return [*batches, Batch(key=str(number), identifier=number)]

    def read(batch: Batch) -> pa.RecordBatchReader:
        if (stream := streams.get(batch.identifier)) is not None:
            return stream
        # What is staged is read again only if it cannot be committed.
        raise lc.InvalidRequest(
            f"{table.name}: the rows of delivery {batch.identifier} are staged, and what is staged cannot be "
            "committed: files are missing or damaged, or the table has another bucket count. The cursor is beyond "
            "these rows. Restore the files (`lakehouse pending list` names the fault), or drop the table to load all "
            "rows anew."
        )

    def batches_to_commit(opened: lc.Table) -> list[Batch]:
        delivery, _ = advance_cursor(catalog, opened, commit_user=user)
        return [_batch(staged) for staged in staged_deliveries(opened, delivery, commit_user=user)]

    return Delivery(
        user=user,
        version=incarnation(table),
        snapshot_id=0,
        batches_to_stage=batches_to_stage,
        batches_to_commit=batches_to_commit,
        read=read,
        properties=lambda batch: {CURSOR: new[batch.identifier].cursor.to_json()},
    )


def rows_taken(table: lc.Table, lakehouse: LakehouseResource, key: dg.AssetKey, kind: str) -> Expected:
    """Return the number of rows that the table has committed, and the last delivery."""
    user = delivery_user(kind, table, key)
    delivery, cursor = recorded_cursor(lakehouse.local_catalog(), table, commit_user=user)
    done = committed_identifier(table, user)
    staged = [
        each
        for each in staged_deliveries(table, delivery, commit_user=user)
        if done is None or each.commit_identifier > done
    ]
    rows = sum(file.row_count for each in staged for message in each.messages for file in message.new_files)
    return cursor.rows - rows, None if done is None else f"delivery {done}"


def arrow_batch(table: lc.Table, columns: dict[str, Any]) -> pa.RecordBatch:
    """Return columns of values, or of Arrow arrays, as a batch with the types of the table.

    Columns that the table lacks keep their types; texts of polars become plain ones, which all Arrow functions take.
    Raises InvalidRequest naming the column.
    """
    types = table.scan().schema()
    arrays = [
        _array(name, values, types.field(name).type if name in types.names else None)
        for name, values in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def refuse_unknown_columns(table: lc.Table, names: list[str], allowed: set[str | None], what: str) -> None:
    """Raise InvalidRequest when `what` gives a column that the table lacks and that is not `allowed`."""
    own = [field.name for field in table.schema.fields]
    if unknown := [name for name in names if name not in own and name not in allowed]:
        raise lc.InvalidRequest(
            f"{table.name}: {what} gives a column {unknown[0]!r}, but the table has {', '.join(own)}. Leave the "
            "column out, or add it to the table."
        )


def _array(name: str, values: Any, kind: pa.DataType | None) -> pa.Array:
    try:
        if isinstance(values, pa.ChunkedArray):
            is_view = pa.types.is_string_view(values.type)
            made = values.cast(kind if kind is not None else pa.string() if is_view else values.type)
        else:
            try:
                made = pa.array(values, type=kind)
            except (pa.ArrowException, TypeError, ValueError):
                made = pa.array(values).cast(kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise lc.InvalidRequest(
            f"column {name!r}: found values that do not fit its type {kind} ({error}). Cast the column."
        ) from error
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _batch(staged: lc.StagedCommit) -> Batch:
    return Batch(key=str(staged.commit_identifier), identifier=staged.commit_identifier)
