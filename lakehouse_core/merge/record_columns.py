"""Record columns: the records of one merge, as columns by name. Source: docs/format/data-files.md#columns-and-order."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakehouse_core.merge.actions import Kinds
from lakehouse_core.merge.key_words import fixed_values


class RecordColumns:
    """Concatenated batches; columns that order the rows are joined once and cached."""

    def __init__(self, batches: Sequence[pa.RecordBatch], kind_column: str) -> None:
        self._batches = batches
        self.kind_column = kind_column
        self._joined: dict[str, pa.Array] = {}
        self.row_count = sum(batch.num_rows for batch in batches)

    def __contains__(self, name: str) -> bool:
        return name in self._batches[0].schema.names

    @property
    def kinds(self) -> Kinds:
        """The kind of each row: 0 +I, 1 -U, 2 +U, 3 -D."""
        kinds: Kinds = fixed_values(self.column(self.kind_column), np.int8)
        return kinds

    def column(self, name: str) -> pa.Array:
        """Return a column, joined and cached."""
        if name not in self._joined:
            self._joined[name] = self._join(name)
        return self._joined[name]

    def passing(self, name: str) -> pa.Array:
        """Return a joined column without caching it, so that the next column may use the same memory, which is in the
        processor's cache.
        """
        column = self._joined.get(name)
        return self._join(name) if column is None else column

    def _join(self, name: str) -> pa.Array:
        if len(self._batches) == 1:
            return self._batches[0].column(name)
        return pa.concat_arrays([batch.column(name) for batch in self._batches])
