"""Sorted runs: files in key order with disjoint key ranges. Source: docs/semantics/compaction.md#levels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan, nan
from typing import Any, TypeAlias

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import deserialize_row, whole_number_rows
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import DataFile

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedFile:
    """A data file of a key table with its exact key range, both ends included, as tuples that Python compares."""

    file: DataFile
    min_key: Key
    max_key: Key


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files in key order, disjoint; never empty."""

    files: tuple[KeyedFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(keyed.file.file_size for keyed in self.files)

    @property
    def row_count(self) -> int:
        return sum(keyed.file.row_count for keyed in self.files)

    @property
    def min_key(self) -> Key:
        return self.files[0].min_key

    @property
    def max_key(self) -> Key:
        return self.files[-1].max_key

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        return tuple(keyed.file for keyed in self.files)


def key_values(key: Key) -> Key:
    """Return the values of a key in a `KeyedFile` as they are stored."""
    # A timestamp is a pair that begins with a number, a comparable float a pair that begins with a flag.
    return tuple(
        (nan if value[0] else value[1]) if isinstance(value, tuple) and isinstance(value[0], bool) else value
        for value in key
    )


def keyed_files(files: Iterable[DataFile], key_types: Sequence[DataType]) -> tuple[KeyedFile, ...]:
    """Return the files with their decoded key ranges. Raises CorruptTable if one cannot be decoded, or ends before it
    begins.
    """
    types = tuple(key_types)
    numbers = whole_number_rows(types)
    return tuple(_keyed(file, types, numbers) for file in files)


def _keyed(
    file: DataFile, key_types: tuple[DataType, ...], numbers: Callable[[bytes], tuple[int, ...] | None]
) -> KeyedFile:
    try:
        low = numbers(file.min_key) or _key(file.min_key, key_types)
        high = numbers(file.max_key) or _key(file.max_key, key_types)
    except CorruptTable as error:
        raise CorruptTable(f"{file.file_name}: its smallest or greatest key cannot be decoded: {error}") from error
    if low > high:
        raise CorruptTable(
            f"{file.file_name}: its smallest key {low} is greater than its greatest key {high}. "
            "Do not compact or expire; run `lakehouse verify` and keep its report."
        )
    return KeyedFile(file, low, high)


# The files of a bucket are looked at several times while it is planned.
@lru_cache(maxsize=4096)
def _key(data: bytes, key_types: tuple[DataType, ...]) -> Key:
    return _comparable(deserialize_row(data, key_types))


def _comparable(key: Key) -> Key:
    """Return the key with floats as pairs, so that NaN equals itself and is last, as in a merge."""
    if not any(isinstance(value, float) for value in key):
        return key
    return tuple(
        ((True, 0.0) if isnan(value) else (False, value)) if isinstance(value, float) else value for value in key
    )
