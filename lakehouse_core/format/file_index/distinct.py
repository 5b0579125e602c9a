"""The distinct values of a column and the rows of each, gathered while a file is written.

Takes four bytes a row, and each distinct value of a batch of rows once.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakehouse_core.format.file_index.keys import Key, KeyForm, column_keys
from lakehouse_core.format.file_index.roaring import rows_where


class DistinctValues:
    """`keys`: the distinct ones, sorted. `codes`: of each row the index of its key, -1 for null."""

    def __init__(self, keys: list[Key], codes: npt.NDArray[np.int32]) -> None:
        self.keys = keys
        self.codes = codes

    @property
    def row_count(self) -> int:
        return len(self.codes)

    def null_rows(self) -> BitMap:
        return rows_where(self.codes < 0)

    def rows(self) -> Iterator[BitMap]:
        """Yield the rows of each key, in the order of the keys."""
        order = np.argsort(self.codes, kind="stable").astype(np.uint32)
        bounds = np.searchsorted(self.codes[order], np.arange(len(self.keys) + 1))
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield BitMap(order[start:end])


class GrowingDistinctValues:
    """The distinct values of the rows of a file, which come in their order; `distinct` gives those so far."""

    def __init__(self, form: KeyForm) -> None:
        self._form = form
        self._arrow = pa.binary() if form.is_text else pa.int64()
        self._chunks: list[pa.DictionaryArray] = []

    def add(self, column: pa.Array) -> None:
        keys = column_keys(column, self._form)
        self._chunks.append(keys.dictionary_encode())

    def distinct(self) -> DistinctValues:
        kind = pa.dictionary(pa.int32(), self._arrow)
        unified = pa.chunked_array(self._chunks, kind).unify_dictionaries()
        if not unified.num_chunks or not len(unified):
            return DistinctValues([], np.zeros(0, np.int32))
        dictionary = unified.chunk(0).dictionary
        order = pc.array_sort_indices(dictionary).to_numpy()
        ranks = np.empty(len(order) + 1, np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        ranks[-1] = -1
        codes = [chunk.indices.fill_null(len(order)).to_numpy(zero_copy_only=False) for chunk in unified.chunks]
        return DistinctValues(dictionary.take(pa.array(order)).to_pylist(), ranks[np.concatenate(codes)])
