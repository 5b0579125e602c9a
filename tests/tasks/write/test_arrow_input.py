"""Batches of other programs: what they leave out is put in before anyone looks."""

import pyarrow as pa

from lakehouse_core.tasks.write.arrow_input import arrow_source
from lakehouse_core.tasks.write.input import source_rows


def test_lists_without_elements_arrive_whole_though_java_leaves_out_their_offsets():
    _, (batch,) = arrow_source(from_java())

    # Either would end this process as the rows came.
    assert batch.nbytes > 0
    assert len(pa.concat_arrays([batch.column("rows")] * 2)) == 4
    assert batch.to_pydict() == {"id": [1, 2], "rows": [[], []]}


def test_the_source_of_a_merge_may_have_such_lists_too():
    assert source_rows(from_java()).to_pydict() == {"id": [1, 2], "rows": [[], []]}


def from_java() -> pa.RecordBatchReader:
    inner = pa.Array.from_buffers(pa.map_(pa.string(), pa.int32()), 0, [None, None], children=[no_entries()])
    row = pa.Array.from_buffers(pa.struct([("m", inner.type)]), 0, [None], children=[inner])
    offsets = pa.array([0, 0, 0], pa.int32()).buffers()[1]
    rows = pa.Array.from_buffers(pa.list_(row.type), 2, [None, offsets], children=[row])

    sent = pa.record_batch({"id": [1, 2], "rows": rows})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, sent.schema) as writer:
        writer.write(sent)

    return pa.ipc.open_stream(stream.getvalue())


def no_entries():
    return pa.array([], pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.int32())]))
