"""Steps: what one attempt of a step reads and writes, as values, and a table as such a value.

Rule: a dataset that cannot be made is a warning, and never fails a step.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import lakehouse_core as lc
from lakehouse_dagster.pipeline import incarnation

State: TypeAlias = Literal["START", "COMPLETE", "FAIL", "ABORT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A table or another source at one version. `columns` are name and type; `wrote` are rows, bytes and files, None
    for a dataset that was read.
    """

    namespace: str
    name: str
    version: str
    columns: tuple[tuple[str, str], ...] = ()
    wrote: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempt:
    """One attempt of a step: the job it is of, and the Dagster run around it with the first run of its group."""

    namespace: str
    job: str
    run_id: str
    root_run_id: str
    run_job: str
    attempt: int


@dataclass(slots=True, kw_only=True)
class StepLineage:
    """What a step has read and written so far. Without `warn` no events are sent, so no dataset is made."""

    warn: Callable[[str], None] | None = None
    inputs: list[Dataset] = field(default_factory=list)
    outputs: list[Dataset] = field(default_factory=list)

    def reads(self, dataset: Callable[[], Dataset]) -> None:
        """Add a dataset that the step reads."""
        self._add(self.inputs, dataset)

    def writes(self, dataset: Callable[[], Dataset]) -> None:
        """Add a dataset that the step wrote."""
        self._add(self.outputs, dataset)

    def _add(self, datasets: list[Dataset], dataset: Callable[[], Dataset]) -> None:
        if self.warn is None:
            return
        try:
            datasets.append(dataset())
        except Exception as failure:
            self.warn(f"A dataset is missing in the OpenLineage events of this step: {failure}")


def table_dataset(namespace: str, table: lc.Table, snapshot_id: int, reports: Iterable[lc.Report] = ()) -> Dataset:
    """Return a table at a snapshot; with the `reports` of the verbs that wrote it, if there are any.

    The version begins with the incarnation of the table, because snapshot ids begin at 1 again in a new one.
    """
    made = list(reports)
    sums = (sum(each.rows_added for each in made), sum(each.bytes_added for each in made))
    return Dataset(
        namespace=namespace,
        name=table.name,
        version=f"{incarnation(table)}/main@{snapshot_id}",
        columns=tuple((column["name"], column["type"]) for column in table.schemas().to_dicts()[-1]["fields"]),
        wrote=(*sums, sum(each.files_added for each in made)) if made else None,
    )
