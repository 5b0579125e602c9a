"""Parquet layout: the columns of a file as its footer describes them. Many small files have the same, and share it."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.joined_footer import PHYSICAL_TYPES
from lakehouse_core.format.parquet_footer import schema_end

# Arrow takes the types of the columns from here.
_STORED_SCHEMA: Final = b"ARROW:schema"


class Chunk(NamedTuple):
    """What a row group holds of one leaf column, decoded and as it is stored."""

    path: str
    decoded_bytes: int
    stored_bytes: int

    def belongs_to(self, names: Set[str]) -> bool:
        """Return whether it is part of one of the top-level columns `names`."""
        return self.path in names or self.path.split(".")[0] in names


class WideGroup(NamedTuple):
    row_count: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The columns of a file. `head`: the bytes of its footer up to the end of the schema, which decide everything
    here; empty: unknown, or something else decides too. `physical_types`: those of the leaf columns.
    """

    head: bytes
    schema: pa.Schema
    names: tuple[str, ...]
    columns: frozenset[str]
    places: Mapping[str, int]
    physical_types: tuple[str, ...]

    @property
    def has_int96(self) -> bool:
        return "INT96" in self.physical_types

    @property
    def can_be_joined(self) -> bool:
        """Whether another footer can describe these columns: all are flat."""
        return bool(self.head) and len(self.places) == len(self.physical_types)


# Of the file that was opened last.
_latest: list[Layout] = []


def layout_of(file: pq.ParquetFile, footer: bytes) -> Layout:
    """Return the columns of a file; `footer`: the bytes of its footer, empty if they are not at hand."""
    is_plain = bool(footer) and _STORED_SCHEMA not in (file.metadata.metadata or {})
    if is_plain:
        for kept in _latest:
            if footer.startswith(kept.head):
                return kept
    # Without row groups the types of the columns are unknown.
    made = _made(file, _head(footer) if is_plain and file.metadata.num_row_groups else b"")
    if made.head:
        _latest[:] = [made]
    return made


def _head(footer: bytes) -> bytes:
    try:
        return footer[: schema_end(footer)]
    except (CorruptTable, IndexError):
        # Arrow could read it; what this reader cannot is of no use here.
        return b""


def _made(file: pq.ParquetFile, head: bytes) -> Layout:
    # `metadata.schema` is not used: it and the footer form a reference cycle until a garbage collection.
    footer, schema = file.metadata, file.schema_arrow
    group = footer.row_group(0) if footer.num_row_groups else None
    chunks = [] if group is None else [group.column(number) for number in range(group.num_columns)]
    names = tuple(schema.names)
    paths = [chunk.path_in_schema for chunk in chunks]
    is_flat = paths == list(names) and all(chunk.physical_type in PHYSICAL_TYPES for chunk in chunks)
    return Layout(
        head=head,
        schema=schema,
        names=names,
        columns=frozenset(names),
        places={name: place for place, name in enumerate(names)} if is_flat else {},
        physical_types=tuple(chunk.physical_type for chunk in chunks),
    )


def widest_group(footer: pq.FileMetaData) -> WideGroup:
    """Return the row group with the widest rows, one without rows when the file has none."""
    groups = map(footer.row_group, range(footer.num_row_groups))
    widest = max(groups, key=lambda group: group.total_byte_size / max(1, group.num_rows), default=None)
    return WideGroup(0, ()) if widest is None else WideGroup(widest.num_rows, tuple(_chunks(widest)))


def _chunks(group: pq.RowGroupMetaData) -> Iterator[Chunk]:
    for position in range(group.num_columns):
        chunk = group.column(position)
        yield Chunk(chunk.path_in_schema, chunk.total_uncompressed_size, chunk.total_compressed_size)
