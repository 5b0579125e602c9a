"""Tested files: what the footers of files say that DuckDB reads by itself, and which of their columns were tested.

Rule: a data file never changes, so that it is tested once for each process; a file whose size, inode or times are
others is another file. Source: docs/sql.md#without-spark.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Final

import pyarrow as pa

from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.execution.read.scan import ScanPlan
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.predicate import columns_of
from lakehouse_core.table.projection import file_projection, source_columns
from lakehouse_core.table.schema import TableSchema

# At most some 20 MB: a file with 50 columns takes 10 KB.
_REMEMBERED_FILES: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a file's footer says. `types`: of its columns, in Arrow; `bounded_floats`: the paths of the floating-point
    columns that have bounds; `only_inserts`: whether every row is +I.
    """

    types: Mapping[str, pa.DataType]
    bounded_floats: frozenset[str]
    only_inserts: bool

    def has_bounds_of_floats(self, name: str) -> bool:
        """Return whether there are bounds of floating-point values of a column or its parts."""
        return any(path == name or path.startswith(f"{name}.") for path in self.bounded_floats)


@dataclass(slots=True)
class _Known:
    """What is known of a file. `tested`: the columns of which every page was tested."""

    footer: Footer | None = None
    tested: set[str] = field(default_factory=set)


class TestedFile:
    """A file of a plan in `folder`, written with `schema`. It is opened only for what is not known yet.

    Its methods raise CorruptTable for a missing or damaged file.
    """

    def __init__(self, store: ObjectStore, folder: str, file: DataFile, schema: TableSchema, plan: ScanPlan) -> None:
        self._verify = plan.schema.table_options.read_verify
        self._known = _known_file(f"{plan.store.root}/{folder}/{file.file_name}", file, verify=self._verify)
        self._schema = schema
        self._plan = plan
        self._stack = ExitStack()
        self._open = partial(ParquetFileReader, store, f"{folder}/{file.file_name}", file, schema, verify=self._verify)

    def __enter__(self) -> "TestedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def footer(self) -> Footer:
        """What the footer says, which was tested."""
        if self._known.footer is None:
            types = self._reader.stored_types()
            self._known.footer = Footer(
                types=types,
                bounded_floats=frozenset(self._reader.paths_with_bounds_of_floats()),
                only_inserts=VALUE_KIND not in types or self._reader.holds_only_inserts,
            )
        return self._known.footer

    def test_pages(self) -> None:
        """Test the pages of the plan's columns, but for those of row groups that its condition excludes, if the table
        verifies its reads.
        """
        fields = [self._plan.schema.field(name) for name in _read_columns(self._plan)]
        needed = {*source_columns(file_projection(self._schema, fields)), VALUE_KIND}
        if self._verify and not needed <= self._known.tested:
            self._known.tested |= self._reader.check_pages(fields, self._plan.predicate, tested=self._known.tested)

    @cached_property
    def _reader(self) -> ParquetFileReader:
        return self._stack.enter_context(closing(self._open()))


def _read_columns(plan: ScanPlan) -> Sequence[str]:
    asked = columns_of(plan.predicate) if plan.predicate is not None else frozenset()
    return [*plan.columns, *sorted(asked.difference(plan.columns))]


def _known_file(path: str, file: DataFile, *, verify: bool) -> _Known:
    """Return the place for what is known of a file, which it shares with no file of other contents."""
    with suppress(OSError):
        found = os.stat(path)
        times = found.st_mtime_ns, found.st_ctime_ns
        return _known(path, found.st_dev, found.st_ino, found.st_size, times, (file.file_size, file.row_count), verify)
    # The reader tells what is wrong.
    return _Known()


@lru_cache(maxsize=_REMEMBERED_FILES)
def _known(*_: object) -> _Known:
    return _Known()
