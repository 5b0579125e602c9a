"""Usual schema: the check whether the vectorised decoder can read a manifest, by the types of its known fields.

Rule: only the encoding of a type counts, not its name, default or logical type.
"""

from collections.abc import Mapping
from typing import Any

from lakehouse_core.table.manifest.avro_schemas import MANIFEST_SCHEMA_2_1


def is_usual(schema: Mapping[str, Any]) -> bool:
    """Return whether each known field has its known type; other fields do not matter."""
    found = _types(schema)
    return all(found.get(path, type_) == type_ for path, type_ in USUAL_TYPES.items()) and set(found) >= _REQUIRED


def _types(schema: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    types: dict[str, Any] = {}
    for field in schema.get("fields", ()):
        if not isinstance(field, dict):
            continue
        path, type_ = f"{prefix}{field.get('name')}", field.get("type")
        types[path] = _plain(type_)
        if path == "_FILE" and isinstance(type_, dict):
            types |= _types(type_, "_FILE.")
            types[path] = "record"
    return types


def _plain(type_: Any) -> Any:
    """Return a type without parts that do not change its encoding: names, defaults, logical types."""
    match type_:
        case [*branches]:
            return tuple(_plain(branch) for branch in branches)
        case {"type": "record", "fields": [*inner]}:
            return tuple((field.get("name"), _plain(field.get("type"))) for field in inner if isinstance(field, dict))
        case {"type": "array", "items": items}:
            return "array", _plain(items)
        case {"type": str(word)}:
            return word
    return type_ if isinstance(type_, str) else None


USUAL_TYPES = _types(MANIFEST_SCHEMA_2_1)
_REQUIRED = frozenset(
    path for path, type_ in USUAL_TYPES.items() if not (isinstance(type_, tuple) and type_[0] == "null")
)
