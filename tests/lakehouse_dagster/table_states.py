"""A table state for tests that need any."""

from datetime import UTC, datetime

from lakehouse_dagster.pipeline.table_state import TableState

STATE = TableState(
    table="ops.orders",
    incarnation="1700000000000",
    branch="main",
    snapshot_id=12,
    content_snapshot_id=10,
    content_time=datetime(2026, 11, 21, tzinfo=UTC),
    earliest_snapshot_id=3,
    schema_id=0,
    snapshots_retained=10,
    changelogs_retained=0,
    tags=0,
    files_total=20,
    bytes_total=4096,
    records_total=100,
    small_files=4,
    sorted_runs=2,
    manifests_total=3,
    recent=(),
)
