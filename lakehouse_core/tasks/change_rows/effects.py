"""Effects: refuse new values that the merge engine of a key table would not take.

Source: docs/semantics/row-changes.md#rows-without-effect.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.merge.key_words import sequence_words
from lakehouse_core.options import MergeEngine
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema


def check_effect(old: pa.RecordBatch, new: pa.RecordBatch, assigned: Collection[str], schema: TableSchema) -> None:
    """Raise InvalidRequest if a merge of the `old` rows with the `new` ones would keep an old value of an `assigned`
    column.
    """
    spec = merge_spec(schema)
    if any(name in spec.sequence_fields for name in assigned):
        _check_order(old, new, spec.sequence_fields, descending=spec.sequence_descending)
    if spec.engine is not MergeEngine.PARTIAL_UPDATE:
        return
    grouped = {name: group for group in spec.groups for name in (*group.fields, *group.protected)}
    for name in assigned:
        if name not in grouped:
            if new.column(name).null_count:
                raise InvalidRequest(
                    f"Column {shown(name)}: the new value is null, which leaves the old value in a table with "
                    "merge-engine = partial-update. Delete the row, or assign another value."
                )
            continue
        group = grouped[name]
        absent = np.ones(new.num_rows, np.bool_)
        for each in group.fields:
            absent &= new.column(each).is_null().to_numpy(zero_copy_only=False)
        if absent.any():
            raise InvalidRequest(
                f"Column {shown(name)}: {', '.join(group.fields)}, the order of its sequence group, is null in a row, "
                f"so its new value has no effect. Assign {', '.join(group.fields)} too."
            )
        _check_order(old, new, group.fields, descending=False)


def _check_order(old: pa.RecordBatch, new: pa.RecordBatch, fields: Sequence[str], *, descending: bool) -> None:
    """Raise InvalidRequest for a row whose sequence fields are lower than before."""
    undecided = np.ones(new.num_rows, np.bool_)
    lower = np.zeros(new.num_rows, np.bool_)
    count = new.num_rows
    for name in fields:
        both = pa.concat_arrays([old.column(name), new.column(name)])
        for words in sequence_words(both, descending=descending):
            before, after = words[:count], words[count:]
            lower |= undecided & (after < before)
            undecided &= after == before
    if lower.any():
        row = int(np.flatnonzero(lower)[0])
        values = ", ".join(f"{name} from {old.column(name)[row]} to {new.column(name)[row]}" for name in fields)
        raise InvalidRequest(
            f"The new row would be older than the present one ({values}), so it has no effect. Assign a value that "
            "is not lower."
        )
