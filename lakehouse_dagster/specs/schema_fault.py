"""Schema fault: what the core would refuse of the table of a specification, told when the specification is read.

Rule: options that the resource of the lake adds are not known here, so nothing is refused that they may mend.
"""

import re
from collections.abc import Mapping, Sequence

import lakehouse_core as lc
from lakehouse_dagster.specs.strict import Misfit
from lakehouse_dagster.specs.table import TableSpec


def schema_faults(spec: TableSpec) -> Sequence[Misfit]:
    """Return why a table like this cannot be created, none if it can."""
    # Columns that stand for others: keys without a column are told by the specification.
    replaced = {*spec.primary_key, *spec.partition_by} - {*spec.columns}
    columns = {**{name: column.type for name, column in spec.columns.items()}, **dict.fromkeys(replaced, "STRING")}
    options = {**_buckets(spec), **spec.options}
    faults: list[Misfit] = []
    # Beside a partition column that stands for another one, the key has what it needs.
    beside = [name for name in spec.partition_by if name in replaced and spec.primary_key]
    keys = [*spec.primary_key, *(name for name in beside if name not in spec.primary_key)]
    while (fault := _fault(spec, columns, keys, options)) is not None:
        told = str(fault)
        if not any(re.search(rf"\b{name}\b", told) for name in replaced):
            faults.append(fault)
        match fault.place:
            case ("columns", name) if name not in replaced:
                columns[name] = "STRING"
                replaced.add(name)
            case ("options", name) if name in options:
                del options[name]
            case _:
                break
    return faults


def _fault(
    spec: TableSpec, columns: Mapping[str, str], keys: Sequence[str], options: Mapping[str, str]
) -> Misfit | None:
    try:
        lc.declared_schema(
            columns,
            partition_keys=list(spec.partition_by),
            primary_keys=keys,
            options=options,
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
    # The longest one: `bucket` is a part of other names.
    if (option := max((each for each in spec.options if each in told), key=len, default=None)) is not None:
        return "options", option
    return ("primary_key",) if "primary key" in told else ("partition_by",) if "partition" in told else ("columns",)
