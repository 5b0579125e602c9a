"""Record fields: typed access to the fields of one manifest record.

Rule: a missing field is None; a field of a type that the format does not have raises CorruptTable.
"""

from typing import TypeVar

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.avro_file import Record
from lakehouse_core.format.stored import is_file_name

_T = TypeVar("_T")


class Fields:
    """The fields of one record. A wrong value raises CorruptTable, which names file, record and field."""

    __slots__ = ("_record", "_where")

    def __init__(self, record: Record, where: str) -> None:
        self._record = record
        self._where = where

    def integer(self, name: str, low: int = -(2**63)) -> int:
        value = self.optional_integer(name, low)
        if value is None:
            raise self.wrong(name, value, "an integer")
        return value

    def optional_integer(self, name: str, low: int = -(2**63)) -> int | None:
        value = self._record.get(name)
        if value is not None and (type(value) is not int or value < low):
            raise self.wrong(name, value, f"an integer from {low}")
        return value

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise self.wrong(name, value, "a string")
        return value

    def file_name(self, name: str) -> str:
        """Return the field as a plain file name. Raises CorruptTable for a name that could point outside its folder."""
        value = self.text(name)
        if not is_file_name(value):
            raise self.wrong(name, value, "a plain file name without a path")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._record.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value, "a string")
        return value

    def binary(self, name: str) -> bytes:
        value = self.optional_binary(name)
        if value is None:
            raise self.wrong(name, value, "bytes")
        return value

    def optional_binary(self, name: str) -> bytes | None:
        value = self._record.get(name)
        if value is not None and not isinstance(value, bytes):
            raise self.wrong(name, value, "bytes")
        return value

    def optional_list(self, name: str, item: type[_T]) -> tuple[_T, ...] | None:
        value = self._record.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(part) is item for part in value):
            raise self.wrong(name, value, f"a list of {item.__name__}")
        return tuple(value)

    def records(self, name: str) -> "tuple[Fields, ...] | None":
        value = self._record.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list of records")
        return tuple(self._inner(name, part) for part in value)

    def record(self, name: str) -> "Fields":
        return self._inner(name, self._record.get(name))

    def optional_record(self, name: str) -> "Fields | None":
        return None if self._record.get(name) is None else self.record(name)

    def null_counts(self, name: str) -> tuple[int | None, ...] | None:
        value = self._record.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(part is None or type(part) is int for part in value):
            raise self.wrong(name, value, "a list of counts")
        return tuple(value)

    def wrong(self, name: str, value: object, expected: str) -> CorruptTable:
        return CorruptTable(
            f"{self._where}: field {name} is {value!r:.100}, expected {expected}. Keep the file as evidence; "
            "restore it from a copy of the table, or read a snapshot that does not name it."
        )

    def _inner(self, name: str, value: object) -> "Fields":
        if not isinstance(value, dict):
            raise self.wrong(name, value, "a record")
        return Fields(value, f"{self._where}, {name}")
