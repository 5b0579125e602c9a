"""The partitions that a procedure works on, by its arguments `partitions` and `where`.

Rule: as in Java, one of them is given at most, a blank one counts as left out, and `where` is about partition columns.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.procedure_arguments import partitions_of, text_of
from lakehouse_core.errors import InvalidRequest, LakehouseError, UnsupportedFeature, retell, shown
from lakehouse_core.format.data_types import AtomicType, DataField, arrow_type
from lakehouse_core.planning.partitions import partition_values
from lakehouse_core.planning.read.where import parse_where
from lakehouse_core.table.predicate import Compare, Comparison, Predicate, bind, columns_of, conjuncts, scalar
from lakehouse_core.tasks.matching import matching_rows


def named_partitions(procedure: str, table: Table, arguments: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    """Return the partitions that the arguments name, none where `where` is true for none; None stands for all."""
    given = {name for name in ("partitions", "where") if name in arguments and str(arguments[name]).strip()}
    if len(given) > 1:
        raise InvalidRequest(f"sys.{procedure}: partitions and where are both given. Give one of them.")
    if "partitions" in given:
        return [*partitions_of(procedure, arguments)]
    if "where" not in given:
        return [None]
    text = text_of(procedure, "where", arguments)
    try:
        condition = parse_where(text)
        bound = bind(condition, table.schema.fields)
    except LakehouseError as error:
        retell(error, lambda told: f"sys.{procedure}: where: {told}")
        raise
    others = sorted(columns_of(bound).difference(table.schema.partition_keys))
    if others:
        keys = ", ".join(table.schema.partition_keys) or "none"
        raise UnsupportedFeature(
            f"sys.{procedure}: where is {shown(text)}, and {others[0]} is not a partition column. Partition columns: "
            f"{keys}."
        )
    values = _equalities(condition, table)
    return [*_matching(bound, table)] if values is None else values


def _equalities(condition: Predicate, table: Table) -> list[dict[str, Any] | None] | None:
    """Return the values that a condition asks for, nothing where it asks for two values of one column; None if it asks
    for more than equal values.
    """
    values: dict[str, Any] = {}
    bound: dict[str, set[Predicate]] = defaultdict(set)
    for part in conjuncts(condition):
        match part:
            case Compare(column, Comparison.EQUAL, value):
                values[column] = value
                bound[column].add(bind(part, table.schema.fields))
            case _:
                return None
    return [] if any(len(asked) > 1 for asked in bound.values()) else [values]


def _matching(condition: Predicate, table: Table) -> list[dict[str, Any]]:
    """Return the partitions with files for which a bound condition is true."""
    fields = table.schema.partition_fields
    named = [dict(record.partition) for record in table.partitions()]
    values = [partition_values(one, table.schema) for one in named]
    columns = [_column(field, [one[field.name] for one in values]) for field in fields]
    batch = pa.RecordBatch.from_arrays(columns, [field.name for field in fields])
    return [named[row] for row in matching_rows(batch, condition, fields)]


def _column(field: DataField, values: Sequence[Any]) -> pa.Array:
    kind = field.type
    assert isinstance(kind, AtomicType)
    return pa.array([scalar(value, kind) for value in values], arrow_type(kind))
