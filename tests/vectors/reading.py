"""The reference vectors as values of ours."""

import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakehouse_core.format.data_types import ArrayType, AtomicType, DataType, MapType, MultisetType, Root, RowType

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def cases(section: str) -> list[dict[str, Any]]:
    """Return the cases of a section but those that document a quirk."""
    return [case for case in VECTORS[section] if not case.get("skip")]


def comparable(value: Any, data_type: DataType) -> Any:
    """Return the comparable value of a value as the vectors write it."""
    match data_type, value:
        case _, None:
            return None
        case AtomicType(Root.CHAR | Root.VARCHAR), str():
            return value
        case _, {"hex": text}:
            return bytes.fromhex(text)
        case _, {"decimal": text}:
            return Decimal(text)
        case _, {"bits": bits}:
            return struct.unpack(">f" if len(bits) == 8 else ">d", bytes.fromhex(bits))[0]
        case _, {"millis": millis, "nanos_of_milli": nanos}:
            return millis, nanos
        case ArrayType(element), list():
            return tuple(comparable(item, element) for item in value)
        case MapType(key, item), list():
            return tuple((comparable(k, key), comparable(v, item)) for k, v in value)
        case MultisetType(element), list():
            return tuple((comparable(k, element), count) for k, count in value)
        case RowType(fields), list():
            return tuple(comparable(item, field.type) for item, field in zip(value, fields, strict=True))
    return value
