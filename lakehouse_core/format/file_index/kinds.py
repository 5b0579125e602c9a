"""The kinds of index: their names in containers, the types they take, and how each is opened.

Source: docs/format/file-index.md#container; the types are those that Java 2.0.0 takes.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from pyroaring import BitMap

from lakehouse_core.format.data_types import AtomicType, DataType, TypeRoot
from lakehouse_core.format.file_index.bitmap_index import BitmapIndex
from lakehouse_core.format.file_index.bsi_index import BsiIndex
from lakehouse_core.format.file_index.hashing import is_hashed
from lakehouse_core.format.file_index.keys import KeyForm, KeyRange, key_form
from lakehouse_core.format.file_index.range_bitmap_index import RangeBitmapIndex

# Stored in every container. Never change.
BLOOM_FILTER: Final = "bloom-filter"
BITMAP: Final = "bitmap"
BSI: Final = "bsi"
RANGE_BITMAP: Final = "range-bitmap"

_NOT_SLICED: Final = frozenset({TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.CHAR, TypeRoot.VARCHAR})


class RowIndex(Protocol):
    """An index that knows the rows of each value."""

    row_count: int

    def non_null(self) -> BitMap:
        """Return the rows that have a value. Raises CorruptTable."""
        ...

    def rows_in(self, ranges: Sequence[KeyRange]) -> BitMap:
        """Return the rows whose key lies in one of the ranges. Raises CorruptTable."""
        ...


_ROW_INDEXES: Final[dict[str, type[BitmapIndex] | type[BsiIndex] | type[RangeBitmapIndex]]] = {
    BITMAP: BitmapIndex,
    BSI: BsiIndex,
    RANGE_BITMAP: RangeBitmapIndex,
}


def takes(kind: str, data_type: DataType) -> bool:
    """Return whether an index of this kind can hold a column of the type."""
    if kind == BLOOM_FILTER:
        return is_hashed(data_type)
    form = key_form(data_type)
    if form is None or not isinstance(data_type, AtomicType) or kind not in _ROW_INDEXES:
        return False
    match kind:
        case "bitmap":
            return data_type.root is not TypeRoot.DECIMAL
        case "bsi":
            return data_type.root not in _NOT_SLICED
        case _:
            return form.is_exact


def open_row_index(kind: str, body: bytes, form: KeyForm, what: str) -> RowIndex | None:
    """Return the index, None for a kind that knows no rows. Raises CorruptTable, UnsupportedFeature."""
    opened = _ROW_INDEXES.get(kind)
    return None if opened is None else opened(body, form, what)
