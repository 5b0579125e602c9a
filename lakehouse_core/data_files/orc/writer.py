"""ORC writer: write one ORC data file, stripe by stripe, with Java's type attributes.

Rule: a value that the file would not return unchanged is refused, naming its column. Source:
docs/format/data-files.md#orc.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakehouse_core.data_files.bounds import ObservedBounds
from lakehouse_core.data_files.checksummed_file import ChecksummedFile
from lakehouse_core.data_files.file_name import file_name_of
from lakehouse_core.data_files.orc.checksum import OrcChecksum
from lakehouse_core.data_files.written_file import RowFacts, WrittenFile
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import type_to_sql
from lakehouse_core.format.orc_types import fitted, has_bounded_text, orc_field
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.file_columns import file_columns
from lakehouse_core.table.schema import TableSchema

_COMPRESSIONS: Final = {"none": "uncompressed"}
# zstd at level 1, which is Paimon's default, and at level 3.
_STRATEGIES: Final = {1: "speed", 3: "compression"}
_DICTIONARY_KEY_SHARE: Final = 0.8  # Of distinct values, up to which Java's writer keeps a dictionary.
_TICKS_PER_SECOND: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class OrcFileWriter:
    """One file that is being written. End it with `close` or `abort`."""

    def __init__(self, store: Sinks, key: str, schema: TableSchema, compression: str, *, stripe_bytes: int) -> None:
        self._columns = file_columns(schema)
        self._schema = pa.schema([orc_field(field) for field in self._columns.schema])
        self._texts = [field for field in schema.fields if has_bounded_text(field.type)]
        deciding = (
            schema.primary_keys,
            schema.partition_keys,
            schema.bucket_keys,
            schema.table_options.sequence_fields,
        )
        self._key_names = frozenset(name for names in deciding for name in names)
        self._facts = RowFacts(schema)
        self._bounds = ObservedBounds(schema.fields)
        self._file = ChecksummedFile(
            store,
            key,
            OrcChecksum(file_name_of(key)),
            lambda sink: orc.ORCWriter(
                sink,
                compression=_COMPRESSIONS.get(compression, compression),
                compression_strategy=_STRATEGIES.get(schema.table_options.zstd_level, "speed"),
                stripe_size=stripe_bytes,
                dictionary_key_size_threshold=_DICTIONARY_KEY_SHARE,
            ),
        )

    @property
    def row_count(self) -> int:
        return self._facts.row_count

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without those of the unfinished stripe."""
        return self._file.size_bytes

    def write(self, records: pa.Table) -> pa.Table:
        """Write rows, at least one, that follow the earlier ones in key order; return them as readers find them.

        Raises UnsupportedFeature naming a column with a time or a key that ORC would change.
        """
        for field in self._texts:
            column = records.column(field.name)
            plain = pa.chunked_array([fitted(chunk, field.type) for chunk in column.chunks], column.type)
            if field.name in self._key_names and not plain.equals(column):
                raise UnsupportedFeature(
                    f"Column {field.name} decides on place or order of rows, and has a text that ends with a "
                    f"blank or is longer than {type_to_sql(field.type)}, which ORC would cut. Write shorter "
                    "texts, or set file.format to parquet."
                )
            position = records.schema.get_field_index(field.name)
            records = records.set_column(position, records.schema.field(position), plain)
        for name in records.column_names:
            for chunk in records.column(name).chunks:
                _check_times(chunk, name)
        self._facts.observe(records)
        self._bounds.observe(records)
        arrays = [records.column(source) for source in self._columns.sources]
        stored = [array.cast(field.type) for array, field in zip(arrays, self._schema, strict=True)]
        with self._file.filling() as writer:
            writer.write(pa.Table.from_arrays(stored, schema=self._schema))
        return records

    def close(self) -> WrittenFile:
        """Write the tail and publish the file."""
        return self._facts.written(self._file.finish(), self._bounds.bounds())

    def abort(self, error: BaseException) -> None:
        """Discard the file, which then never appears."""
        self._file.abandon(error)


def _check_times(array: pa.Array, column: str) -> None:
    """Raise UnsupportedFeature for a time before 1970 with a fraction of a second, at any depth.

    ORC counts seconds from 2015 and nanoseconds apart from them, and its writers disagree about those before 1970:
    Java refuses to read what Arrow writes, and itself moves times of the last second by one.
    """
    kind = array.type
    if pa.types.is_timestamp(kind):
        ticks = array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        lost = (ticks < 0) & (ticks % _TICKS_PER_SECOND[kind.unit] != 0)
        if lost.any():
            shown = pa.scalar(int(ticks[int(np.argmax(lost))]), pa.int64()).cast(pa.timestamp(kind.unit))
            raise UnsupportedFeature(
                f"Column {column} holds {shown.cast(pa.string())}: ORC files cannot store a time before 1970 with "
                "a fraction of a second. Set file.format to parquet."
            )
    elif pa.types.is_list(kind):
        _check_times(array.flatten(), column)
    elif pa.types.is_map(kind):
        _check_times(array.keys, column)
        _check_times(array.items, column)
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            _check_times(part, column)
