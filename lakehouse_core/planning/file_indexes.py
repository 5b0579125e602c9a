"""File index plan: which indexes a data file should have by the present options, under the names of its own columns.

Rule: a file's index has the column names and types of the schema that the file was written with. A column that the file
does not have, or whose type there the kind of index cannot hold, has no index in it.
Source: docs/semantics/maintenance.md#file-indexes.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakehouse_core.format.file_index import takes
from lakehouse_core.options import IndexedColumn
from lakehouse_core.planning.readable import check_file
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_index import INDEX_SUFFIX
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.schema import TableSchema

# The bytes of a data file's indexes, by column and kind; None: an index without a body.
Bodies: TypeAlias = Mapping[str, Mapping[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIndex:
    """The new index of a data file: in its entry, in a file beside it, or, with neither, none any more.

    `size_bytes`: of its container.
    """

    embedded: bytes | None = None
    file_name: str | None = None
    size_bytes: int = 0


def wanted_indexes(schema: TableSchema, file_schema: TableSchema) -> tuple[IndexedColumn, ...]:
    """Return the indexes that the options of `schema` ask for in a file that was written with `file_schema`."""
    there = {field.id: field for field in file_schema.fields}
    found = []
    for one in schema.table_options.indexed_columns:
        source = there.get(schema.field(one.column).id)
        if source is not None and takes(one.kind, source.type):
            found.append(replace(one, column=source.name))
    return tuple(found)


def index_names(file: DataFile) -> tuple[str, ...]:
    """Return the names of the files beside the data file that hold its index; our writers make one at most."""
    return tuple(name for name in file.extra_files if name.endswith(INDEX_SUFFIX))


def may_differ(file: DataFile, wanted: Sequence[IndexedColumn]) -> bool:
    """Return whether the index of the file may not be the wanted one: False if it needs none and has none."""
    return bool(wanted) or file.embedded_index is not None or bool(index_names(file))


def is_up_to_date(file: DataFile, present: Bodies | None, wanted: Bodies, *, is_small: bool) -> bool:
    """Return whether the index of the file is the wanted one, and is where the options want it.

    `present`: the indexes that the file has, None if it has none. `is_small`: the index belongs in the entry.
    """
    names = index_names(file)
    if present is None:
        return not wanted
    in_place = (file.embedded_index is not None, len(names)) == ((True, 0) if is_small else (False, 1))
    return in_place and {column: dict(bodies) for column, bodies in present.items()} == wanted


def with_index(file: DataFile, index: NewIndex) -> DataFile:
    """Return the entry of the same data file with another index; its other extra files stay."""
    old = index_names(file)
    kept = tuple(name for name in file.extra_files if name not in old)
    beside = () if index.file_name is None else (index.file_name,)
    return replace(file, extra_files=(*kept, *beside), embedded_index=index.embedded)


def indexed_entries(
    live: Iterable[ManifestEntry],
    names: Container[str] | None,
    file_schemas: Mapping[int, TableSchema],
    *,
    schema: TableSchema,
) -> list[ManifestEntry]:
    """Return the entries whose index may not be the wanted one; `names`: only of these files.

    Rows that wait for their buckets have no index: the compaction that moves them writes it. `file_schemas`: by
    id, the schemas of the files. Raises UnsupportedFeature for files that cannot be read.
    """
    found = []
    for entry in live:
        if not is_placed(entry.bucket) or (names is not None and entry.file.file_name not in names):
            continue
        check_file(entry.file, entry.bucket)
        if may_differ(entry.file, wanted_indexes(schema, file_schemas[entry.file.schema_id])):
            found.append(entry)
    return found
