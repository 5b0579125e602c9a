"""A data file as a manifest describes it.

Keys and statistics stay serialized BinaryRows until they are compared, which most plans never do.
Source: docs/format/manifest.md#manifest-record.
"""

from dataclasses import dataclass
from enum import IntEnum

from lakehouse_core.table.joined_changelog import segment_format

# A row without fields: four bytes of arity, eight of header. Stored in every append file's entry.
EMPTY_ROW = bytes(12)


class FileSource(IntEnum):
    """Stored in every manifest. Never renumber."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Minimum, maximum and null count of some columns; rows are serialized BinaryRows of equal arity."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


EMPTY_STATS = SimpleStats()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One immutable file of rows. Sizes in bytes, `creation_time_millis` in local wall clock counted as UTC."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time_millis: int | None = None
    delete_row_count: int | None = 0
    embedded_index: bytes | None = None
    file_source: FileSource | None = FileSource.APPEND
    # None: the statistics cover every value column of the schema; empty: none of them.
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None

    @property
    def all_names(self) -> tuple[str, ...]:
        """The name of the file itself, then those of its extra files, such as its index, which are added and removed
        with it.
        """
        return (self.file_name, *self.extra_files)

    @property
    def format(self) -> str:
        """The format of the file by its name's suffix, independent of the table's present options."""
        return segment_format(self.file_name) or self.file_name.rpartition(".")[2]
