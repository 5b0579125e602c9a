"""Merge rules: the rules of a schema for merging and changelogs.

Source: docs/semantics/tables.md#constraints, rules 3, 8 to 13, and 18 to 20.
"""

from collections import Counter
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import STRING_ROOTS, AtomicType, type_to_sql
from lakehouse_core.options import DYNAMIC_BUCKET, ChangelogProducer, MergeEngine, parse_bool
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema.columns import named_column
from lakehouse_core.table.schema.record import TableSchema

_VECTORS: Final = "deletion-vectors.enabled"
_DELTA_COMMITS: Final = "full-compaction.delta-commits"


def check_sequence(schema: TableSchema) -> None:
    """Rule 9."""
    names = schema.table_options.sequence_fields
    if not names:
        return
    if not schema.primary_keys:
        raise InvalidRequest("sequence.field orders the versions of one key: the table needs a primary key.")
    if schema.is_cross_partition:
        raise InvalidRequest(
            "sequence.field needs all partition columns in the primary key: otherwise a key moves between partitions."
        )
    for name, count in Counter(names).items():
        field = named_column(schema, "sequence.field", name)
        if count > 1:
            raise InvalidRequest(f"sequence.field names {name} {count} times: once is enough.")
        if not isinstance(field.type, AtomicType):
            raise InvalidRequest(f"sequence.field names {name}, a {type_to_sql(field.type)}, which has no order.")
        if f"fields.{name}.aggregate-function" in schema.options:
            raise InvalidRequest(f"Column {name} is a sequence.field: it takes no aggregate-function.")


def check_rowkind_and_changelog(schema: TableSchema) -> None:
    """Rules 3, 11, 13 and 19."""
    options = schema.table_options
    if options.rowkind_field is not None:
        field = named_column(schema, "rowkind.field", options.rowkind_field)
        if not isinstance(field.type, AtomicType) or field.type.root not in STRING_ROOTS:
            raise InvalidRequest(f"rowkind.field names {field.name}, a {type_to_sql(field.type)}: it must be a STRING.")
    if options.changelog_producer is not ChangelogProducer.NONE and not schema.primary_keys:
        raise InvalidRequest(
            f"changelog-producer is {options.changelog_producer}: only a table with a primary key has a changelog. "
            "Declare one, or remove the option."
        )
    if _DELTA_COMMITS in schema.options:
        if options.changelog_producer is ChangelogProducer.LOOKUP:
            raise InvalidRequest(
                f"changelog-producer is lookup and {_DELTA_COMMITS} is set, which Java Paimon 2 refuses: remove "
                "one of the two, or set the producer full-compaction."
            )
        if schema.is_append and options.bucket == DYNAMIC_BUCKET:
            raise InvalidRequest(
                f"{_DELTA_COMMITS} is set for an append table without buckets, whose writes compact nothing: remove it."
            )


def check_merging(schema: TableSchema) -> None:
    """Rules 8 to 10, 18 and 20, for tables with a primary key; others merge nothing."""
    if not schema.primary_keys:
        return
    options = schema.table_options
    has_vectors = parse_bool(_VECTORS, schema.options.get(_VECTORS, "false"))
    if options.merge_engine is MergeEngine.FIRST_ROW:
        if options.sequence_fields:
            raise InvalidRequest(
                "merge-engine is first-row, which keeps the record that came first: it takes no sequence.field."
            )
        if options.changelog_producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
            raise InvalidRequest(
                f"changelog-producer is {options.changelog_producer} and merge-engine first-row: take none or lookup."
            )
        if has_vectors:
            raise InvalidRequest(f"merge-engine is first-row, which deletes nothing: {_VECTORS} cannot be true.")
    if has_vectors and options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        raise InvalidRequest(
            f"changelog-producer is full-compaction and {_VECTORS} is true: take none, input or lookup."
        )
    merge_spec(schema)
