"""Projection: map the columns of a file to the columns of a read, by field id.

Source: docs/semantics/tables.md#reading-old-files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast_rules import can_cast
from lakehouse_core.format.data_types import DataField, DataType, type_to_sql
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProjection:
    """One column of a read. `source` is the file's column, under the name it has there; None: the file lacks it."""

    target: DataField
    source: DataField | None

    @property
    def target_type(self) -> DataType:
        return self.target.type


def file_projection(file_schema: TableSchema, read_fields: Sequence[DataField]) -> tuple[ColumnProjection, ...]:
    """Return, for each field of the read and in its order, the column of a file of `file_schema` that holds it.

    Columns are matched by id, not by name: a column that was dropped and added again is another column. Raises
    UnsupportedFeature naming a column whose values cannot be cast.
    """
    by_id = {field.id: field for field in file_schema.fields}
    projections = []
    for target in read_fields:
        source = by_id.get(target.id)
        if source is not None and source is not target and not can_cast(source.type, target.type, explicit=True):
            raise UnsupportedFeature(
                f"Column {target.name}: files of schema {file_schema.id} hold {type_to_sql(source.type)} and cannot be "
                f"read as {type_to_sql(target.type)}: there is no such cast. Leave the column out, or read a "
                "snapshot from before the change."
            )
        projections.append(ColumnProjection(target=target, source=source))
    return tuple(projections)


def source_columns(projections: Iterable[ColumnProjection]) -> list[str]:
    """Return the columns to read from the file, under their names there."""
    return [projection.source.name for projection in projections if projection.source is not None]
