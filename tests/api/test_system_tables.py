"""System tables tell of a table what Java tells, by Java's names."""

import json
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.api.system.tables import SYSTEM_TABLES
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

T0 = datetime(2023, 11, 14, 22, 13, 20)  # where the virtual clock starts


@pytest.fixture
def catalog() -> Catalog:
    clock = VirtualClock()
    catalog = Catalog(MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    return catalog


@pytest.fixture
def orders(catalog: Catalog) -> lc.Table:
    """Two days; the second snapshot changes a row of the first day and deletes one."""
    table = catalog.create_table(
        "db.orders",
        {"dt": "DATE NOT NULL", "id": "INT NOT NULL", "v": "STRING"},
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "1"},
        comment="Orders.",
    )
    table.write([{"dt": date(2013, 1, day), "id": number, "v": "new"} for day in (1, 2) for number in (1, 2)])
    rows = [
        {"dt": date(2013, 1, 1), "id": 1, "v": "paid", "op": "+U"},
        {"dt": date(2013, 1, 1), "id": 2, "v": "new", "op": "-D"},
    ]
    table.write(rows, rowkind_column="op")
    return table


def rows(table: lc.Table, name: str, **options: str) -> list[dict]:
    return (
        table.system(name, options={key.replace("_", "."): value for key, value in options.items()})
        .to_arrow()
        .to_pylist()
    )


def test_the_history_is_told(orders: lc.Table) -> None:
    orders.create_tag("eod", at=1, retention=timedelta(hours=36))
    first, second = orders.snapshots()

    assert [row["snapshot_id"] for row in rows(orders, "snapshots")] == [1, 2]
    assert rows(orders, "snapshots")[0] == {
        "snapshot_id": 1,
        "schema_id": 0,
        "commit_user": first.commit_user,
        "commit_identifier": 2**63 - 1,
        "commit_kind": "APPEND",
        "commit_time": T0,
        "base_manifest_list": first.base_manifest_list,
        "delta_manifest_list": first.delta_manifest_list,
        "changelog_manifest_list": None,
        "total_record_count": 4,
        "delta_record_count": 4,
        "changelog_record_count": None,
        "watermark": first.watermark,
        "next_row_id": first.next_row_id,
        "operation": first.operation,
    }
    (tag,) = rows(orders, "tags")
    assert (tag["tag_name"], tag["snapshot_id"], tag["record_count"], tag["time_retained"]) == ("eod", 1, 4, "PT36H")
    assert second.id == 2


def test_the_declaration_is_told(orders: lc.Table) -> None:
    (schema,) = rows(orders, "schemas")

    assert json.loads(schema["fields"])[0] == {"id": 0, "name": "dt", "type": "DATE NOT NULL"}
    assert (schema["partition_keys"], schema["primary_keys"], schema["comment"]) == ('["dt"]', '["dt","id"]', "Orders.")
    assert rows(orders, "options") == [{"key": "bucket", "value": "1"}]
    assert rows(orders, "aggregation_fields")[2] == {
        "field_name": "v",
        "field_type": "STRING",
        "function": "[]",
        "function_options": "[]",
        "comment": None,
    }
    orders.alter(lc.SetOption("fields.v.stats-mode", "none"))
    assert rows(orders, "aggregation_fields")[2]["function_options"] == "[fields.v.stats-mode]"


def test_files_and_what_holds_them_are_told(orders: lc.Table) -> None:
    files = rows(orders, "files")

    assert len(files) == 3
    assert len(rows(orders, "files", **{"scan.version": "1"})) == 2
    assert {key: files[0][key] for key in ("partition", "bucket", "file_format", "level", "record_count")} == {
        "partition": "{2013-01-01}",
        "bucket": 0,
        "file_format": "parquet",
        "level": 0,
        "record_count": 2,
    }
    assert (files[0]["min_key"], files[0]["max_key"]) == ("[1]", "[2]")
    assert files[0]["min_value_stats"] == "{dt=15706, id=1, v=new}"
    assert files[0]["null_value_counts"] == "{dt=0, id=0, v=0}"
    assert files[0]["file_path"].endswith(f"/dt=15706/bucket-0/{orders.files()[0].file_name}")
    assert [(row["partition"], row["record_count"], row["file_count"]) for row in rows(orders, "buckets")] == [
        ("{2013-01-01}", 4, 2),
        ("{2013-01-02}", 2, 1),
    ]
    assert [(row["partition"], row["total_buckets"], row["done"]) for row in rows(orders, "partitions")] == [
        ("dt=2013-01-01", 1, False),
        ("dt=2013-01-02", 1, False),
    ]
    assert [(row["num_added_files"], row["max_partition_stats"]) for row in rows(orders, "manifests")] == [
        (2, "{2013-01-02}"),
        (1, "{2013-01-01}"),
    ]


