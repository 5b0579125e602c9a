"""Sources: what the names of a statement mean, each found once: tables at one snapshot, data of the call.

Rule: however a statement spells a table, all its references to one point in time read one snapshot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lakehouse_core.api.scan import Scan
from lakehouse_core.catalog.names import is_system_name
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.read.pinning import PinnedTable, pin
from lakehouse_core.execution.read.relation import NativeTable, Relation
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.execution.read.state import state_at
from lakehouse_core.execution.row_changes.change_base import ReadAt
from lakehouse_core.format.data_types import DataField, field_from_arrow
from lakehouse_core.interchange.arrow_rows import ArrowRows, RowsInMemory
from lakehouse_core.planning.read.read_point import AsOf, AtVersion, Latest, ReadPoint
from lakehouse_core.planning.sql.pushing import Pushed
from lakehouse_core.planning.sql.query import TableReference


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySource:
    """What a reference means: a pinned table, or rows, or a frame of Spark."""

    title: str
    fields: tuple[DataField, ...]
    pinned: PinnedTable | None = None
    rows: ArrowRows | None = None
    frame: Any = None

    @property
    def prunes(self) -> bool:
        """Whether a scan takes columns and a condition."""
        return self.pinned is not None

    def relation(self, view: str, pushed: Pushed | None, *, takes_first_rows: bool = False) -> Relation:
        """Return the rows under a name. `takes_first_rows`: some first ones are enough. Raises the errors of scans."""
        if self.pinned is None:
            return Relation(view=view, title=self.title, rows=self.rows, frame=self.frame)
        assert pushed is not None
        plan, context = self.pinned.plan(pushed.columns, pushed.condition), self.pinned.context

        def rows(part: ScanPlan) -> Scan:
            return Scan(lambda: part, context)

        native = None if takes_first_rows else NativeTable(plan=plan, table=context, rows=rows)
        return Relation(view=view, title=self.title, rows=rows(plan), plan=plan, native=native)

    def read_at(self) -> ReadAt | None:
        """Return the snapshot of which a table's latest rows are read; None for other rows."""
        if self.pinned is None or self.pinned.point is not None or self.pinned.options:
            return None
        snapshot = state_at(self.pinned.context, Latest(), self.pinned.look).snapshot
        return ReadAt(None if snapshot is None else snapshot.id)


