"""The functions on what Java Paimon aggregated: the operations of the golden tables, record by record."""

from typing import Any

import pytest

from lakehouse_core.format.data_types import DataField, parse_type
from lakehouse_core.table.merge_spec import MergeSpec, merge_spec
from lakehouse_core.table.schema import TableSchema
from tests.golden import sets
from tests.merge.functions.folding import canonical, records, shown
from tests.oracle.aggregation import Record, flushed, read

pytestmark = pytest.mark.golden

TABLES = [
    *("agg_bool_sum_seq", "agg_ignore_retract", "agg_max", "agg_min", "agg_nested", "agg_nested_retract"),
    *("agg_product", "agg_remove", "agg_sketch", "agg_sum", "agg_values"),
]


def schema_of(doc: sets.Doc) -> TableSchema:
    fields = [DataField(index, field["name"], parse_type(field["type"])) for index, field in enumerate(doc["fields"])]
    return TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=len(fields),
        primary_keys=tuple(doc["primaryKeys"]),
        options=doc["options"],
    )


@pytest.mark.parametrize("table", TABLES)
def test_folding_the_records_of_a_golden_table_gives_the_rows_that_java_reads(table: str) -> None:
    doc = sets.docs("java-2.0.0")[table]
    schema = schema_of(doc)
    spec: MergeSpec = merge_spec(schema)
    expected = sets.rows_by_snapshot(doc)
    runs: list[dict[Any, Record]] = []

    for operation in doc["operations"]:
        if operation["verb"] == "write":
            runs.append(flushed(spec, records(operation["rows"], schema)))
            assert shown(read(spec, runs), schema) == canonical(expected[operation["snapshots"][0]])
        if operation["verb"] == "compact" or operation.get("compact") == "full":
            runs = [read(spec, runs)]
            assert shown(runs[0], schema) == canonical(expected[operation["snapshots"][-1]])
