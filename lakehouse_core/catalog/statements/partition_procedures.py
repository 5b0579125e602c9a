"""CALL of procedures about whole partitions, each a verb of `Table`.

Rule: the answer has the columns of Java's procedure.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.partition_arguments import named_partitions
from lakehouse_core.catalog.statements.procedure_arguments import (
    duration_of,
    partitions_of,
    text_of,
    whole_of,
)
from lakehouse_core.catalog.statements.tag_procedures import DONE, Procedure
from lakehouse_core.errors import UnsupportedFeature, shown
from lakehouse_core.table.bucketing import total_buckets


def _expire_partitions(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    strategy = arguments.get("expire_strategy")
    if strategy not in (None, "values-time", "update-time"):
        raise UnsupportedFeature(
            f"sys.expire_partitions: expire_strategy is {shown(strategy)}, expected 'values-time' or 'update-time'."
        )

    def text(name: str) -> str | None:
        return text_of("expire_partitions", name, arguments) if name in arguments else None

    report = table.expire_partitions(
        duration_of("expire_partitions", "expiration_time", arguments),
        formatter=text("timestamp_formatter"),
        pattern=text("timestamp_pattern"),
        at_most=whole_of("expire_partitions", "max_expires", arguments, "a number of partitions"),
        strategy=strategy,
    )
    names = [
        ", ".join(f"{name}={'null' if value is None else value}" for name, value in partition.items())
        for partition in report.partitions_expired
    ]
    rows = pa.table({"expired_partitions": pa.array(names or ["No expired partitions."])})
    return answer_of(call.sql.text, rows, [report])


def _mark_partition_done(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    report = table.mark_partitions_done(partitions_of("mark_partition_done", arguments))
    return answer_of(call.sql.text, DONE, [report])


def _rescale(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    buckets = whole_of("rescale", "bucket_num", arguments, "a number of buckets")
    now = total_buckets(table.schema.bucketing)
    partitions = named_partitions("rescale", table, arguments)
    if partitions == [None]:
        reports = [table.rescale(None if buckets == now else buckets)]
    elif buckets in (None, now):
        reports = [table.rescale(partition=one) for one in partitions]
    else:
        raise UnsupportedFeature(
            f"sys.rescale: bucket_num is {buckets}, and the option bucket is {now}. A partition takes the count of its "
            "table: leave partitions and where out, or bucket_num."
        )
    return answer_of(call.sql.text, DONE, reports)


PARTITION_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "expire_partitions": _expire_partitions,
    "mark_partition_done": _mark_partition_done,
    "rescale": _rescale,
}
