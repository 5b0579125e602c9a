"""How the columns of a file become the columns of a read, by field id. Source: Paimon semantics A.8."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.cast import can_cast, cast_array
from lakehouse_core.format.data_types import DataField, DataType, arrow_schema, arrow_type
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProjection:
    """One column of a read. `source` is the file's column, under the name it has there; None: the file lacks it."""

    target: DataField
    source: DataField | None

    @property
    def source_name(self) -> str | None:
        return None if self.source is None else self.source.name

    @property
    def source_type(self) -> DataType | None:
        return None if self.source is None else self.source.type

    @property
    def target_type(self) -> DataType:
        return self.target.type

    @property
    def is_unchanged(self) -> bool:
        """Whether values pass as they are; only the name and nullability may differ."""
        return self.source is not None and arrow_type(self.source.type) == arrow_type(self.target.type)


def file_projection(file_schema: TableSchema, read_fields: Sequence[DataField]) -> tuple[ColumnProjection, ...]:
    """Return, for each field of the read and in its order, the column of a file of `file_schema` that holds it.

    Columns meet by id, whatever they are called: a dropped column that was added again is another one. Raises
    UnsupportedFeature naming the column when its values cannot be cast.
    """
    by_id = {field.id: field for field in file_schema.fields}
    projections = []
    for target in read_fields:
        source = by_id.get(target.id)
        if source is not None and not can_cast(source.type, target.type):
            raise UnsupportedFeature(
                f"Column {target.name}: files of schema {file_schema.id} cannot be read with its present type yet; "
                "only casts that lose no kind of value are supported."
            )
        projections.append(ColumnProjection(target=target, source=source))
    return tuple(projections)


def source_columns(projections: Iterable[ColumnProjection]) -> list[str]:
    """Return the columns to read from the file, under their names there."""
    return [projection.source.name for projection in projections if projection.source is not None]


def project_batch(batch: pa.RecordBatch, projections: Sequence[ColumnProjection]) -> pa.RecordBatch:
    """Return the batch of a read from a batch of a file: columns renamed, cast, and NULL where the file lacks them.

    `batch` has at least `source_columns`. Columns that do not change are not copied.
    """
    columns = []
    for projection in projections:
        if projection.source is None:
            columns.append(pa.nulls(batch.num_rows, arrow_type(projection.target.type)))
        else:
            column = batch.column(projection.source.name)
            columns.append(cast_array(column, projection.source.type, projection.target.type))
    schema = arrow_schema([projection.target for projection in projections])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