class Sources:
    """What the names of one statement mean."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[Any, ...], QuerySource] = {}
        self._by_table: dict[tuple[Any, ...], QuerySource] = {}

    def of(self, call: StatementCall, reference: TableReference) -> QuerySource:
        """Return what a reference means. Raises NotFound with the place of its name in the call, InvalidRequest."""
        spelled = (*reference.name.parts, reference.point, *reference.options.items())
        if spelled not in self._by_name:
            self._by_name[spelled] = self._found(call, reference)
        return self._by_name[spelled]

    def read_at(self, table: str) -> ReadAt | None:
        """Return the snapshot at which the latest rows of a table are read, None if they are not read."""
        own = (source.read_at() for source in self._by_table.values() if source.title == table)
        return next((one for one in own if one is not None), None)

    def lines(self) -> list[str]:
        """Return what the names mean, for people."""
        return [
            f"table {one.title}: "
            + ("its rows" if one.pinned is None else f"snapshot {one.pinned.plan(None, None).snapshot_id}")
            for one in self._by_table.values()
        ]

    def _found(self, call: StatementCall, reference: TableReference) -> QuerySource:
        name = reference.name
        if not reference.options and (key := call.foreign(name)) is not None:
            if reference.point is not None:
                raise call.sql.invalid(
                    name.start, f"time travel needs a table of the catalog, and {key} is data of the call"
                )
            found = _foreign(key, call.tables[key], session_of(call))
            return self._by_table.setdefault((key,), found)
        with call.placed(name):
            full = call.table(name)
            table = (full, reference.point, *reference.options.items())
            if table not in self._by_table:
                self._by_table[table] = _of_catalog(call, full, reference)
            return self._by_table[table]


def session_of(call: StatementCall) -> Any:
    """Return the Spark session of the catalog, None for a catalog whose tasks run in this process."""
    engine: Any = call.engine()
    return engine.session if engine.is_remote else None


def _of_catalog(call: StatementCall, full: str, reference: TableReference) -> QuerySource:
    if is_system_name(full):
        system = call.catalog.system_table(full, options=_system_options(reference.point))
        return QuerySource(title=full, fields=_fields(system.schema()), rows=system)
    pinned = pin(call.opened(full), reference.point, reference.options)
    return QuerySource(title=full, fields=pinned.schema.fields, pinned=pinned)


def _system_options(point: ReadPoint | None) -> Mapping[str, str]:
    match point:
        case AtVersion(version):
            return {"scan.version": version}
        case AsOf():
            return {"scan.timestamp-millis": str(point.time_millis)}
    return {}


def _foreign(key: str, data: Any, session: Any) -> QuerySource:
    if type(data).__module__.startswith("pyspark."):
        if session is None:
            return _foreign(key, RowsInMemory(data.toArrow()), session)
        from lakehouse_core.execution.engines.spark.types import fields_from_spark  # noqa: PLC0415

        _check_twins(key, data.columns)
        return QuerySource(title=key, fields=fields_from_spark(data.schema), frame=data)
    rows = data if isinstance(data, ArrowRows) else RowsInMemory(_with_types(key, data))
    _check_twins(key, rows.schema().names)
    for name in rows.schema().names:
        if "\0" in name:
            # DuckDB reads a name up to this character.
            raise InvalidRequest(
                f"tables={{{key!r}: …}}: column {shown(name)} has the character NUL in its name: rename it."
            )
    return QuerySource(title=key, fields=_fields(rows.schema()), rows=rows)


def source_fields(rows: Any) -> tuple[DataField, ...]:
    """Return the columns of the rows of a query: a frame of Spark, or rows in this process."""
    if isinstance(rows, ArrowRows):
        return _fields(rows.schema())
    from lakehouse_core.execution.engines.spark.types import fields_from_spark  # noqa: PLC0415

    return fields_from_spark(rows.schema)


def source_columns(rows: Any) -> list[tuple[str, Callable[[], DataField]]]:
    """Return the columns of the rows of a query, by name; the function of each returns it with its type, and raises
    InvalidRequest for a type that no table has.
    """
    if isinstance(rows, pa.Schema | ArrowRows):
        schema = rows if isinstance(rows, pa.Schema) else rows.schema()
        return [(each.name, partial(field_from_arrow, each)) for each in schema]
    from lakehouse_core.execution.engines.spark.types import field_from_spark  # noqa: PLC0415

    return [(each.name, partial(field_from_spark, each)) for each in rows.schema]


def _check_twins(key: str, names: Sequence[str]) -> None:
    """Raise InvalidRequest for names that SQL does not tell apart: a query would give the values of one for both."""
    seen: dict[str, str] = {}
    for name in names:
        if (twin := seen.setdefault(name.casefold(), name)) != name:
            raise InvalidRequest(
                f"tables={{{key!r}: …}}: the columns {shown(twin)} and {shown(name)} differ by case alone. Rename one."
            )


def _arrow_table(key: str, data: Any) -> pa.Table:
    if isinstance(data, pa.RecordBatchReader):
        # What the caller's stream raises is told as it is, as by the verbs.
        return data.read_all()
    try:
        if isinstance(data, list):
            return pa.Table.from_pylist(data)
        if type(data).__module__.startswith("pandas."):
            return pa.Table.from_pandas(data, preserve_index=False)
        # Arrow's interface of C, by which it takes other objects, ends a name at NUL.
        return data if isinstance(data, pa.Table) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(
            f"tables={{{key!r}: {shown(data)}}}: expected an object with an Arrow stream, a pandas frame, a list of "
            f"dicts, or a Spark frame ({error})."
        ) from error


def _with_types(key: str, data: Any) -> pa.Table:
    """Return the data with text in place of the type of what has no values, which no table has.

    Raises InvalidRequest for data without columns.
    """
    table = _arrow_table(key, data)
    if not table.num_columns:
        raise InvalidRequest(
            f"tables={{{key!r}: …}}: found a {type(data).__name__} without columns. Hand over a pyarrow.Table with a "
            "schema."
        )
    typed = [each.with_type(_with_type(each.type)) for each in table.schema]
    return table.cast(pa.schema(typed, table.schema.metadata))


def _with_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type with text in place of what has no values, also inside lists and structs."""
    if pa.types.is_null(arrow):
        return pa.string()
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_with_type(arrow.value_type)))
    if pa.types.is_large_list(arrow):
        return pa.large_list(arrow.value_field.with_type(_with_type(arrow.value_type)))
    if pa.types.is_struct(arrow):
        return pa.struct([each.with_type(_with_type(each.type)) for each in arrow])
    return arrow


def _fields(schema: pa.Schema) -> tuple[DataField, ...]:
    return tuple(field_from_arrow(each) for each in schema)
