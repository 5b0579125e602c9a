"""When a table is maintained, as text: figures, limits, what is due."""

from dataclasses import replace

import pytest

from lakehouse_dagster.pipeline.maintenance import figures
from lakehouse_dagster.pipeline.table_state import TableState
from lakehouse_dagster.specs import MaintenanceSpec


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({}, []),
        ({"small_files": 16}, []),
        ({"small_files": 17}, ["compact_full"]),
        ({"sorted_runs": 6}, ["compact_full"]),
        ({"manifests_total": 17}, ["compact_manifests"]),
        ({"snapshots_retained": 31}, ["expire"]),
        (
            {"small_files": 17, "sorted_runs": 6, "manifests_total": 17},
            ["compact_full", "compact_full", "compact_manifests"],
        ),
    ],
)
def test_an_operation_is_due_when_its_limit_is_exceeded(state: TableState, change: dict[str, int], due: list[str]):
    found = figures(replace(state, **change), MaintenanceSpec())

    assert [figure.operation for figure in found if figure.is_due] == due
