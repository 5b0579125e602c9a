"""Copy job: copies tables from one warehouse into another, each verified, and shows the copies.

Rule: a run that ended early is executed again and goes on where it ended.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.table_jobs import AskedTables, job_of
from lakehouse_dagster.event_tags import DATA_VERSION
from lakehouse_dagster.failures import first_lasting, retry_transient
from lakehouse_dagster.metadata import OUTCOME, details, findings, outcome, report_metadata, state_metadata
from lakehouse_dagster.pipeline import TableState, incarnation, logged_progress, open_table, read_state
from lakehouse_dagster.resources import LakehouseResource, spark_job
from lakehouse_dagster.run_tags import root_run_id


class CopyConfig(AskedTables):
    """What one run copies. `names` has the names of copies that have another name than their table.

    `snapshots` is the number of the newest ones; `tags` and `branches` are names; None means all. With `data`, the
    verification reads the copied files too.
    """

    names: dict[str, str] = {}  # noqa: RUF012  # pydantic copies the default
    snapshots: int | None = None
    tags: list[str] | None = None
    branches: list[str] | None = None
    data: bool = False


def copy_job(source: str, target: str, *, name: str = "copy") -> dg.JobDefinition:
    """Return the job that copies tables from the warehouse of the resource `source` into that of `target`.

    Each copy is verified, and shown at the key `<target>/<database>/<table>`, which begins with the `name` of the
    resource `target`. A table that fails stops no other, and fails the run.
    """

    @dg.op(
        name=f"{name}_tables",
        description=f"Copies tables of {source} to {target}, and verifies the copies.",
        out=dg.Out(dg.Nothing),
        required_resource_keys={source, target},
        tags={"lakehouse/operation": "copy"},
        pool=f"{target}/copy",
    )
    def copy(context: dg.OpExecutionContext, config: CopyConfig) -> None:
        run = _CopyRun(context, config, getattr(context.resources, source), getattr(context.resources, target))
        with (
            retry_transient(target, "copy", retry_number=context.retry_number),
            spark_job(f"{context.run_id}/copy", f"copy to {target}"),
        ):
            run.copy_all()

    return job_of(copy, name=name, description=f"Copies tables of {source} to {target}.")


class _CopyRun:
    """One run: what it is asked for, and the warehouses that it copies from and to."""

    def __init__(
        self, context: dg.OpExecutionContext, config: CopyConfig, source: LakehouseResource, target: LakehouseResource
    ) -> None:
        self._context = context
        self._config = config
        self._resources = source, target
        self._source, self._target = source.local_catalog(), target.catalog()

    def copy_all(self) -> None:
        """Copy each table. Raises the first error that a repetition does not mend, else the first one; Failure for what
        the verification finds.
        """
        source, target = self._resources
        if source.name == target.name and self._source.uri != self._target.uri:
            raise lc.InvalidRequest(
                f"The resources of both warehouses are named {target.name!r}, so copies would be shown as their "
                "tables. Give the target a `name` of its own."
            )
        errors: list[lc.LakehouseError] = []
        damaged: list[str] = []
        for table in self._config.names_in(self._source):
            try:
                report = self._copy(table, self._config.names.get(table, table))
                damaged += [f"{table}: {report.findings[0]}"] if report.findings else []
            except lc.LakehouseError as error:
                self._context.log.error(f"{table}: {error}")
                errors.append(error)
        if errors:
            raise first_lasting(errors)
        if damaged:
            description = f"{len(damaged)} copies are there and are damaged: {'; '.join(damaged[:3])}"
            raise dg.Failure(description=description, allow_retries=False)

    def _copy(self, table: str, name: str) -> lc.CopyReport | lc.VerifyReport:
        source, asked, log = self._source.table(table), self._config, self._context.log
        self._target.create_database(name.rpartition(".")[0], exist_ok=True)
        try:
            report: lc.CopyReport | lc.VerifyReport = self._target.copy_table(
                source,
                name,
                snapshots=asked.snapshots,
                tags=asked.tags,
                branches=asked.branches,
                data=asked.data,
                progress=logged_progress(log.info),
            )
        except lc.InvalidRequest:
            made = open_table(self._target, name)
            if made is None or not self._is_repeated or incarnation(made) != incarnation(source):
                raise
            # It ended after the copy was complete, and maybe before this was known.
            log.info(f"{name}: an earlier attempt of this run has copied it; it is verified")
            report = made.verify(data=asked.data, progress=logged_progress(log.info))
        self._show(name, source, report)
        return report

    @property
    def _is_repeated(self) -> bool:
        run = self._context.run
        return self._context.retry_number > 0 or root_run_id(run.run_id, run.tags) != run.run_id

    def _show(self, name: str, source: lc.Table, report: lc.CopyReport | lc.VerifyReport) -> None:
        state = read_state(self._target.table(name))
        key = [self._resources[1].name, *name.split(".", 1)]
        self._context.log_event(
            dg.AssetMaterialization(
                key,
                description=f"a copy of {source.uri}",
                metadata=_metadata(source, report, state),
                tags={DATA_VERSION: state.content_version},
            )
        )
        self._context.log.info(f"{source.name} -> {name}: {outcome(report)}")


def _metadata(source: lc.Table, report: lc.CopyReport | lc.VerifyReport, state: TableState) -> Mapping[str, Any]:
    """Return the figures of the copy, then its state."""
    return {
        OUTCOME: outcome(report),
        "paimon/copied_from": source.uri,
        **report_metadata([report]),
        **details(report),
        **findings(report),
        **state_metadata(state),
    }