def test_compacted_files_count_no_more_but_leave_their_time(orders: lc.Table) -> None:
    orders.compact(full=True)

    assert [(row["record_count"], row["file_count"]) for row in rows(orders, "buckets")] == [(1, 1), (2, 1)]


def test_rows_are_told_with_their_kinds(orders: lc.Table) -> None:
    day = date(2013, 1, 1)

    audit = sorted(rows(orders, "audit_log"), key=lambda row: (row["dt"], row["id"]))
    assert audit[:2] == [
        {"rowkind": "+U", "dt": day, "id": 1, "v": "paid"},
        {"rowkind": "-D", "dt": day, "id": 2, "v": "new"},
    ]
    assert {"rowkind": "+U", "dt": [day], "id": [1], "v": ["paid"]} in rows(orders, "binlog")
    assert rows(orders, "ro") == []
    orders.compact(full=True)
    assert len(rows(orders, "ro")) == 3
    assert len(rows(orders, "audit_log", **{"incremental-between": "1,2"})) == 2


def test_a_binlog_packs_the_two_sides_of_an_update(catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options=options)
    kinds = [("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2), ("-D", 2, 0), ("-U", 3, 1), ("+U", 3, 2)]
    table.write([{"op": op, "k": k, "v": v} for op, k, v in kinds], rowkind_column="op")

    told = table.system("binlog", options={"incremental-between": "0,1"}).to_arrow().to_pylist()

    assert told == [
        {"rowkind": "+I", "k": [1], "v": [1]},
        {"rowkind": "+U", "k": [1, 1], "v": [1, 2]},
        {"rowkind": "-D", "k": [2], "v": [0]},
        {"rowkind": "+U", "k": [3, 3], "v": [1, 2]},
    ]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_binlog_packs_no_sides_of_two_buckets(catalog: Catalog, swapped: bool) -> None:
    options = {"bucket": "2", "changelog-producer": "input"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    keys = {table.stage([{"k": k}], commit_user="asks", commit_identifier=0).messages[0].bucket: k for k in range(9)}
    before, after = (keys[1], keys[0]) if swapped else (keys[0], keys[1])
    table.write([{"op": "-U", "k": before}, {"op": "+U", "k": after}], rowkind_column="op")

    told = table.system("binlog", options={"incremental-between": "0,1"}).to_arrow().to_pylist()

    assert sorted((row["rowkind"], row["k"]) for row in told) == [("+U", [after]), ("-U", [before])]


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_every_system_table_of_a_new_table_can_be_read(catalog: Catalog, name: str) -> None:
    catalog.create_table("db.new", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})

    found = catalog.system_table(f"db.new${name}")

    assert found.to_arrow().schema == found.schema()
    assert isinstance(found.schema(), pa.Schema)


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_the_name_of_a_system_table_is_told_once_when_its_table_is_dropped(
    catalog: Catalog, orders: lc.Table, name: str
) -> None:
    found = orders.system(name)
    catalog.drop_table("db.orders")

    with pytest.raises(lc.TableDropped, match=rf"^db\.orders\${name}: the table was dropped"):
        found.to_arrow()


def test_names_and_options_that_mean_nothing_are_refused(catalog: Catalog, orders: lc.Table) -> None:
    with pytest.raises(lc.NotFound, match=r"system table 'snapshot' does not exist. Did you mean snapshots"):
        orders.system("snapshot")
    with pytest.raises(lc.InvalidRequest, match="this system table is the same for every snapshot"):
        orders.system("tags", options={"scan.snapshot-id": "1"})
    with pytest.raises(lc.InvalidRequest, match="incremental-between means changes, not a state"):
        rows(orders, "files", **{"incremental-between": "1,2"})
    with pytest.raises(lc.InvalidRequest, match=r"expected 'database.table\$name'"):
        catalog.system_table("db.orders")
    with pytest.raises(lc.InvalidRequest, match="is a system table: call system_table"):
        catalog.table("db.orders$files")
