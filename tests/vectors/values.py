"""The values of `vectors.json` as comparable values and as Arrow columns."""

import json
import struct
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_core.format.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
)


@cache
def section(name: str) -> list[dict[str, Any]]:
    """Return the cases of one section that may be asserted."""
    cases = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))[name]
    return [case for case in cases if not case.get("skip")]


def comparable(value: Any, type_: DataType) -> Any:
    """Return the comparable value that a vector's JSON stands for."""
    if isinstance(value, dict):
        if "hex" in value:
            return bytes.fromhex(value["hex"])
        if "decimal" in value:
            return Decimal(value["decimal"])
        if "millis" in value:
            return value["millis"], value["nanos_of_milli"]
        return struct.unpack(">f" if "float" in value else ">d", bytes.fromhex(value["bits"]))[0]
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [comparable(part, element) for part in value]
        case MapType(key=key, value=inner):
            return [(comparable(k, key), comparable(v, inner)) for k, v in value]
        case MultisetType(element=element):
            return [(comparable(k, element), count) for k, count in value]
        case RowType(fields=fields):
            return tuple(comparable(part, field.type) for part, field in zip(value, fields, strict=True))
        case _:
            return value


def column(values: list[Any], type_: AtomicType) -> pa.Array:
    """Return comparable values as the Arrow column of their type. Raises OverflowError for what Arrow cannot hold."""
    arrow = arrow_type(type_)
    if type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        scale, per_unit = {"ms": (1, 10**6), "us": (10**3, 10**3), "ns": (10**6, 1)}[arrow.unit]
        ticks = [None if value is None else value[0] * scale + value[1] // per_unit for value in values]
        return pa.array(ticks, pa.int64()).cast(arrow)
    if type_.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.array(values, pa.int32()).cast(arrow)
    return pa.array(values, arrow)
