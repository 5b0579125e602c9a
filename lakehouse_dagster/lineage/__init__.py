"""Lineage: what the steps of tables read and wrote, as events of OpenLineage."""

from lakehouse_dagster.lineage.emission import attempt_in, emitted_lineage, note_end, send_event, unended_steps
from lakehouse_dagster.lineage.steps import Dataset, State, StepAttempt, StepLineage, table_dataset

__all__ = [
    "Dataset",
    "State",
    "StepAttempt",
    "StepLineage",
    "attempt_in",
    "emitted_lineage",
    "note_end",
    "send_event",
    "table_dataset",
    "unended_steps",
]
