"""What a change of types means for the texts that files have: each read casts them, and a text may not fit.

Source: docs/semantics/tables.md#schema-changes.
"""

from lakehouse_core.format.data_types import BINARY_ROOTS, STRING_ROOTS, AtomicType, type_to_sql
from lakehouse_core.table.schema import TableSchema


def cast_note(old: TableSchema, new: TableSchema) -> str | None:
    """Return what to know about columns of text that have got another type, None if there are none."""
    before = {field.id: field.type for field in old.fields}
    notes = []
    for field in new.fields:
        source = before.get(field.id)
        if not (isinstance(source, AtomicType) and isinstance(field.type, AtomicType)):
            continue
        if source.root in STRING_ROOTS and field.type.root not in STRING_ROOTS | BINARY_ROOTS:
            notes.append(
                f"reads cast the texts that are in column {field.name} to {type_to_sql(field.type)}, and fail at one "
                f"that does not fit; with the type {type_to_sql(source)} again they are read as before"
            )
    return "; ".join(notes) or None
