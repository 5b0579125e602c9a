"""pypaimon at work, in an environment of its own: its pins differ from ours. Run by `pypaimon_client`, never imported.

usage: pypaimon_peer.py create|write|read WAREHOUSE TABLE FILE [JSON]; FILE is an Arrow stream, read or written.
WAREHOUSE is a folder, or the options of a catalog as JSON.
Without arguments it reads such calls from its input, each a JSON list in a line, and answers each with `done`.
"""

import json
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema


def main(verb, warehouse, name, file, extra="{}"):
    catalog = CatalogFactory.create(json.loads(warehouse) if warehouse[0] == "{" else {"warehouse": warehouse})
    if verb == "create":
        with pa.ipc.open_stream(file) as stream:
            schema = Schema.from_pyarrow_schema(stream.schema, **json.loads(extra))
        catalog.create_database(name.split(".")[0], True)
        catalog.create_table(name, schema, False)
        return
    table = catalog.get_table(name)
    if verb == "write":
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        with pa.ipc.open_stream(file) as stream:
            write.write_arrow(stream.read_all())
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        return
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows)


if len(sys.argv) > 1:
    main(*sys.argv[1:])
else:
    for call in sys.stdin:
        main(*json.loads(call))
        print("done", flush=True)
