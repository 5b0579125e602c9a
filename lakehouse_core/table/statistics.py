"""Table statistics as ANALYZE stores them: a file that a snapshot names.

They describe the merged table and help to order joins; no result depends on them.
Source: docs/format/statistics.md#table-statistics-file.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.strict_json import json_with_checksum, strict_json

# Statistics are replaced as a whole, never edited, so ignoring the fields of newer writers loses nothing.
_CONFIG = ConfigDict(
    frozen=True,
    strict=True,
    alias_generator=to_camel,
    validate_by_name=True,
    validate_by_alias=True,
    extra="ignore",
    defer_build=True,
)


class ColumnStatistics(BaseModel):
    """The statistics of one column; None: unknown. `min` and `max` are text, lengths are bytes."""

    model_config = _CONFIG

    col_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


class TableStatistics(BaseModel):
    """Statistics of one snapshot; valid for readers of snapshots with the same schema id. Sizes in bytes."""

    model_config = _CONFIG

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    col_stats: Mapping[str, ColumnStatistics] = Field(default_factory=dict)


def parse_statistics(data: bytes, key: str) -> TableStatistics:
    """Return the statistics in `data`; `key` names the file in errors. Raises CorruptTable."""
    document = strict_json(data, key)
    try:
        return TableStatistics.model_validate(_without_nulls(document), by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CorruptTable(
            f"{key}: field {field} is {first['input']!r:.100}: {first['msg']}. Analyze the table again."
        ) from error


def serialize_statistics(statistics: TableStatistics) -> bytes:
    return json_with_checksum(statistics.model_dump(mode="json", by_alias=True, exclude_none=True))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
