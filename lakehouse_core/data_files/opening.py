"""Opening: choose the reader of a data file by the ending of its name.

Source: docs/format/data-files.md#file-formats.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from lakehouse_core.data_files.avro.reader import AvroFileReader
from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import TableSchema


class _Opener(Protocol):
    def __call__(
        self, store: FileOpener, key: str, entry: DataFile, schema: TableSchema, *, verify: bool
    ) -> DataFileReader: ...


def _orc(store: FileOpener, key: str, entry: DataFile, schema: TableSchema, *, verify: bool) -> DataFileReader:
    # Arrow's datasets, which read ORC, bring pandas along where it is installed: a fifth of an import of the core.
    from lakehouse_core.data_files.orc.reader import OrcFileReader  # noqa: PLC0415

    return OrcFileReader(store, key, entry, schema, verify=verify)


_READERS: Final[Mapping[str, _Opener]] = {"parquet": ParquetFileReader, "orc": _orc, "avro": AvroFileReader}


def open_data_file(
    store: FileOpener, folder: str, file: DataFile, schema: TableSchema, *, verify: bool
) -> DataFileReader:
    """Open a file that was written with `schema`.

    Raises UnsupportedFeature for a file of another format or outside the table. Raises CorruptTable for a missing file
    and for one that does not fit its manifest entry.
    """
    if file.external_path is not None:
        raise UnsupportedFeature(
            f"{file.file_name}: the file is outside the table, at {file.external_path}, which is not supported. "
            "Use Java Paimon."
        )
    opener = _READERS.get(file.format)
    if opener is None:
        raise UnsupportedFeature(
            f"{folder}/{file.file_name}: expected one of the formats {', '.join(_READERS)}. Use Java Paimon."
        )
    return opener(store, f"{folder}/{file.file_name}", file, schema, verify=verify)
