"""Selection: which rows a query, or a path of files, gives to each partition of a table.

Rule: without partitions the source has no parameter; with partitions its parameters tell all keys apart.
"""

from lakehouse_dagster.specs.names import nearest
from lakehouse_dagster.specs.partitions import PartitionsSpec
from lakehouse_dagster.specs.sources import FilesSpec, SqlSpec
from lakehouse_dagster.specs.strict import Misfit


def check_query(sql: SqlSpec, partitions: PartitionsSpec | None) -> None:
    """Raise Misfit for a query whose parameters do not fit the partitions."""
    if partitions is None:
        if sql.cursor is None and sql.parameters:
            raise Misfit(
                ("sql", "query"),
                f"sql.query uses :{sql.parameters[0]}, but the table has no partitions. Give it partitions",
            )
        return
    if partitions.multi is not None:
        raise Misfit(("partitions",), "partitions of a query have one dimension. Leave multi out")
    if not sql.parameters:
        raise Misfit(
            ("sql", "query"),
            "sql.query selects the same rows for each partition. Use :partition_key in it, or :partition_start and "
            ":partition_end",
        )
    if partitions.time is None and (ends := [each for each in sql.parameters if each != "partition_key"]):
        raise Misfit(("sql", "query"), f"sql.query uses :{ends[0]}, which is for time. Use :partition_key")


def check_path(files: FilesSpec, partitions: PartitionsSpec | None) -> None:
    """Raise Misfit for a path of files whose parameters do not fit the partitions."""
    found = files.parameters
    if partitions is None:
        if "partition_key" in dict(found):
            raise Misfit(
                ("files", "path"),
                "files.path has {partition_key}, but the table has no partitions. Give it partitions",
            )
        return
    dimensions = partitions.multi or {"partition_key": partitions}
    if unknown := [name for name, _ in found if name not in dimensions]:
        raise Misfit(("files", "path"), f"files.path has {{{unknown[0]}}}{nearest(unknown[0], dimensions)}")
    if missing := [name for name in dimensions if name not in dict(found)]:
        raise Misfit(("files", "path"), f"files.path selects the same files for each key. Use {{{missing[0]}}} in it")
    if keyed := [name for name, pattern in found if pattern and dimensions[name].time is None]:
        raise Misfit(
            ("files", "path"),
            f"files.path has a pattern of time for {keyed[0]}, whose keys are no windows of time. Use {{{keyed[0]}}}",
        )
