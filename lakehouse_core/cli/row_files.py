"""Rows in files and pipes that users bring or take away: Parquet, CSV, JSON, Arrow.

Whatever the format, columns go by name and values by the table's types: CSV and JSON hold text that is read as such.
"""

import base64
import gzip
import io
import json
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.cli.csv_records import CsvStyle, Field, read_records, record_line
from lakehouse_core.cli.output import csv_rows, json_rows
from lakehouse_core.errors import InvalidRequest, StorageUnavailable
from lakehouse_core.execution.tasks.write.input import input_batches
from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    STRING_ROOTS,
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
from lakehouse_core.format.stored import check_text
from lakehouse_core.table.commit_message import Missing

FORMATS: Final = ("parquet", "csv", "tsv", "jsonl", "json", "arrow")
# Standard input where rows come from, standard output where they go.
PIPE: Final = Path("-")

_ENDINGS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".arrow": "arrow",
}
_CHUNK_ROWS: Final = 65_536
_GZIP_MARK: Final = b"\x1f\x8b"
_ARROW_FILE_MARK: Final = b"ARROW1"

Sink = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFormat:
    """How rows lie in files. `name` None: as each file's name ends; `delimiter` None: as the format has it."""

    name: str | None = None
    delimiter: str | None = None
    null: str = ""

    def of(self, file: Path) -> str:
        """Return the format of a file. Raises InvalidRequest where nothing tells."""
        if self.name is not None:
            return self.name
        if file == PIPE:
            raise InvalidRequest(f"-: a pipe's name tells no format: give --format {_listed(FORMATS)}.")
        ending = _suffixes(file)[0]
        if ending not in _ENDINGS:
            raise InvalidRequest(
                f"{file}: its name ends with none of {', '.join(_ENDINGS)}: rename it, or give --format."
            )
        return _ENDINGS[ending]

    def csv(self, form: str) -> CsvStyle:
        return CsvStyle(delimiter=self.delimiter or ("\t" if form == "tsv" else ","), null=self.null)


def read_files(
    files: Sequence[Path],
    fields: Sequence[DataField],
    form: RowFormat,
    *,
    rowkind_column: str | None,
    missing: Missing = "null",
) -> pa.RecordBatchReader:
    """Return the rows of all files, one after the other, as the table's columns. Raises InvalidRequest per file."""
    columns = [pa.field(field.name, arrow_type(field.type)) for field in fields]
    if rowkind_column is not None:
        check_text("--rowkind-column", rowkind_column)
    if rowkind_column is not None and all(field.name != rowkind_column for field in fields):
        columns.append(pa.field(rowkind_column, pa.string()))
    if list(files).count(PIPE) > 1:
        raise InvalidRequest("-: standard input can be read once only. Name it once.")
    readers = [(file, form.of(file)) for file in files]
    for file in files:
        if file != PIPE and not file.is_file():
            raise InvalidRequest(f"{file}: there is no such file.")
    return pa.RecordBatchReader.from_batches(
        pa.schema(columns), _rows_of(readers, form, fields, rowkind_column, missing)
    )


def known_row_count(files: Iterable[Path], form: RowFormat) -> int | None:
    """Return how many rows the files have together, None where one does not say."""
    count = 0
    for file in files:
        if file == PIPE or form.of(file) != "parquet":
            return None
        try:
            count += pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException):
            # Who reads it says what is wrong.
            return None
    return count


