"""Row parsing: parse the rows of an opened file or pipe, chunk by chunk.

Rule: CSV and JSON yield texts under column names; the types of the table parse the texts.
"""

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.row_files.csv_records import CsvStyle, Field, read_records
from lakehouse_core.row_files.row_format import RowFormat

_CHUNK_ROWS: Final = 65_536


def parsed_rows(form: str, source: Any, given: RowFormat, texts: Iterable[str | None]) -> Iterator[object]:
    """Yield batches for `input_batches`. `texts` names the columns that can hold an empty text."""
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
    """Yield the rows of a CSV file with a header line. `texts`: the columns that can hold an empty text; in others it
    is null.
    """
    records = read_records(source, style.delimiter)
    _, header = next(records, (1, []))
    names = [field.text for field in header]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidRequest(f"The header names {twice!r} twice. Rename or drop one.")
    chunk: list[dict[str, str | None]] = []
    for number, record in records:
        if len(record) != len(names):
            if len(record) == 1 and not record[0].is_quoted and not record[0].text:
                continue
            raise InvalidRequest(
                f"Line {number}: found {len(record)} fields, expected {len(names)} as in the header. Quote texts "
                "that contain the delimiter, or choose another delimiter."
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
    """Yield the rows of a JSON array, which is held in memory as a whole; input that begins with an object is read as
    JSON lines.
    """
    start = source.read(1)
    while start.isspace():
        start = source.read(1)
    if start != "[":
        yield from _json_lines(_chained(start, source))
        return
    try:
        rows = json.loads(start + source.read(), parse_float=Decimal, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"Expected JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from error
    except (InvalidRequest, RecursionError) as error:
        raise InvalidRequest(f"An object {error}") from error
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidRequest(f'Row {number} is not a JSON object, as in {{"id": 1}}.')
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
            raise InvalidRequest(f"Line {number} is not JSON: {error.msg} at column {error.colno}.") from error
        except (InvalidRequest, RecursionError) as error:
            raise InvalidRequest(f"Line {number} {error}") from error
        if not isinstance(row, dict):
            raise InvalidRequest(f'Line {number} is not a JSON object, as in {{"id": 1}}.')
        chunk.append(row)
        if len(chunk) == _CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. Raises InvalidRequest for two equal names, of which Python would keep the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"names {twice!r} twice. Rename or drop one.")
    return made
