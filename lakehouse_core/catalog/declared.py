"""Declared schemas: what a table would be, without a catalog."""

from collections.abc import Mapping, Sequence

from lakehouse_core.calls import checks_call
from lakehouse_core.table.schema import ColumnDeclarations, TableSchema, new_schema


@checks_call
def declared_schema(
    columns: ColumnDeclarations,
    *,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """Return the schema that `Catalog.create_table` would give a new table. Reads and writes nothing.

    Raises InvalidRequest, UnsupportedFeature for an option that the core does not carry out.
    """
    return new_schema(
        columns,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options=options,
        comment=comment,
        nullable=False,
        now_millis=0,
    )
