"""Native scan: DuckDB itself reads the files whose stored rows are the result without a merge.

DuckDB finds columns by name, trusts footers and bounds, and tests no checksum. So each file is opened and tested here
first, its pages too, but for those of row groups that the pushed condition excludes. Files for which DuckDB's reading
is not exact stay with the stream.
Source: docs/sql.md#without-spark.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakehouse_core.data_files.reader import WIDE_TEXT, corrupt_file
from lakehouse_core.errors import CorruptTable, LakehouseError
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engines.duckdb.box import quoted
from lakehouse_core.execution.engines.duckdb.tested_files import Footer, TestedFile
from lakehouse_core.execution.read.scan import ScanPlan, expiry_of, explain_missing_files
from lakehouse_core.format.data_types import DataField, TypeRoot, arrow_type, atomic_parts, has_same_kind
from lakehouse_core.planning.read.lazy_splits import LazySplits
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split

# DuckDB expands these characters in paths.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
# The types of columns that are read natively, as an Arrow stream gives them to DuckDB.
_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time32("ms"): "TIME",
    pa.timestamp("ms"): "TIMESTAMP_MS",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ms", "UTC"): "TIMESTAMPTZ",
    pa.timestamp("us", "UTC"): "TIMESTAMPTZ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRead:
    """What DuckDB reads of a plan by itself. `rest`: what is read as a stream, None if nothing is left.

    `folder`: where the files are; `paths`: of the files, with their keys; `text`: the query of their rows.
    """

    folder: str
    paths: Mapping[str, str]
    text: str
    rest: ScanPlan | None


def native_splits(plan: ScanPlan) -> list[Split]:
    """Return the splits that DuckDB reads by itself, by their metadata alone."""
    if plan.store.scheme != "file" or plan.with_row_kinds or plan.is_increment or plan.limit is not None:
        return []
    if isinstance(plan.splits, LazySplits) or not _differ_without_case(plan.schema):
        return []
    fields = [plan.schema.field(name) for name in plan.columns]
    if not all(_is_stored(field) and _duckdb_type(arrow_type(field.type)) is not None for field in fields):
        return []
    return [split for split in plan.splits if _is_native(split, plan)]


def native_read(plan: ScanPlan, table: TableContext, *, tests_pages: bool = True) -> NativeRead | None:
    """Open and test the files of native splits, with `tests_pages` also their pages if the table verifies its reads.
    Return what DuckDB reads, None if that is nothing. Raises CorruptTable for a missing or damaged file,
    SnapshotExpired if its snapshot expired meanwhile.
    """
    splits = native_splits(plan)
    if not splits:
        return None
    store = table.runtime.open_store(plan.store)
    tested = explain_missing_files(((split, _tested(split, plan, store, tests_pages)) for split in splits), table, plan)
    chosen = {id(split): parts for split, parts in tested if parts is not None}
    if not chosen:
        return None
    folder = os.path.realpath(plan.store.root)
    rest = tuple(split for split in plan.splits if id(split) not in chosen)
    paths: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    for split in splits:
        for file, query in zip(split.files, chosen.get(id(split), ()), strict=id(split) in chosen):
            key = f"{split.folder}/{file.file_name}"
            paths[f"{folder}/{key}"] = key
            groups.setdefault(query, []).append(quoted(f"{folder}/{key}"))
    text = " UNION ALL ".join(query.format(files=", ".join(files)) for query, files in groups.items())
    return NativeRead(folder=folder, paths=paths, text=text, rest=replace(plan, splits=rest) if rest else None)


def native_count(plan: ScanPlan, table: TableContext) -> int:
    """Return how many splits DuckDB reads by itself. Raises as `native_read` does."""
    read = native_read(plan, table, tests_pages=False)
    return 0 if read is None else len(plan.splits) - (0 if read.rest is None else len(read.rest.splits))


def file_error(message: str, read: NativeRead, plan: ScanPlan, table: TableContext) -> LakehouseError | None:
    """Return the error of the file of the read that DuckDB's message names, None if it names none."""
    path = next((path for path in read.paths if path in message), None)
    if path is None:
        return None
    if os.path.exists(path):
        return corrupt_file(read.paths[path], f"DuckDB cannot read it ({message.splitlines()[0]})")
    return expiry_of(plan, table) or CorruptTable.missing(f"file://{path}")


