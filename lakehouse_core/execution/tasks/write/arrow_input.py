"""Arrow batches as other programs send them, made such that every Arrow function takes them.

Java leaves out the one offset of a list without elements. Measuring, joining or casting the lists around it then ends
the process, so nothing is written that did not pass here.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa


def normalized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the offsets that some of their lists lack."""
    for batch in batches:
        if any(map(_lacks_offsets, batch.columns)):
            # Taking rows does not look at what lists without elements lack, and makes new offsets.
            yield batch.take(pa.array(range(batch.num_rows)))
        else:
            yield batch


def _lacks_offsets(array: pa.Array) -> bool:
    kind = array.type
    if pa.types.is_struct(kind):
        return any(_lacks_offsets(array.field(index)) for index in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.buffers()[1]
        return offsets is None or offsets.size == 0 or _lacks_offsets(array.values)
    return False
