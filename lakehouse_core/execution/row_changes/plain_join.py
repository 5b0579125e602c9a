"""Plain join: the join of a MERGE without an engine of SQL, where ON compares columns and every value is one.

Rule: its rows are those of the plan's query. Rows of a clause are in the order of the source.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.planning.row_changes.merge_join import ACTION, ADDRESS, SOURCE, MergePlan, PlainJoin
from lakehouse_core.tasks.change_rows.among import comparable


def source_columns(plan: MergePlan, plain: PlainJoin) -> list[str]:
    """Return the columns of the source that the join takes, in a fixed order."""
    return list(dict.fromkeys([*(name for _, name in plan.equated), *plain.source_values.values()]))


def plain_rows(plan: MergePlan, plain: PlainJoin, target: pa.Table, source: pa.Table) -> pa.Table:
    """Return the joined rows that fall under a clause. `target`: with ADDRESS, those that the source can match."""
    targets, sources = _pairs(plan.equated, target, source)
    is_new = np.ones(source.num_rows, np.bool_)
    is_new[sources] = False
    new: Positions = np.flatnonzero(is_new) if plain.unmatched is not None else np.empty(0, np.int64)
    if plain.matched is None:
        targets, sources = targets[:0], sources[:0]
    of_target = pa.concat_arrays([pa.array(targets, pa.int64()), pa.nulls(len(new), pa.int64())])
    of_source = pa.array(np.concatenate([sources, new]), pa.int64())
    # The number of a clause that does not exist is of no row.
    actions = np.repeat(np.array([plain.matched or 0, plain.unmatched or 0], np.int32), [len(sources), len(new)])
    columns = {
        ADDRESS: target.column(ADDRESS).take(of_target),
        SOURCE: pa.repeat(pa.scalar(True), len(actions)),
        ACTION: pa.array(actions),
    }
    columns |= {alias: target.column(name).take(of_target) for name, alias in plan.kept.items()}
    columns |= {alias: target.column(name).take(of_target) for alias, name in plain.target_values.items()}
    columns |= {alias: source.column(name).take(of_source) for alias, name in plain.source_values.items()}
    return pa.table(columns)


def _pairs(equated: Sequence[tuple[str, str]], target: pa.Table, source: pa.Table) -> tuple[Positions, Positions]:
    """Return the positions of the rows of both that are equal, in the order of the source."""
    keys = [str(number) for number in range(len(equated))]
    left = _numbered([comparable(target.column(name)) for name, _ in equated], keys, "target")
    right = _numbered([comparable(source.column(name)) for _, name in equated], keys, "source")
    found = left.join(right, keys=keys, join_type="inner")
    targets, sources = found.column("target").to_numpy(), found.column("source").to_numpy()
    order = np.lexsort((targets, sources))
    return targets[order], sources[order]


def _numbered(columns: Sequence[pa.ChunkedArray], keys: Sequence[str], name: str) -> pa.Table:
    return pa.table([*columns, np.arange(len(columns[0]))], names=[*keys, name])
