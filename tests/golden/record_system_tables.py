"""`python -m tests.golden.record_system_tables` asks Java for system tables of golden tables, and keeps its answers.

Needs Java and Maven, as `make interop` does. The folder of the warehouse is told as WAREHOUSE.
"""

import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

from tests.golden import sets
from tests.interop.judge import Judge
from tests.interop.system_tables import OF_METADATA, OF_ROWS

SET = "java-2.0.0"
ANSWERS = sets.HERE / SET / "system-tables.json.xz"
# Between them every kind of column that a system table shows: partitions, statistics, evolved schemas, tags, indexes.
TABLES = (
    *("agg_sum", "append_nonlegacy_partitions", "append_odd_partitions", "append_part_unaware", "append_row_tracking"),
    *("append_stats_sparse", "append_typed_partitions", "branches", "cl_lookup", "consumers", "dv_dedup", "evolved_pk"),
    "evolved_casts_parquet",
    *("expired", "pk_all_parquet", "pk_multi_user", "pk_overwrite", "postpone", "pu_groups", "tags"),
)
# Those whose rows are read, too.
WITH_ROWS = ("append_part_unaware", "append_typed_partitions", "cl_lookup", "pk_multi_user", "pk_overwrite", "tags")
# Java fails to read this one.
FAILS = ("append_typed_partitions", "partitions")
# Read at an earlier snapshot: the latest has none.
STATISTICS = ("analyzed", "statistics", {"scan.snapshot-id": "3"})
# The last two: what is on level 0, which their scans pass over, has come all the same.
_BETWEEN = {"cl_lookup": "1,14", "pk_multi_user": "1,7", "tags": "early,kept", "dv_dedup": "1,14", "fr_none": "1,14"}
INCREMENTS = [
    (table, name, {"incremental-between": between, "incremental-between-scan-mode": mode})
    for table, between in _BETWEEN.items()
    for name in ("audit_log", "binlog")
    for mode in ("auto", "delta", "changelog", "diff")
    # Java has no binlog of a diff.
    if name == "audit_log" or (mode != "diff" and table != "tags")
]


def cases() -> list[tuple[str, str, dict[str, str]]]:
    """Return table, system table and options of every answer."""
    found: list[tuple[str, str, dict[str, str]]] = [STATISTICS, *INCREMENTS]
    for table in TABLES:
        names = (*OF_METADATA, *(OF_ROWS if table in WITH_ROWS else ()))
        found += [(table, name, {}) for name in names if (table, name) != FAILS]
    return found


def recorded() -> list[dict[str, Any]]:
    return json.loads(lzma.decompress(ANSWERS.read_bytes()))  # type: ignore[no-any-return]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Judge("2.0.0") as java:
        warehouse = str(sets.unpack(SET, Path(folder)))
        answers = []
        for table, name, options in cases():
            rows = java.call("read", table=f"db.{table}${name}", warehouse=warehouse, options=options)["rows"]
            text = json.dumps(rows).replace(warehouse, "WAREHOUSE")
            answers.append({"table": table, "name": name, "options": options, "rows": json.loads(text)})
    ANSWERS.write_bytes(lzma.compress(json.dumps(answers).encode(), preset=9))


if __name__ == "__main__":
    main()
