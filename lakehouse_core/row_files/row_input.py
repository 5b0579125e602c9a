"""Row input: rows from the files and pipes of users.

Rule: in every format, columns are matched by name and values are parsed by the table's types.
"""

import base64
import gzip
import io
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.errors import InvalidRequest
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
from lakehouse_core.row_files.row_format import PIPE, RowFormat, suffixes
from lakehouse_core.row_files.row_parsing import parsed_rows
from lakehouse_core.table.commit_message import Missing
from lakehouse_core.tasks.write.input import input_batches

_GZIP_MARK: Final = b"\x1f\x8b"
_ARROW_FILE_MARK: Final = b"ARROW1"


def read_files(
    files: Sequence[Path],
    fields: Sequence[DataField],
    form: RowFormat,
    *,
    rowkind_column: str | None,
    missing: Missing = "null",
) -> pa.RecordBatchReader:
    """Return the rows of all files, one file after the other, as the table's columns.

    Raises InvalidRequest naming the file.
    """
    columns = [pa.field(field.name, arrow_type(field.type)) for field in fields]
    if rowkind_column is not None:
        check_text("rowkind_column", rowkind_column)
    if rowkind_column is not None and all(field.name != rowkind_column for field in fields):
        columns.append(pa.field(rowkind_column, pa.string()))
    if list(files).count(PIPE) > 1:
        raise InvalidRequest("-: standard input is named twice, but can be read only once. Name it once.")
    readers = [(file, form.of(file)) for file in files]
    for file in files:
        if file != PIPE and not file.is_file():
            raise InvalidRequest(f"{file}: the file does not exist. Check the path.")
    return pa.RecordBatchReader.from_batches(
        pa.schema(columns), _rows_of(readers, form, fields, rowkind_column, missing)
    )


def known_row_count(files: Iterable[Path], form: RowFormat) -> int | None:
    """Return the number of rows of all files, None if a file does not record it."""
    count = 0
    for file in files:
        if file == PIPE or form.of(file) != "parquet":
            return None
        try:
            count += pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException):
            # The read of the file reports the error.
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
                for data in parsed_rows(name, source, form, texts):
                    rows = _with_binaries(data, binaries, row_count) if binaries and isinstance(data, list) else data
                    for batch in input_batches(
                        rows, fields, rowkind_column=rowkind_column, missing=missing, first_row=row_count
                    ):
                        row_count += batch.num_rows
                        yield batch
        except InvalidRequest as error:
            raise InvalidRequest(f"{shown}: {error}") from error
        except (pa.ArrowException, ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = f".{name}" if file == PIPE or form.name else "".join(suffixes(file)) or f".{name}"
            advice = " Save it in UTF-8." if isinstance(error, UnicodeDecodeError) else ""
            raise InvalidRequest(f"{shown}: cannot be read as {what} ({error}).{advice}") from error
        except OSError as error:
            raise InvalidRequest(f"{shown}: cannot be read ({error.strerror or error}).") from error


def _holds_empty_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in STRING_ROOTS | BINARY_ROOTS


def _with_binaries(rows: list[dict[str, Any]], fields: Sequence[DataField], first_row: int) -> list[dict[str, Any]]:
    """Return the rows with the base64 texts of binary columns decoded, in place."""
    for number, row in enumerate(rows, first_row):
        for field in fields:
            try:
                if row.get(field.name) is not None:
                    row[field.name] = _unpacked(row[field.name], field.type)
            except ValueError as error:
                raise InvalidRequest(
                    f"Row {number}, column {field.name!r}: expected base64, as text files have binaries ({error})."
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


@contextmanager
def _opened(file: Path, form: str) -> Iterator[Any]:
    """Yield the open file, decompressed, as bytes or text by its format; formats that need it are seekable."""
    with ExitStack() as opened:
        source: Any = opened.enter_context(file.open("rb")) if file != PIPE else sys.stdin.buffer
        if file != PIPE:
            is_packed, from_end = bool(suffixes(file)[1]), False
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
        # Spreadsheets write a byte order mark at the start of a text.
        text = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
        # Otherwise it would close the underlying file, which may be standard input.
        opened.callback(text.detach)
        yield text
