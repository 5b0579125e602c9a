"""System tables of both sides, as lists of text that can be compared."""

import json
import re
from collections.abc import Iterable
from typing import Any

import lakehouse_core as lc
from lakehouse_core.api.system.columns import SYSTEM_COLUMNS
from lakehouse_core.format.data_types import ArrayType, DataField, parse_type
from tests.interop.values import Row, canonical, java_rows

OF_METADATA = tuple(SYSTEM_COLUMNS)
OF_ROWS = ("audit_log", "binlog", "ro")
# What Java prints for bytes is an address in its memory; we print the bytes.
_ADDRESS = re.compile(r"\\\[B@[0-9a-f]+")


def our_rows(table: lc.Table, name: str, **options: str) -> list[Row]:
    """Return the rows of a system table as the judge prints them."""
    return java_rows(table.system(name, options=options).to_arrow(), _fields(table, name))


def _fields(table: lc.Table, name: str) -> list[DataField]:
    if name in SYSTEM_COLUMNS:
        return list(SYSTEM_COLUMNS[name])
    fields = list(table.schema.fields)
    if name == "binlog":
        fields = [DataField(field.id, field.name, ArrayType(field.type)) for field in fields]
    return fields if name == "ro" else [DataField(-1, "rowkind", parse_type("STRING")), *fields]


def differences(java: Iterable[Row], ours: Iterable[Row], name: str) -> list[Any]:
    """Return what Java tells and we do not, and the other way round."""
    told, found = canonical(map(_comparable(name), java)), canonical(map(_comparable(name), ours))
    for text in told:
        pattern = re.compile(_ADDRESS.sub("[0-9a-f]*", re.escape(text)))
        match = next((other for other in found if pattern.fullmatch(other)), None)
        if match is None:
            return ["only Java", text, "we", found]
        found.remove(match)
    return found


def _comparable(name: str) -> Any:
    def comparable(row: Row) -> Row:
        # The order of options is that of a hash table in Java.
        if name == "schemas":
            return row | {"options": json.loads(row["options"])}
        # A folder's time on disk, of which stores of objects know nothing.
        return row | {"create_time": None} if name == "branches" else row

    return comparable