def _rows_of(
    readers: Iterable[tuple[Path, str]],
    form: RowFormat,
    fields: Sequence[DataField],
    rowkind_column: str | None,
    missing: Missing,
) -> Iterator[pa.RecordBatch]:
    binaries = [field for field in fields if any(part.root in BINARY_ROOTS for part in atomic_parts(field.type))]
    texts = frozenset(field.name for field in fields if _holds_empty_text(field.type)) | {rowkind_column}
    for file, name in readers:
        shown = "standard input" if file == PIPE else str(file)
        row_count = 0
        try:
            with _opened(file, name) as source:
                for data in _read(name, source, form, texts):
                    rows = _with_binaries(data, binaries, row_count) if binaries and isinstance(data, list) else data
                    for batch in input_batches(
                        rows, fields, rowkind_column=rowkind_column, missing=missing, first_row=row_count
                    ):
                        row_count += batch.num_rows
                        yield batch
        except InvalidRequest as error:
            raise InvalidRequest(f"{shown}: {error}") from error
        except (pa.ArrowException, ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = f".{name}" if file == PIPE else "".join(_suffixes(file)) or f".{name}"
            raise InvalidRequest(f"{shown}: it cannot be read as {what} ({error}).") from error
        except OSError as error:
            raise InvalidRequest(f"{shown}: it cannot be read ({error.strerror or error}).") from error


def _holds_empty_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS | BINARY_ROOTS


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


def _suffixes(file: Path) -> tuple[str, str]:
    """Return the format's suffix, and ".gz" behind it or nothing."""
    name = file.name.lower()
    packed = ".gz" if name.endswith(".gz") else ""
    return Path(name.removesuffix(".gz")).suffix, packed


@contextmanager
def _opened(file: Path, form: str) -> Iterator[Any]:
    """Open the bytes or the text of the format, unpacked; what has to be read from its end can be."""
    with ExitStack() as opened:
        source: Any = opened.enter_context(file.open("rb")) if file != PIPE else sys.stdin.buffer
        if file != PIPE:
            is_packed, from_end = bool(_suffixes(file)[1]), False
        else:
            start = source.peek(len(_ARROW_FILE_MARK))
            is_packed = start.startswith(_GZIP_MARK)
            from_end = form == "parquet" or start.startswith(_ARROW_FILE_MARK)
        if is_packed:
            source = opened.enter_context(gzip.GzipFile(fileobj=source))
        elif from_end:
            whole = opened.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(source, whole)
            whole.seek(0)
            source = whole
        if form in ("parquet", "arrow"):
            yield source
            return
        # Spreadsheets begin a text with a mark of its encoding.
        text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
        # It would close what is below it, which may be standard input.
        opened.callback(text.detach)
        yield text


def _read(form: str, source: Any, given: RowFormat, texts: Iterable[str | None]) -> Iterator[object]:
    match form:
        case "parquet":
            return _parquet(source)
        case "arrow":
            return _arrow(source)
        case "csv" | "tsv":
            return _csv(source, given.csv(form), frozenset(texts))
        case "json":
            return _json(source)
        case _:
            return _json_lines(source)


def _parquet(source: IO[bytes]) -> Iterator[object]:
    with pq.ParquetFile(source) as parquet:
        yield from parquet.iter_batches(_CHUNK_ROWS)


def _arrow(source: IO[bytes]) -> Iterator[object]:
    if not source.seekable():
        yield pa.ipc.open_stream(source)
        return
    try:
        batches = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        yield pa.ipc.open_stream(source)
        return
    for index in range(batches.num_record_batches):
        yield batches.get_batch(index)


def _csv(source: IO[str], style: CsvStyle, texts: frozenset[str | None]) -> Iterator[object]:
    """Read with a header line. `texts`: the columns that can hold an empty text; in others nothing is null."""
    records = read_records(source, style.delimiter)
    _, header = next(records, (1, []))
    names = [field.text for field in header]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidRequest(f"The header names {twice!r} twice: rename or drop one.")
    chunk: list[dict[str, str | None]] = []
    for number, record in records:
        if len(record) != len(names):
            if len(record) == 1 and not record[0].is_quoted and not record[0].text:
                continue
            raise InvalidRequest(
                f"Line {number} has {len(record)} fields and the header {len(names)}. Quote texts in which the "
                "delimiter stands, or name another one with --delimiter."
            )
        values = zip(names, record, strict=True)
        chunk.append({name: _csv_value(field, style, is_text=name in texts) for name, field in values})
        if len(chunk) == _CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _csv_value(field: Field, style: CsvStyle, *, is_text: bool) -> str | None:
    if not field.is_quoted and field.text == style.null:
        return None
    return field.text if field.text or is_text else None


def _json(source: IO[str]) -> Iterator[object]:
    """Read an array of objects, which is held in memory as a whole; what begins with an object is lines of them."""
    start = source.read(1)
    while start.isspace():
        start = source.read(1)
    if start != "[":
        yield from _json_lines(_chained(start, source))
        return
    try:
        rows = json.loads(start + source.read(), parse_float=Decimal, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"It is no JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from error
    except (InvalidRequest, RecursionError) as error:
        raise InvalidRequest(f"An object {error}") from error
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidRequest(f"Row {number} is no JSON object.")
    yield from (rows[first : first + _CHUNK_ROWS] for first in range(0, len(rows), _CHUNK_ROWS))


def _chained(start: str, source: IO[str]) -> Iterator[str]:
    yield start + source.readline()
    yield from source


def _json_lines(source: Iterable[str]) -> Iterator[object]:
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


def open_sink(file: Path, schema: pa.Schema, form: RowFormat) -> AbstractContextManager[Sink]:
    """Return a function that writes batches of `schema` to the file or pipe. Raises InvalidRequest."""
    name = form.of(file)
    if file == PIPE:
        return _sink(name, _Pipe(sys.stdout.buffer), schema, form, as_stream=True)
    if _suffixes(file)[1]:
        raise InvalidRequest(f"{file}: packed files are read and not written. Leave .gz out.")
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
        raise StorageUnavailable(f"{file}: it cannot be written ({error.strerror or error}).") from error
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


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
