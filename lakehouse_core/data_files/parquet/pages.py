"""Page checksums of a Parquet file, for readers that do not test them. Source: docs/format/data-files.md#parquet."""

from collections.abc import Iterable, Iterator, Set
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.data_files.reader import corrupt_file
from lakehouse_core.format.parquet_footer import page_header


def check_pages(
    source: pa.NativeFile, footer: pq.FileMetaData, groups: Iterable[int], names: Set[str], key: str
) -> None:
    """Test the pages of the top-level columns `names` in these row groups. Pages without a checksum are passed over.

    Memory is a column chunk. Raises CorruptTable.
    """
    for group in groups:
        for start, size in _chunks(footer.row_group(group), names):
            data = source.read_at(size, start)
            position = _damaged_page(data)
            if position is not None:
                raise corrupt_file(key, f"the page at byte {start + position} does not fit its checksum")


def _chunks(group: pq.RowGroupMetaData, names: Set[str]) -> Iterator[tuple[int, int]]:
    for number in range(group.num_columns):
        chunk = group.column(number)
        path = chunk.path_in_schema
        if path in names or path.split(".")[0] in names:
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            yield start, chunk.total_compressed_size


def _damaged_page(data: bytes) -> int | None:
    """Return where the first page begins that does not fit its checksum, or does not end within `data`."""
    position, view = 0, memoryview(data)
    while position < len(data):
        try:
            start, end, checksum = page_header(data, position)
        except IndexError:
            return position
        if not start <= end <= len(data) or (checksum is not None and crc32(view[start:end]) != checksum):
            return position
        position = end
    return None
