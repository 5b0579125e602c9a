"""File options: how the files of each kind are stored and named.

Source: docs/semantics/options.md#per-level-options.
"""

from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options.file_statistics import parse_stats_mode
from lakehouse_core.options.source import Source

# A file's name has 255 bytes; a UUID, a number, an extension and the mark of a temporary file need some of them.
_LONGEST_PREFIX_BYTES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStyle:
    """How the files of one kind are stored: format parquet, orc or avro; compression by Paimon's name; both lower case.

    `stats_mode` applies to columns without their own mode.
    """

    format: str = "parquet"
    compression: str = "zstd"
    stats_mode: str = "truncate(16)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """How values are packed into the pages of Parquet files. None: the writer's default.

    `dictionary`: columns with repeated values may have a dictionary. The keys are those that Java's writer reads from a
    table.
    """

    dictionary: bool = True
    dictionary_page_bytes: int = 1 << 20
    page_bytes: int | None = None
    page_rows: int | None = None


def parquet_options(source: Source) -> ParquetOptions:
    """Return how Parquet files are packed."""
    return ParquetOptions(
        # Java takes whatever else is written there for true.
        dictionary=source.required("parquet.enable.dictionary").strip().lower() != "false",
        dictionary_page_bytes=source.whole("parquet.dictionary.page.size"),
        page_bytes=source.whole_if_set("parquet.page.size"),
        page_rows=source.whole_if_set("parquet.page.row.count.limit"),
    )


def file_style(source: Source) -> FileStyle:
    """Return how files of levels without their own style are stored."""
    mode = "metadata.stats-mode"
    return FileStyle(
        format=source.required("file.format").strip().lower(),
        compression=source.required("file.compression").strip().lower(),
        stats_mode=parse_stats_mode(mode, source.required(mode)),
    )


def file_styles(source: Source) -> dict[int, FileStyle]:
    """Return how files are stored, by level, for levels with their own style."""
    mode = "metadata.stats-mode.per.level"
    formats, compressions = source.levels("file.format.per.level"), source.levels("file.compression.per.level")
    modes = {level: parse_stats_mode(mode, text) for level, text in source.levels(mode).items()}
    style = file_style(source)
    return {
        level: FileStyle(
            format=formats.get(level, style.format).lower(),
            compression=compressions.get(level, style.compression).lower(),
            stats_mode=modes.get(level, style.stats_mode),
        )
        for level in sorted({*formats, *compressions, *modes})
    }


def changelog_stats_mode(source: Source) -> str | None:
    """Return the mode of changelog files, None when it is the mode of data files."""
    key = "changelog-file.stats-mode"
    text = source.text(key)
    return None if text is None else parse_stats_mode(key, text)


def lower_if_set(text: str | None) -> str | None:
    return None if text is None else text.strip().lower()


def check_name_part(key: str, text: str, *, may_be_hidden: bool = False) -> None:
    """Raise InvalidRequest unless the text can be part of a file or folder name. Hidden names begin with `.` or `_`."""
    hidden = text[:1] in (".", "_") and not may_be_hidden
    if not text.strip() or hidden or set(text) & set("/\\") or not text.isprintable():
        raise InvalidRequest(f"Option {key} is {shown(text)}: expected a part of a file name.")
    if len(text.encode()) > _LONGEST_PREFIX_BYTES:
        raise InvalidRequest(
            f"Option {key} has {len(text.encode())} bytes: expected at most {_LONGEST_PREFIX_BYTES}, as part of a "
            "file name."
        )
