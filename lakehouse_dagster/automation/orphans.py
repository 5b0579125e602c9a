"""Orphans job: removes the files that nothing names from the tables of a warehouse.

Rule: a table that fails stops no other, and fails the run at its end.
"""

from datetime import timedelta

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.table_jobs import AskedTables, job_of
from lakehouse_dagster.failures import first_lasting, retry_transient
from lakehouse_dagster.metadata import OUTCOME, details, outcome, report_metadata
from lakehouse_dagster.pipeline import logged_progress
from lakehouse_dagster.resources import LakehouseResource


class OrphansConfig(AskedTables):
    """What one run looks through. Files that are younger than `older_than_hours` stay. A dry run deletes nothing."""

    older_than_hours: float = 72
    dry_run: bool = False


def orphans_job(resource: str = "lakehouse", *, name: str = "remove_orphans") -> dg.JobDefinition:
    """Return the job that removes orphans, files that killed writers left, from the warehouse of `resource`.

    What it removed is an observation of the asset `<name of the resource>/<database>/<table>`.
    """

    @dg.op(
        name=f"{name}_of_tables",
        description=f"Removes the files that nothing names from the tables of {resource}.",
        out=dg.Out(dg.Nothing),
        required_resource_keys={resource},
        tags={"lakehouse/operation": "remove_orphans"},
        pool=f"{resource}/remove_orphans",
    )
    def remove(context: dg.OpExecutionContext, config: OrphansConfig) -> None:
        with retry_transient(resource, "remove_orphans", retry_number=context.retry_number):
            _remove(context, config, getattr(context.resources, resource))

    return job_of(remove, name=name, description=f"Removes the files that nothing names from the tables of {resource}.")


def _remove(context: dg.OpExecutionContext, config: OrphansConfig, lakehouse: LakehouseResource) -> None:
    """Remove the orphans of each table. Raises the first error that a repetition does not mend, else the first one."""
    catalog = lakehouse.local_catalog()
    errors: list[lc.LakehouseError] = []
    for name in config.names_in(catalog):
        try:
            report = catalog.table(name).remove_orphans(
                older_than=timedelta(hours=config.older_than_hours),
                dry_run=config.dry_run,
                progress=logged_progress(context.log.info),
            )
        except lc.LakehouseError as error:
            context.log.error(f"{name}: {error}")
            errors.append(error)
            continue
        metadata = {OUTCOME: outcome(report), **report_metadata([report]), **details(report)}
        context.log_event(dg.AssetObservation([lakehouse.name, *name.split(".", 1)], metadata=metadata))
        context.log.info(f"{name}: {outcome(report)}")
    if errors:
        raise first_lasting(errors)
