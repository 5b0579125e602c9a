"""Row output: rows into the files and pipes of users.

Rule: a file gets its name when it is complete.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.cli.output import csv_rows, json_rows
from lakehouse_core.errors import InvalidRequest, StorageUnavailable
from lakehouse_core.row_files.csv_records import record_line
from lakehouse_core.row_files.row_format import PIPE, RowFormat, suffixes

Sink = Callable[[pa.RecordBatch], None]


def open_sink(file: Path, schema: pa.Schema, form: RowFormat) -> AbstractContextManager[Sink]:
    """Return a function that writes batches of `schema` to the file or pipe. Raises InvalidRequest."""
    name = form.of(file)
    if file == PIPE:
        return _sink(name, _Pipe(sys.stdout.buffer), schema, form, as_stream=True)
    if suffixes(file)[1]:
        raise InvalidRequest(f"{file}: a .gz file can be read, but not written. Remove .gz from the name.")
    return _whole(file, name, schema, form)


@contextmanager
def _whole(file: Path, name: str, schema: pa.Schema, form: RowFormat) -> Iterator[Sink]:
    """The file gets its name when it is complete."""
    partial = file.with_name(f".{file.name}.part")
    try:
        with partial.open("wb") as target, _sink(name, target, schema, form) as write:
            yield write
        partial.replace(file)
    except OSError as error:
        has_folder = not isinstance(error, FileNotFoundError | NotADirectoryError)
        advice = "" if has_folder else " Name a file in a folder that exists."
        raise StorageUnavailable(f"{file}: cannot be written ({error.strerror or error}).{advice}") from error
    finally:
        # Where the folder is none, there is nothing to take away.
        with suppress(OSError):
            partial.unlink()


class _Pipe(io.RawIOBase):
    """Standard output for writers that ask where they are and close what they wrote to."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._target.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        if not self.closed:
            self._target.flush()


@contextmanager
def _sink(
    name: str, target: IO[bytes] | _Pipe, schema: pa.Schema, form: RowFormat, *, as_stream: bool = False
) -> Iterator[Sink]:
    def put(text: str) -> None:
        target.write(text.encode())

    match name:
        case "parquet":
            with pq.ParquetWriter(target, schema, compression="zstd") as parquet:
                yield parquet.write_batch
        case "arrow":
            make = pa.ipc.new_stream if as_stream else pa.ipc.new_file
            with make(target, schema) as arrow:
                yield arrow.write_batch
        case "csv" | "tsv":
            style = form.csv(name)
            put(record_line(schema.names, style))
            yield lambda batch: put("".join(record_line(row, style) for row in csv_rows(batch)))
        case "json":
            begun = False

            def write(batch: pa.RecordBatch) -> None:
                nonlocal begun
                put(
                    "".join(
                        (",\n" if begun or number else "[\n") + _json_text(row)
                        for number, row in enumerate(json_rows(batch))
                    )
                )
                begun = begun or batch.num_rows > 0

            yield write
            put("\n]\n" if begun else "[]\n")
        case _:
            yield lambda batch: put("".join(_json_text(row) + "\n" for row in json_rows(batch)))
    target.flush()


def _json_text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))
