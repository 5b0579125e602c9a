"""Faults: what is wrong with a specification, all of it at once.

Rule: a fault that may only follow from another one is not told.
"""

import difflib
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakehouse_dagster.specs.names import IDENTIFIER, nearest, part_fault
from lakehouse_dagster.specs.schema_fault import schema_faults
from lakehouse_dagster.specs.sources import DOTTED_NAME, SOURCES, TABLE_NAME, VARIABLE
from lakehouse_dagster.specs.strict import Misfit, SeveralMisfits
from lakehouse_dagster.specs.table import TableSpec

# Attributes that others are judged by: while one is wrong, no other is held against it.
_DECIDING: Final = {
    *SOURCES,
    *("columns", "primary_key", "partition_by", "write_mode", "rowkind_column", "partitions", "commit", "ingest"),
}
# What is judged by itself: whether such a table can be created.
_OF_THE_TABLE: Final = ("columns", "primary_key", "partition_by", "options")
_STAND_INS: Final = {"database": "a", "name": "a", "comment": ""}
# What pydantic's kinds of faults expect.
_EXPECTED: Final = {
    "string_type": "a text",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_too_short": "a text that is not empty",
}
# Attributes of several types, and how pydantic names these in the place of a fault.
_OF_SEVERAL_TYPES: Final = (("function", "call"),)
_TYPES: Final = ("constrained-str", "callable")
_PATTERNS: Final = {
    IDENTIFIER: "letters, digits and '_', a letter first",
    VARIABLE: "the name of an environment variable, such as SHOP_DATABASE; a file never has the address itself",
    DOTTED_NAME: "the dotted name of a function, such as shop.rows.orders",
    TABLE_NAME: "the name of a table with its database, such as sales.orders",
}


def checked(content: object) -> tuple[TableSpec | None, Sequence[Misfit]]:
    """Return the specification of `content`, or None and all that is wrong with it."""
    spec, faults, details = _model(content)
    if spec is None and isinstance(content, Mapping):
        content = _renamed(content, details)
        if (mended := _mended(content, details)) is not None:
            spec, others, _ = _model(mended)
            faults += others if spec is not None else []
        spec = spec or _table_alone(content)
    if spec is not None:
        places = [fault.place for fault in faults]
        faults += [fault for fault in schema_faults(spec) if fault.place not in places]
    return (None if faults else spec), faults


def _model(content: object) -> tuple[TableSpec | None, list[Misfit], list[ErrorDetails]]:
    """Return the specification where each attribute is right by itself, with what does not fit together; else what is
    wrong with single attributes, also as pydantic tells it.
    """
    try:
        return TableSpec.model_validate(content), [], []
    except ValidationError as error:
        details = error.errors()
    for detail in details:
        if isinstance(found := detail.get("ctx", {}).get("error"), SeveralMisfits):
            assert isinstance(found.model, TableSpec)
            return found.model, list(found.faults), []
    meant = {(*detail["loc"][:-1], _meant(detail)) for detail in details if detail["type"] == "extra_forbidden"}
    # An attribute under another name is not missing; of the name of a function, the fault of its text says enough.
    told = [detail for detail in details if detail["type"] != "callable_type"]
    told = [detail for detail in told if detail["type"] != "missing" or detail["loc"] not in meant]
    return None, [_fault(detail) for detail in told], details


def _meant(detail: ErrorDetails) -> str | None:
    """Return the attribute that an unknown name resembles most; None if there is none."""
    place = _place(detail)
    return next(iter(difflib.get_close_matches(place[-1], _fields_at(place[:-1]), n=1)), None)


def _renamed(content: Mapping[Any, Any], details: Sequence[ErrorDetails]) -> Mapping[Any, Any]:
    """Return the content with unknown attributes under the name that was meant, or without them."""
    found = dict(content)
    for detail in details:
        if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
            value = found.pop(detail["loc"][0], None)
            if (meant := _meant(detail)) is not None:
                found.setdefault(meant, value)
    return found


def _mended(content: Mapping[Any, Any], details: Sequence[ErrorDetails]) -> Mapping[Any, Any] | None:
    """Return the content without its wrong attributes; None if others are judged by one of these."""
    wrong = {str(detail["loc"][0]) for detail in details if detail["loc"]}
    if wrong & _DECIDING:
        return None
    return {**_STAND_INS, **{name: value for name, value in content.items() if name not in wrong}}


def _table_alone(content: Mapping[Any, Any]) -> TableSpec | None:
    """Return a specification with the columns, keys and options of `content`, None if one of these is wrong."""
    parts = {name: content[name] for name in _OF_THE_TABLE if name in content}
    mode = "upsert" if parts.get("primary_key") else "append"
    spec, _, _ = _model({**_STAND_INS, **parts, "write_mode": mode, "files": {"path": "a"}})
    return spec


def _fault(detail: ErrorDetails) -> Misfit:
    """Return what pydantic tells of one attribute in the words of the other faults."""
    kind = detail["type"]
    context = detail.get("ctx", {})
    place = _place(detail)
    name = ".".join(place)
    if isinstance(cause := context.get("error"), Misfit):
        return Misfit((*place, *cause.place), str(cause))
    if kind == "extra_forbidden":
        return Misfit(place, f"{name} is not known{nearest(place[-1], _fields_at(place[:-1]))}")
    if kind == "missing":
        return Misfit(place, f"{name} is missing")
    if kind == "string_pattern_mismatch" and (fault := part_fault(str(detail["input"]))) is not None:
        return Misfit(place, f"{name}: {fault}")
    expected = _EXPECTED.get(kind)
    if kind == "literal_error":
        expected = str(context["expected"])
    elif kind == "string_pattern_mismatch":
        expected = _PATTERNS.get(str(context["pattern"]))
    if expected is None:
        told = detail["msg"].removeprefix("Value error, ")
        return Misfit(place, f"{name}: {told}" if name else told)
    found = "" if place[0] == "sql" else f"found {_found(detail['input'], expected)}, "
    return Misfit(place, f"{name}: {found}expected {expected}")


def _place(detail: ErrorDetails) -> tuple[str, ...]:
    """Return the place of a fault without what pydantic adds: that the key of a mapping is meant, and which of several
    types of an attribute.
    """
    place = tuple(map(str, detail["loc"]))
    if place[:-1] in _OF_SEVERAL_TYPES and place[-1] in _TYPES:
        return place[:-1]
    return place[:-1] if place[1:] and place[-1] == "[key]" and detail["type"] != "extra_forbidden" else place


def _found(value: object, expected: str) -> str:
    """Return a value for a message; what may have a password, as addresses and several values may, by its kind."""
    if isinstance(value, str):
        return "an address" if "://" in value else "a text" if expected == "a mapping" else reprlib.repr(value)
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else reprlib.repr(value)


def _fields_at(place: Sequence[str]) -> Mapping[str, Any]:
    """Return the fields of the model that a fault lies in."""
    model: type[BaseModel] = TableSpec
    for part in place:
        field = model.model_fields.get(part)
        model = model if field is None else _model_in(field.annotation) or model
    return model.model_fields


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation has, also where it is optional or the value of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
