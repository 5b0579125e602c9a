"""The columns of system tables, in Java's order and types. Source: docs/semantics/reading.md#system-tables."""

from collections.abc import Mapping
from typing import Final

from lakehouse_core.format.data_types import DataField, parse_type

# One column a line: name and type.
_DECLARED: Final[Mapping[str, str]] = {
    "snapshots": """
        snapshot_id BIGINT NOT NULL
        schema_id BIGINT NOT NULL
        commit_user STRING NOT NULL
        commit_identifier BIGINT NOT NULL
        commit_kind STRING NOT NULL
        commit_time TIMESTAMP(3) NOT NULL
        base_manifest_list STRING NOT NULL
        delta_manifest_list STRING NOT NULL
        changelog_manifest_list STRING
        total_record_count BIGINT
        delta_record_count BIGINT
        changelog_record_count BIGINT
        watermark BIGINT
        next_row_id BIGINT
        operation STRING
        """,
    "schemas": """
        schema_id BIGINT NOT NULL
        fields STRING NOT NULL
        partition_keys STRING NOT NULL
        primary_keys STRING NOT NULL
        options STRING NOT NULL
        comment STRING
        update_time TIMESTAMP(3) NOT NULL
        """,
    "options": """
        key STRING NOT NULL
        value STRING NOT NULL
        """,
    "files": """
        partition STRING
        bucket INT NOT NULL
        file_path STRING NOT NULL
        file_format STRING NOT NULL
        schema_id BIGINT NOT NULL
        level INT NOT NULL
        record_count BIGINT NOT NULL
        file_size_in_bytes BIGINT NOT NULL
        min_key STRING
        max_key STRING
        null_value_counts STRING NOT NULL
        min_value_stats STRING NOT NULL
        max_value_stats STRING NOT NULL
        min_sequence_number BIGINT
        max_sequence_number BIGINT
        creation_time TIMESTAMP(3)
        deleteRowCount BIGINT
        file_source STRING
        first_row_id BIGINT
        write_cols ARRAY<STRING>
        """,
    "manifests": """
        file_name STRING NOT NULL
        file_size BIGINT NOT NULL
        num_added_files BIGINT NOT NULL
        num_deleted_files BIGINT NOT NULL
        schema_id BIGINT NOT NULL
        min_partition_stats STRING
        max_partition_stats STRING
        min_row_id BIGINT
        max_row_id BIGINT
        """,
    "partitions": """
        partition STRING
        record_count BIGINT NOT NULL
        file_size_in_bytes BIGINT NOT NULL
        file_count BIGINT NOT NULL
        last_update_time TIMESTAMP(3)
        created_at TIMESTAMP(3)
        created_by STRING
        updated_by STRING
        options STRING
        total_buckets INT NOT NULL
        done BOOLEAN NOT NULL
        deleted_record_count BIGINT
        """,
    "buckets": """
        partition STRING
        bucket INT NOT NULL
        record_count BIGINT NOT NULL
        file_size_in_bytes BIGINT NOT NULL
        file_count BIGINT NOT NULL
        last_update_time TIMESTAMP(3)
        """,
    "tags": """
        tag_name STRING NOT NULL
        snapshot_id BIGINT NOT NULL
        schema_id BIGINT NOT NULL
        commit_time TIMESTAMP(3) NOT NULL
        record_count BIGINT
        create_time TIMESTAMP(3)
        time_retained STRING
        """,
    "branches": """
        branch_name STRING NOT NULL
        create_time TIMESTAMP(3) NOT NULL
        """,
    "consumers": """
        consumer_id STRING NOT NULL
        next_snapshot_id BIGINT NOT NULL
        """,
    "aggregation_fields": """
        field_name STRING NOT NULL
        field_type STRING NOT NULL
        function STRING
        function_options STRING
        comment STRING
        """,
    "statistics": """
        snapshot_id BIGINT NOT NULL
        schema_id BIGINT NOT NULL
        mergedRecordCount BIGINT
        mergedRecordSize BIGINT
        colstat STRING
        """,
}

# Behind Java's columns of `files`, on request. Source: docs/lineage.md#files-of-a-table
_LINEAGE: Final = """
    snapshot_id BIGINT
    run_id STRING
    source_snapshot_ids ARRAY<BIGINT> NOT NULL
    source_run_ids ARRAY<STRING> NOT NULL
    is_traced BOOLEAN NOT NULL
    """


def _fields(declared: str) -> tuple[DataField, ...]:
    lines = (line.strip().partition(" ") for line in declared.strip().splitlines())
    return tuple(DataField(number, name, parse_type(kind)) for number, (name, _, kind) in enumerate(lines))


SYSTEM_COLUMNS: Final[Mapping[str, tuple[DataField, ...]]] = {
    name: _fields(declared) for name, declared in _DECLARED.items()
}
FILES_WITH_LINEAGE: Final[tuple[DataField, ...]] = _fields(_DECLARED["files"].rstrip() + _LINEAGE)
