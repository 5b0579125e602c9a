"""Row count: the check that a table has as many rows as its source makes of the committed batches.

Rule: rows that wait for a compaction to be read may make up the difference.
"""

from dataclasses import dataclass

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.pipeline import TableState

ROW_COUNT = "source_row_count"
_EXPECTED, _THROUGH = "paimon/rows_expected", "paimon/through"


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The rows that reads of a table have, and those that wait for a compaction: each of kind +I or +U may add a row,
    each of kind -U or -D may remove one.
    """

    count: int
    adding: int = 0
    removing: int = 0

    @staticmethod
    def of(table: lc.Table, state: TableState, count: int | None = None) -> "RowsFound":
        """Return the rows of a table in a state of it; `count`: those that reads have, where they are counted."""
        count = table.scan().count() if count is None else count
        if not state.waiting_rows or state.reads_waiting:
            return RowsFound(count)
        files = [file for file in table.files() if file.bucket < 0]
        total = sum(file.row_count for file in files)
        # A file that does not tell them may have any number of them.
        least = sum(file.delete_row_count or 0 for file in files)
        most = sum(file.row_count if file.delete_row_count is None else file.delete_row_count for file in files)
        return RowsFound(count, adding=total - least, removing=most)


def row_count_check(key: dg.AssetKey, expected: int, through: str | None, found: RowsFound) -> dg.AssetCheckResult:
    """Compare the rows of a table with those of its source, which are of its batches up to `through`."""
    may_come = f"add {found.adding:,} and remove {found.removing:,}"
    beside = f" (those that wait for a compaction may {may_come})" if found.adding or found.removing else ""
    counted = f"{found.count} rows{beside}, the source makes {expected}"
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=ROW_COUNT,
        passed=found.count - found.removing <= expected <= found.count + found.adding,
        severity=dg.AssetCheckSeverity.ERROR,
        description=counted + (f" through {through}" if through else ""),
        metadata={"dagster/row_count": found.count, _EXPECTED: expected, _THROUGH: through or ""},
    )


def counted_again(earlier: dg.AssetCheckEvaluation, found: RowsFound) -> dg.AssetCheckResult:
    """Return the check for other rows of the same batches. The source is not asked: it makes as many as before."""
    expected, through = earlier.metadata[_EXPECTED].value, earlier.metadata[_THROUGH].value
    assert isinstance(expected, int)
    return row_count_check(earlier.asset_key, expected, str(through) or None, found)
