"""Bounds of columns as manifests hold them: what nobody may take amiss, whatever engine reads them."""

import pyarrow as pa

from lakehouse_core.table.stats import decode_stats
from tests.tasks.loose_files import append_table


def test_bytes_have_null_counts_but_no_bounds():
    """Java before 2.0 compares bytes as signed and would skip files that hold what is asked for; it writes none."""
    table = append_table({"b": "BYTES", "f": "BINARY(1)", "long": "VARBINARY(9000)"}, metadata__stats_mode="full")
    columns = {"b": [b"\x7f", b"\x90", None], "f": [b"\x01"] * 3, "long": [b"x" * 9000, None, None]}

    (message,) = table.write(pa.table({name: pa.array(values, pa.binary()) for name, values in columns.items()}))

    (file,) = message.new_files
    types = [field.type for field in table.schema.fields]
    assert decode_stats(file.value_stats, types) == ((None,) * 3, (None,) * 3, (1, 0, 2))
