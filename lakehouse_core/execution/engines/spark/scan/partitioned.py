"""Files of known partitions as one relation of Spark's own reader: a filter on a partition column opens no other files.

Spark would take the values from the names of folders, where dates may be numbers and null is a text. So its index of
files is given those of the table. The classes are no public interface of Spark: where they differ, nothing is made.
Source: docs/spark.md#reads.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse_core.execution.engines.spark.types import exchange_schema, spark_schema
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataField, column_of
from lakehouse_core.table.schema import TableSchema

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocatedFile:
    """A file at an address for Spark, in the folder of a bucket. `partition` is a serialized BinaryRow."""

    address: str
    partition: bytes

    @property
    def folder(self) -> str:
        return self.address.rpartition("/")[0]


def partitioned_frame(
    session: SparkSession,
    files: Sequence[LocatedFile],
    schema: TableSchema,
    stored: StructType,
    keys: Sequence[DataField],
    *,
    options: Mapping[str, str],
) -> DataFrame | None:
    """Return the columns `stored` of Parquet files and the partition columns `keys`, in this order.

    None where Spark makes no such relation: over Spark Connect, in a version with other classes, where a file is
    missing, and if two partitions share a folder, as null and the empty text do.
    """
    folders = {file.folder: file.partition for file in files}
    if any(folders[file.folder] != file.partition for file in files) or not hasattr(session, "_jsparkSession"):
        return None
    rows = {partition: row for row, partition in enumerate(dict.fromkeys(folders.values()))}
    places = [(folder, rows[partition]) for folder, partition in folders.items()]
    values = session.createDataFrame(_values(list(rows), schema, keys), spark_schema(keys))
    try:
        relation = _relation(session, [file.address for file in files], places, values, stored, options=options)
        frame = DataFrame(session._jsparkSession.baseRelationToDataFrame(relation), session)
        # The index leaves out, without a word, files that it does not find and folders that it writes in another way.
        found = frame._jdf.queryExecution().sparkPlan().selectedPartitions().totalNumberOfFiles()
        return frame if found == len(files) else None
    except (Py4JError, PySparkException, TypeError) as error:
        _LOG.info("Spark %s is told no partitions of files: %s", session.version, error)
        return None


def _values(partitions: Sequence[bytes], schema: TableSchema, keys: Sequence[DataField]) -> pa.Table:
    """Return the values of the keys, a row for each partition."""
    types = [field.type for field in schema.partition_fields]
    rows = [deserialize_row(partition, types) for partition in partitions]
    places = [schema.partition_keys.index(field.name) for field in keys]
    columns = [column_of([row[at] for row in rows], field.type) for at, field in zip(places, keys, strict=True)]
    exchange = exchange_schema(keys)
    return pa.Table.from_arrays([one.cast(to.type) for one, to in zip(columns, exchange, strict=True)], schema=exchange)


def _relation(
    session: SparkSession,
    addresses: Sequence[str],
    folders: Sequence[tuple[str, int]],
    values: DataFrame,
    stored: StructType,
    *,
    options: Mapping[str, str],
) -> Any:
    """Return a relation of Spark. `folders`: with the row of `values` that has the values of the partition."""
    jsession: Any = session._jsparkSession
    jvm: Any = session._jvm
    sources, scala = jvm.org.apache.spark.sql.execution.datasources, jvm.org.apache.spark.api.python.PythonUtils
    nothing = jvm.scala.Option.empty()
    # One call for all of them, of which there may be tens of thousands.
    texts = jvm.org.apache.commons.lang3.StringUtils.split("\n".join(addresses), "\n")
    paths = jvm.org.apache.hadoop.util.StringUtils.stringToPath(texts)
    # Constants: Spark runs no job for them.
    rows = values._jdf.queryExecution().executedPlan().executeCollect()
    keys, columns = (jsession.parseDataType(one.json()) for one in (values.schema, stored))
    by_number = [rows[number] for number in range(len(rows))]
    named = [sources.PartitionPath.apply(by_number[number], folder) for folder, number in folders]
    given = scala.toScalaMap(dict(options))
    index = sources.InMemoryFileIndex(
        jsession,
        jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(paths),
        given,
        nothing,
        getattr(getattr(sources, "NoopCache$"), "MODULE$"),
        jvm.scala.Option.apply(sources.PartitionSpec(keys, scala.toSeq(named))),
        nothing,
    )
    return sources.HadoopFsRelation(index, keys, columns, nothing, sources.parquet.ParquetFileFormat(), given, jsession)
