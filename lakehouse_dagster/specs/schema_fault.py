"""Schema fault: what the core would refuse of the table of a specification, told when the specification is read.

Rule: options that the resource of the lake adds are not known here, so nothing is refused that they may mend.
"""

from collections.abc import Mapping

import lakehouse_core as lc
from lakehouse_dagster.specs.strict import Misfit
from lakehouse_dagster.specs.table import TableSpec


def schema_fault(spec: TableSpec) -> Misfit | None:
    """Return why a table like this cannot be created, None if it can."""
    try:
        lc.declared_schema(
            {name: column.type for name, column in spec.columns.items()},
            partition_keys=list(spec.partition_by),
            primary_keys=list(spec.primary_key),
            options={**_buckets(spec), **spec.options},
            comment=spec.comment,
        )
    except (lc.InvalidRequest, lc.UnsupportedFeature) as error:
        told = str(error)
        return Misfit(_place(spec, told), told.rstrip("."))
    return None


def _buckets(spec: TableSpec) -> Mapping[str, str]:
    """Return the buckets with which least is refused, for a specification that names none."""
    keys_move = not set(spec.partition_by) <= set(spec.primary_key)
    return {"bucket": "1"} if spec.primary_key and not keys_move else {}


def _place(spec: TableSpec, told: str) -> tuple[str, ...]:
    """Return the part of a specification that a message of the core is about."""
    if (column := next((each for each in spec.columns if told.startswith(f"Column '{each}'")), None)) is not None:
        return "columns", column
    if (option := next((each for each in spec.options if each in told), None)) is not None:
        return "options", option
    return ("primary_key",) if "primary key" in told else ("partition_by",) if "partition" in told else ("columns",)
