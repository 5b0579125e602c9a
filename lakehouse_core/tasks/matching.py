"""Matching rows: the positions of the rows of a batch that satisfy a condition."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.format.data_types import DataField
from lakehouse_core.format.rows import Rows
from lakehouse_core.table.predicate import Predicate, columns_of, to_expression
from lakehouse_core.table.schema import RESERVED_PREFIX

# Not the name of a column, which never begins like this.
_POSITION: Final = f"{RESERVED_PREFIX}POSITION"


def matching_rows(batch: pa.RecordBatch, predicate: Predicate | None, fields: Sequence[DataField]) -> Rows:
    """Return the positions of the rows for which the bound condition is true, rising; None: of all rows."""
    positions = np.arange(batch.num_rows, dtype=np.int64)
    if predicate is None:
        return positions
    numbered = batch.select(sorted(columns_of(predicate))).append_column(_POSITION, pa.array(positions))
    expression = to_expression(predicate, {field.name: field.type for field in fields})
    found: Rows = numbered.filter(expression).column(_POSITION).to_numpy()
    return found
