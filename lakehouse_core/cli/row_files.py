"""Rows in files that users bring or take away: Parquet, CSV, JSON lines, Arrow.

Whatever the format, columns go by name and values by the table's types: CSV and JSON hold text that is read as such.
"""

import base64
import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.cli.output import json_rows, text_rows
from lakehouse_core.errors import InvalidRequest, StorageUnavailable
from lakehouse_core.execution.input import input_batches
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
    atomic_parts,
)
from lakehouse_core.table.changes import Missing

_CHUNK_ROWS: Final = 65_536
# Python's own limit is 128 KB, less than a text may hold; a quote that is never closed shall still end somewhere.
_LONGEST_FIELD: Final = 1 << 28

Sink = Callable[[pa.RecordBatch], None]


def read_files(
    files: Sequence[Path], fields: Sequence[DataField], *, rowkind_column: str | None, missing: Missing = "null"
) -> pa.RecordBatchReader:
    """Return the rows of all files, one after the other, as the table's columns. Raises InvalidRequest per file."""
    columns = [pa.field(field.name, arrow_type(field.type)) for field in fields]
    if rowkind_column is not None and all(field.name != rowkind_column for field in fields):
        columns.append(pa.field(rowkind_column, pa.string()))
    readers = [(file, _reader(file)) for file in files]
    return pa.RecordBatchReader.from_batches(pa.schema(columns), _rows_of(readers, fields, rowkind_column, missing))


def _rows_of(
    readers: Iterable[tuple[Path, Callable[[Path], Iterator[object]]]],
    fields: Sequence[DataField],
    rowkind_column: str | None,
    missing: Missing,
) -> Iterator[pa.RecordBatch]:
    binaries = [field for field in fields if any(part.root in BINARY_ROOTS for part in atomic_parts(field.type))]
    for file, read in readers:
        row_count = 0
        try:
            for data in read(file):
                rows = _with_binaries(data, binaries, row_count) if binaries and isinstance(data, list) else data
                for batch in input_batches(
                    rows, fields, rowkind_column=rowkind_column, missing=missing, first_row=row_count
                ):
                    row_count += batch.num_rows
                    yield batch
        except InvalidRequest as error:
            raise InvalidRequest(f"{file}: {error}") from error
        except (pa.ArrowException, ValueError, EOFError, csv.Error, gzip.BadGzipFile, zlib.error) as error:
            raise InvalidRequest(f"{file}: it cannot be read as {''.join(_suffixes(file))} ({error}).") from error
        except OSError as error:
            raise InvalidRequest(f"{file}: it cannot be read ({error.strerror or error}).") from error


def _with_binaries(rows: list[dict[str, Any]], fields: Sequence[DataField], first_row: int) -> list[dict[str, Any]]:
    """Read base64, which text files have for binaries, in place."""
    for number, row in enumerate(rows, first_row):
        for field in fields:
            try:
                if row.get(field.name) is not None:
                    row[field.name] = _unpacked(row[field.name], field.type)
            except ValueError as error:
                raise InvalidRequest(
                    f"Row {number}, column {field.name!r}: binaries are base64 in text files, this is none ({error})."
                ) from error
    return rows


def _unpacked(value: Any, data_type: DataType) -> Any:
    match data_type, value:
        case AtomicType(), str() if data_type.root in BINARY_ROOTS:
            return base64.b64decode(value, validate=True)
        case ArrayType(element), list():
            return [_unpacked(item, element) for item in value]
        case ((MapType() | MultisetType()), list()) if not all(
            isinstance(pair, list) and len(pair) == 2 for pair in value
        ):
            return value
        case MapType(key, item_type), list():
            return [[_unpacked(k, key), _unpacked(v, item_type)] for k, v in value]
        case MapType(_, item_type), dict():
            return {key: _unpacked(item, item_type) for key, item in value.items()}
        case MultisetType(element), list():
            return [[_unpacked(item, element), count] for item, count in value]
        case RowType(parts), dict():
            types = {part.name: part.type for part in parts}
            return {name: _unpacked(item, types[name]) if name in types else item for name, item in value.items()}
    return value


def _reader(file: Path) -> Callable[[Path], Iterator[object]]:
    readers: Mapping[str, Callable[[Path], Iterator[object]]] = {
        ".parquet": _parquet,
        ".csv": _csv,
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".arrow": _arrow,
    }
    suffix = _suffixes(file)[0]
    if suffix not in readers:
        raise InvalidRequest(f"{file}: its name ends with none of {', '.join(readers)}: rename or convert it.")
    if not file.is_file():
        raise InvalidRequest(f"{file}: there is no such file.")
    return readers[suffix]


