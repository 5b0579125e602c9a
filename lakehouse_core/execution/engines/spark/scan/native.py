"""Native scan: Spark itself reads the splits whose stored rows are the result without a merge.

Spark finds columns by name, trusts footers, and reads a missing column as nulls. Files for which that is not exact are
read by Python tasks.
Source: docs/spark.md#reads.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, StructField, StructType

from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.execution.engines.spark.runtime import driver_runtime
from lakehouse_core.execution.engines.spark.scan.connector import reaches, spark_path, spark_settings
from lakehouse_core.execution.engines.spark.scan.partitioned import LocatedFile, partitioned_frame
from lakehouse_core.execution.engines.spark.session import settings
from lakehouse_core.execution.engines.spark.types import spark_schema
from lakehouse_core.format.data_types import TIMESTAMP_ROOTS, DataField, atomic_parts, has_same_kind
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.read import ReadTask

# Spark expands these characters in paths, and skips hidden files silently.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
_HIDDEN: Final = ("_", ".")
_SCHEMES: Final = ("file", "s3")
# Spark's timestamps have microseconds.
_FINEST_PRECISION: Final = 6
# Above 32 paths Spark would list them in a job, which takes ten times as long on a local disk.
_LISTING_THRESHOLD: Final = "100000"
# In an object store the driver would ask for each file, one after the other.
_REMOTE_LISTING_THRESHOLD: Final = "32"
# There Spark opens a file by several requests, so small files are read faster by Python tasks.
_LEAST_REMOTE_BYTES: Final = 16 << 20
_MOST_REMOTE_FILES: Final = 500


def native_tasks(session: SparkSession, tasks: Sequence[ReadTask], fields: Sequence[DataField]) -> list[ReadTask]:
    """Return the tasks that Spark's own reader carries out: exactly, and not slower than Python tasks."""
    found = [task for task in tasks if is_native(task, fields)]
    if not found or found[0].store.scheme == "file":
        return found
    sizes = [file.file_size for task in found for file in task.split.files]
    if len(sizes) > _MOST_REMOTE_FILES or sum(sizes) < _LEAST_REMOTE_BYTES * len(sizes):
        return []
    split, store = found[0].split, found[0].store
    key = f"{split.folder}/{split.files[0].file_name}"
    return found if reaches(session, store, key, split.files[0].file_size) else []


def is_native(task: ReadTask, fields: Sequence[DataField]) -> bool:
    """Return whether Spark's own reader gives exactly the task's rows of these columns."""
    is_plain = task.split.raw and not task.with_row_kinds and task.store.scheme in _SCHEMES and not task.split.deletions
    if not is_plain or not all(map(is_exact, fields)) or not differ_without_case(fields):
        return False
    if _PATTERN.search(f"{task.store.root}/{task.split.folder}"):
        return False
    schemas = {task.schema.id: task.schema, **task.file_schemas}
    return all(_is_plain(file, schemas[file.schema_id], fields) for file in task.split.files)


def native_frame(session: SparkSession, tasks: Sequence[ReadTask], fields: Sequence[DataField]) -> DataFrame:
    """Return the columns of native tasks' rows as a frame, in any order; filters on partition columns skip files.

    Raises CorruptTable for a missing file or a damaged footer on a disk. Corrupt files are never skipped, whatever the
    session's settings are.
    """
    first = tasks[0]
    schema = first.schema
    keys = [field for field in fields if field.name in schema.partition_keys]
    marks = [] if schema.is_append else [StructField(VALUE_KIND, ByteType())]
    reading = {
        "ignoreMissingFiles": "false",
        "ignoreCorruptFiles": "false",
        # Days and instants before the Gregorian calendar are stored as they are.
        "datetimeRebaseMode": "CORRECTED",
        **spark_settings(session, first.store),
    }
    if schema.table_options.read_verify:
        reading["parquet.page.verify-checksum.enabled"] = "true"
    files = list(_files(tasks))
    threshold = _LISTING_THRESHOLD if first.store.scheme == "file" else _REMOTE_LISTING_THRESHOLD
    with settings(session, {"spark.sql.sources.parallelPartitionDiscovery.threshold": threshold}):
        frame: DataFrame | None = None
        if keys:
            stored = StructType([*spark_schema(field for field in fields if field not in keys), *marks])
            frame = partitioned_frame(session, files, schema, stored, keys, options=reading)
        if frame is None:
            reader = session.read.schema(StructType([*spark_schema(fields), *marks]))
            frame = reader.options(recursiveFileLookup="true", **reading).parquet(*(file.address for file in files))
    # A file without a delete count may have delete records.
    return frame.where(f"{VALUE_KIND} in (0, 2)") if marks else frame


def _files(tasks: Iterable[ReadTask]) -> Iterator[LocatedFile]:
    open_store = driver_runtime().open_store
    for task in tasks:
        store = open_store(task.store)
        for file in task.split.files:
            key = f"{task.split.folder}/{file.file_name}"
            if task.store.scheme != "file":
                # The store keeps checksums, and a footer a request.
                yield LocatedFile(spark_path(task.store, key), task.split.partition)
                continue
            schema = {task.schema.id: task.schema, **task.file_schemas}[file.schema_id]
            # Spark trusts the footer, so it is checked here.
            ParquetFileReader(store, key, file, schema, verify=task.schema.table_options.read_verify).close()
            yield LocatedFile(store.uri(key), task.split.partition)


def differ_without_case(fields: Sequence[DataField]) -> bool:
    """Return whether Spark, which ignores the case of names, takes no column for another one."""
    return len({field.name.casefold() for field in fields}) == len(fields)


def is_exact(field: DataField) -> bool:
    """Return whether Spark reads all values of the type without loss."""
    roots = atomic_parts(field.type)
    return all(part.root not in TIMESTAMP_ROOTS or (part.precision or 0) <= _FINEST_PRECISION for part in roots)


def _is_plain(file: DataFile, schema: TableSchema, fields: Sequence[DataField]) -> bool:
    """Return whether Spark finds the columns in the file by name and type, or rightly reads missing ones as nulls."""
    if file.external_path is not None or not file.file_name.endswith(".parquet"):
        return False
    if file.file_name.startswith(_HIDDEN) or not differ_without_case(schema.fields):
        return False
    by_id = {field.id: field for field in schema.fields}
    for field in fields:
        source = by_id.get(field.id)
        if source is None:
            # The column was added after the file. Spark would read another column that had the same name then.
            if schema.has_field(field.name):
                return False
        elif source.name != field.name or not has_same_kind(source.type, field.type):
            return False
    return True