def _is_native(split: Split, plan: ScanPlan) -> bool:
    if not split.raw or split.deletions or split.before is not None:
        return False
    if _PATTERN.search(f"{plan.store.root}/{split.folder}"):
        return False
    return all(_is_plain(file, plan) for file in split.files)


def _is_plain(file: DataFile, plan: ScanPlan) -> bool:
    if file.external_path is not None or not file.file_name.endswith(".parquet"):
        return False
    if _PATTERN.search(file.file_name):
        return False
    # An index may exclude rows that DuckDB would read.
    if plan.predicate is not None and (file.embedded_index is not None or file.extra_files):
        return False
    schema = plan.file_schemas.get(file.schema_id, plan.schema)
    return _sources(plan, schema) is not None


def _sources(plan: ScanPlan, schema: TableSchema) -> list[tuple[DataField, DataField | None]] | None:
    """Return the plan's columns with those of a file of this schema; None if DuckDB would have to cast values."""
    by_id = {field.id: field for field in schema.fields}
    found = []
    for name in plan.columns:
        target = plan.schema.field(name)
        source = by_id.get(target.id)
        if source is not None and not has_same_kind(source.type, target.type):
            return None
        found.append((target, source))
    return found


def _tested(split: Split, plan: ScanPlan, store: ObjectStore, tests_pages: bool) -> list[str] | None:
    """Test the files of a split; return the query that reads each of them, None if the stream must read one."""
    queries = []
    for file in split.files:
        schema = plan.file_schemas.get(file.schema_id, plan.schema)
        with TestedFile(store, split.folder, file, schema, plan) as tested:
            query = _query(tested.footer, plan, schema)
            if query is None:
                return None
            if tests_pages:
                tested.test_pages()
        queries.append(query)
    return queries


def _query(footer: Footer, plan: ScanPlan, schema: TableSchema) -> str | None:
    """Return the query of a file's rows with a place for its path; None if DuckDB would not read it exactly."""
    sources = _sources(plan, schema)
    assert sources is not None
    columns = []
    if len({name.casefold() for name in footer.types}) < len(footer.types):
        return None
    for target, source in sources:
        kind = _duckdb_type(arrow_type(target.type))
        if source is None:
            columns.append(f"CAST(NULL AS {kind}) AS {_name(target.name)}")
            continue
        plain = arrow_type(source.type)
        if footer.types.get(source.name) not in (plain, WIDE_TEXT.get(plain, plain)):
            return None
        # Bounds do not cover NaN, which DuckDB takes for the greatest value.
        if footer.has_bounds_of_floats(source.name):
            return None
        columns.append(f"CAST({_name(source.name)} AS {kind}) AS {_name(target.name)}")
    where = "" if schema.is_append or footer.only_inserts else f" WHERE {VALUE_KIND} IN (0, 2)"
    options = "hive_partitioning = false, union_by_name = false, binary_as_string = false"
    return f"SELECT {', '.join(columns)} FROM read_parquet([{{files}}], {options}){where}"


def _name(name: str) -> str:
    # Doubled braces: the text is a template.
    return '"' + name.replace('"', '""').replace("{", "{{").replace("}", "}}") + '"'


def _duckdb_type(kind: pa.DataType) -> str | None:
    """Return DuckDB's type of a column in an Arrow stream, None for a type that is not read natively."""
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind):
        element = _duckdb_type(kind.value_type)
        return None if element is None else f"{element}[]"
    if pa.types.is_map(kind):
        key, value = _duckdb_type(kind.key_type), _duckdb_type(kind.item_type)
        return None if key is None or value is None else f"MAP({key}, {value})"
    if pa.types.is_struct(kind):
        parts = [(_name(part.name), _duckdb_type(part.type)) for part in kind]
        known = [f"{name} {text}" for name, text in parts if text is not None]
        return f"STRUCT({', '.join(known)})" if known and len(known) == len(parts) else None
    return _TYPES.get(kind)


def _is_stored(field: DataField) -> bool:
    """Return whether files hold the values of a column as Parquet's own types."""
    roots = {part.root for part in atomic_parts(field.type)}
    return not roots & {TypeRoot.VARIANT, TypeRoot.BLOB}


def _differ_without_case(schema: TableSchema) -> bool:
    return len({field.name.casefold() for field in schema.fields}) == len(schema.fields)