def _suffixes(file: Path) -> tuple[str, str]:
    """Return the format's suffix, and ".gz" behind it or nothing."""
    name = file.name.lower()
    packed = ".gz" if name.endswith(".gz") else ""
    return Path(name.removesuffix(".gz")).suffix, packed


def _parquet(file: Path) -> Iterator[object]:
    with pq.ParquetFile(file) as parquet:
        yield from parquet.iter_batches(_CHUNK_ROWS)


def _arrow(file: Path) -> Iterator[object]:
    with pa.OSFile(str(file), "rb") as source:
        try:
            batches = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            yield pa.ipc.open_stream(source)
            return
        for index in range(batches.num_record_batches):
            yield batches.get_batch(index)


def _csv(file: Path) -> Iterator[object]:
    """Read with a header line; an empty field that is not quoted cannot be told from an empty text, and is null."""
    csv.field_size_limit(_LONGEST_FIELD)
    with _text(file) as source:
        lines = csv.reader(source, strict=True)
        names = next(lines, [])
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InvalidRequest(f"The header names {twice!r} twice: rename or drop one.")
        chunk: list[dict[str, str | None]] = []
        for line in lines:
            if not line:
                continue
            if len(line) != len(names):
                raise InvalidRequest(
                    f"Line {lines.line_num} has {len(line)} fields and the header {len(names)}. Quote commas in texts."
                )
            chunk.append({name: value or None for name, value in zip(names, line, strict=True)})
            if len(chunk) == _CHUNK_ROWS:
                yield chunk
                chunk = []
        if chunk:
            yield chunk


def _json_lines(file: Path) -> Iterator[object]:
    with _text(file) as source:
        chunk: list[dict[str, Any]] = []
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, parse_float=Decimal, object_pairs_hook=_object)
            except json.JSONDecodeError as error:
                raise InvalidRequest(f"Line {number} is no JSON: {error.msg} at column {error.colno}.") from error
            except (InvalidRequest, RecursionError) as error:
                raise InvalidRequest(f"Line {number} {error}") from error
            if not isinstance(row, dict):
                raise InvalidRequest(f"Line {number} is no JSON object.")
            chunk.append(row)
            if len(chunk) == _CHUNK_ROWS:
                yield chunk
                chunk = []
        if chunk:
            yield chunk


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python would keep the last of two equal names."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"names {twice!r} twice: rename or drop one.")
    return made


def _text(file: Path) -> IO[str]:
    # Spreadsheets begin a text with a mark of its encoding.
    if _suffixes(file)[1]:
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def open_sink(file: Path, schema: pa.Schema) -> AbstractContextManager[Sink]:
    """Return a function that writes batches of `schema` to the file, by its name's ending. Raises InvalidRequest."""
    sinks = {
        ".parquet": _parquet_sink,
        ".csv": _csv_sink,
        ".jsonl": _json_sink,
        ".ndjson": _json_sink,
        ".arrow": _arrow_sink,
    }
    if file.suffix.lower() not in sinks:
        raise InvalidRequest(f"{file}: its name ends with none of {', '.join(sinks)}: choose one of these formats.")
    return _whole(file, sinks[file.suffix.lower()], schema)


@contextmanager
def _whole(
    file: Path, sink: Callable[[Path, pa.Schema], AbstractContextManager[Sink]], schema: pa.Schema
) -> Iterator[Sink]:
    """The file gets its name when it is complete."""
    partial = file.with_name(f".{file.name}.part")
    try:
        with sink(partial, schema) as write:
            yield write
        partial.replace(file)
    except OSError as error:
        raise StorageUnavailable(f"{file}: it cannot be written ({error.strerror or error}).") from error
    finally:
        # Where the folder is none, there is nothing to take away.
        with suppress(OSError):
            partial.unlink()


@contextmanager
def _parquet_sink(file: Path, schema: pa.Schema) -> Iterator[Sink]:
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _arrow_sink(file: Path, schema: pa.Schema) -> Iterator[Sink]:
    with pa.OSFile(str(file), "wb") as target, pa.ipc.new_file(target, schema) as writer:
        yield writer.write_batch


@contextmanager
def _csv_sink(file: Path, schema: pa.Schema) -> Iterator[Sink]:
    with file.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(schema.names)
        yield lambda batch: writer.writerows(text_rows(batch))


@contextmanager
def _json_sink(file: Path, schema: pa.Schema) -> Iterator[Sink]:
    with file.open("w", encoding="utf-8") as target:

        def write(batch: pa.RecordBatch) -> None:
            for row in json_rows(batch):
                target.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")

        yield write
