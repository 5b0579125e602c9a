"""File styles: the file formats and compressions that can be written, and the types that each format holds.

Source: docs/format/data-files.md#file-formats; what Java 1.0.1 to 2.0.0 write for each name, tried.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.avro_rows import avro_row_schema
from lakehouse_core.format.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_parts,
    nanosecond_columns,
    nested_fields,
)
from lakehouse_core.options import FileStyle, about_option, one_of
from lakehouse_core.table.schema.record import TableSchema

_COMPRESSIONS: Final = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none", "uncompressed"),
    "orc": ("zstd", "snappy", "zlib", "lz4", "none"),
    "avro": ("zstd", "zstandard", "snappy", "deflate", "null"),
}
_FAST: Final = "lz4"
# The zstd levels that Arrow's ORC writer supports.
_ORC_ZSTD_LEVELS: Final = (1, 3)
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_file_styles(schema: TableSchema, *, table: str) -> None:
    """Raise UnsupportedFeature naming option or column unless files of each level can be written as options say."""
    options = schema.table_options
    for keys, style in _styles(schema):
        allowed = _COMPRESSIONS.get(style.format)
        if allowed is None:
            raise UnsupportedFeature(
                f"{about_option(table)} {keys[0]} names the format {style.format}: "
                f"{one_of(style.format, tuple(_COMPRESSIONS))}, or write with Java Paimon."
            )
        if style.compression not in allowed:
            raise UnsupportedFeature(
                f"{about_option(table)} {keys[1]} = {style.compression} does not go with files of {style.format}: "
                f"{one_of(style.compression, allowed)}."
            )
        is_zstd_orc = (style.format, style.compression) == ("orc", "zstd")
        if is_zstd_orc and options.zstd_level not in _ORC_ZSTD_LEVELS:
            raise UnsupportedFeature(
                f"{about_option(table)} file.compression.zstd-level = {options.zstd_level} is not supported for ORC "
                "files: set 1 or 3, or another format."
            )
    for file_format in sorted({style.format for _, style in _styles(schema)}):
        _CHECKS[file_format](schema)


def waiting_style(schema: TableSchema) -> FileStyle:
    """Return how rows are stored that wait for their buckets: as files of level 0, without statistics.

    Where no option names a compression, it is a fast one: the rows are read once, and soon.
    """
    style = replace(schema.table_options.style_at(0), stats_mode="none")
    is_chosen = any(key in schema.options for key in ("file.compression", "file.compression.per.level"))
    return style if is_chosen or style.format != "parquet" else replace(style, compression=_FAST)


def _styles(schema: TableSchema) -> Iterator[tuple[tuple[str, str], FileStyle]]:
    """Yield each style of the table's future files, with the option keys of its format and its compression."""
    options = schema.table_options
    yield ("file.format", "file.compression"), options.style
    if schema.is_append:
        return
    for style in options.style_by_level.values():
        yield ("file.format.per.level", "file.compression.per.level"), style
    for level in (0, *options.style_by_level):
        yield ("changelog-file.format", "changelog-file.compression"), options.changelog_style_at(level)


def _check_parquet(schema: TableSchema) -> None:
    fine, coarse = nanosecond_columns(schema.fields)
    if fine and coarse:
        # Java reads timestamps of up to 6 digits as INT64 and finer ones as INT96; a file here holds one kind only.
        raise UnsupportedFeature(
            f"Column {fine[0]} has a timestamp of more than 6 digits and column {coarse[0]} one of at most 6: one "
            "Parquet file cannot hold both for every Java reader. Declare all of them with at most 6 digits."
        )


def _check_orc(schema: TableSchema) -> None:
    for field in schema.fields:
        if any(part.root is TypeRoot.CHAR for key in _map_keys(field.type) for part in atomic_parts(key)):
            raise UnsupportedFeature(
                f"Column {field.name} has CHAR as key type of a map: ORC files drop trailing blanks, which may "
                "make two keys equal. Declare them as VARCHAR, or set another format."
            )


def _map_keys(data_type: DataType) -> Iterator[DataType]:
    match data_type:
        case ArrayType(element):
            yield from _map_keys(element)
        case MultisetType(element):
            yield element
        case MapType(key, value):
            yield key
            yield from _map_keys(value)
        case RowType(fields):
            for field in fields:
                yield from _map_keys(field.type)


def _check_avro(schema: TableSchema) -> None:
    avro_row_schema(schema.fields)
    for field in schema.fields:
        for name in _names(field):
            if not _AVRO_NAME.fullmatch(name):
                raise UnsupportedFeature(
                    f"Column {field.name}: Avro files cannot name a field {name!r}, only letters, digits and _ from "
                    "ASCII. Rename it, or set file.format to parquet."
                )


def _names(field: DataField) -> Iterator[str]:
    yield field.name
    for nested in nested_fields(field.type):
        yield from _names(nested)


_CHECKS: Final = {"parquet": _check_parquet, "orc": _check_orc, "avro": _check_avro}
