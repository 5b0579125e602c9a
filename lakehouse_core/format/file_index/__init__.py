"""Indexes of the rows of one data file: bytes and values, bloom filters, bitmaps, bit slices, range bitmaps."""

from lakehouse_core.format.file_index.bitmap_index import BitmapIndex, bitmap_index_bytes
from lakehouse_core.format.file_index.bloom_filter import MOST_BYTES, BloomFilter, GrowingBloomFilter, filter_size
from lakehouse_core.format.file_index.bsi_index import BsiIndex
from lakehouse_core.format.file_index.container import (
    PREFIX_BYTES,
    Directory,
    Place,
    body_of,
    checked,
    corrupt,
    head_length,
    parse_directory,
    serialize_container,
)
from lakehouse_core.format.file_index.distinct import DistinctValues, GrowingDistinctValues
from lakehouse_core.format.file_index.hashing import hash_column, hash_literal
from lakehouse_core.format.file_index.keys import Key, KeyForm, KeyRange, key_form, literal_key, successor
from lakehouse_core.format.file_index.kinds import (
    BITMAP,
    BLOOM_FILTER,
    BSI,
    RANGE_BITMAP,
    RowIndex,
    open_row_index,
    takes,
)
from lakehouse_core.format.file_index.range_bitmap_index import (
    RangeBitmapIndex,
    default_chunk_bytes,
    range_bitmap_bytes,
)

__all__ = [
    "BITMAP",
    "BLOOM_FILTER",
    "BSI",
    "MOST_BYTES",
    "PREFIX_BYTES",
    "RANGE_BITMAP",
    "BitmapIndex",
    "BloomFilter",
    "BsiIndex",
    "Directory",
    "DistinctValues",
    "GrowingBloomFilter",
    "GrowingDistinctValues",
    "Key",
    "KeyForm",
    "KeyRange",
    "Place",
    "RangeBitmapIndex",
    "RowIndex",
    "bitmap_index_bytes",
    "body_of",
    "checked",
    "corrupt",
    "default_chunk_bytes",
    "filter_size",
    "hash_column",
    "hash_literal",
    "head_length",
    "key_form",
    "literal_key",
    "open_row_index",
    "parse_directory",
    "range_bitmap_bytes",
    "serialize_container",
    "successor",
    "takes",
]
