"""Opens a data file by what its name ends with. Source: docs/format/data-files.md#file-formats."""

from collections.abc import Mapping
from typing import Final, Protocol

from lakehouse_core.data_files.avro.reader import AvroFileReader
from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import TableSchema


class _Opener(Protocol):
    def __call__(
        self, store: StoreReader, key: str, entry: DataFile, schema: TableSchema, *, verify: bool
    ) -> DataFileReader: ...


def _orc(store: StoreReader, key: str, entry: DataFile, schema: TableSchema, *, verify: bool) -> DataFileReader:
    # Arrow's datasets, which read ORC, bring pandas along where it is installed: a fifth of an import of the core.
    from lakehouse_core.data_files.orc.reader import OrcFileReader  # noqa: PLC0415

    return OrcFileReader(store, key, entry, schema, verify=verify)


_READERS: Final[Mapping[str, _Opener]] = {"parquet": ParquetFileReader, "orc": _orc, "avro": AvroFileReader}


def open_data_file(
    store: StoreReader, folder: str, file: DataFile, schema: TableSchema, *, verify: bool
) -> DataFileReader:
    """Open a file that was written with `schema`.

    Raises UnsupportedFeature for a file of another format or one that lies elsewhere, CorruptTable for one that is gone
    or is not what its manifest entry says.
    """
    if file.external_path is not None:
        raise UnsupportedFeature(
            f"{file.file_name}: it lies outside the table, at {file.external_path}: use Java Paimon."
        )
    opener = _READERS.get(file.format)
    if opener is None:
        raise UnsupportedFeature(
            f"{folder}/{file.file_name}: data files of {', '.join(_READERS)} are read: use Java Paimon."
        )
    return opener(store, f"{folder}/{file.file_name}", file, schema, verify=verify)
