"""Lookup progress: the keys of a lookup that are settled, because no remaining file can change their record.

Rule: when an engine keeps one version of a key whole, and only sequence numbers order the versions, the greatest number
wins (first-row: the smallest), and a file's entry gives the bounds of its numbers. Other engines search every file.
Source: docs/semantics/changelog.md#local-lookup-files.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.positions import Flags
from lakehouse_core.merge.reduce import BY_ROW
from lakehouse_core.options import MergeEngine
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.merge_spec import MergeSpec

_UNSETTLED: Final = np.iinfo(np.int64).min
_SETTLED: Final = np.iinfo(np.int64).max


class LookupProgress:
    """The progress of the search for some keys, numbered from 0.

    `holds_once`: no two files have the same key, so its first record settles it.
    """

    def __init__(self, spec: MergeSpec, key_count: int, *, holds_once: bool) -> None:
        self._holds_once = holds_once
        self._oldest_wins = spec.engine is MergeEngine.FIRST_ROW
        self._settles = holds_once or (spec.engine in BY_ROW and not spec.sequence_fields)
        # A record that the engine ignores settles nothing.
        self._adds_only = spec.ignore_delete or self._oldest_wins
        self._found = np.full(key_count, _UNSETTLED)

    def search_order(self, files: Sequence[DataFile]) -> list[int]:
        """Return the indices of the files, in an order that settles keys early."""
        return sorted(range(len(files)), key=lambda index: self._most(files[index]), reverse=True)

    def is_open(self, file: DataFile, start: int, stop: int) -> Flags:
        """Return a mask of the keys from `start` to `stop` for which a record of the file could count."""
        flags: Flags = self._found[start:stop] <= self._most(file)
        return flags

    def add(self, found: pa.RecordBatch, keys: Rows) -> None:
        """Record the found records for `keys`, each key once."""
        if not self._settles:
            return
        if self._holds_once:
            self._found[keys] = _SETTLED
            return
        numbers = fixed_values(found.column(SEQUENCE_NUMBER), np.int64)
        if self._adds_only:
            adds = is_add(fixed_values(found.column(VALUE_KIND), np.int8))
            numbers, keys = numbers[adds], keys[adds]
        self._found[keys] = np.maximum(self._found[keys], -numbers if self._oldest_wins else numbers)

    def _most(self, file: DataFile) -> int:
        """Return the highest rank that a record of the file can have; `add` records ranks."""
        if self._holds_once:
            return 0
        return -file.min_sequence_number if self._oldest_wins else file.max_sequence_number
