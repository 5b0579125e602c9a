"""Run coordinator: the queue of Dagster, whose runs say which table they are about before they wait in it.

Rule: a run is queued whatever becomes of its tags; the steps of a table set them again.
"""

import logging

import dagster as dg

from lakehouse_dagster.instance.dagster_internals import QueuedRunCoordinator, SubmitRunContext, asset_tags
from lakehouse_dagster.run_tags import table_tags


class TableRunCoordinator(QueuedRunCoordinator):
    """Queues runs, and tags those of a single table with `lakehouse/table` and `lakehouse/operation`.

    In dagster.yaml: `run_coordinator: {module: lakehouse_dagster, class: TableRunCoordinator}`. Runs that
    start on an asset's page have the tags too, so limits by tag and filters of the run list hold for them.
    """

    def submit_run(self, context: SubmitRunContext) -> dg.DagsterRun:
        """Tag the run, then queue it."""
        run = context.dagster_run
        try:
            tags = {name: value for name, value in table_tags(asset_tags(context)).items() if name not in run.tags}
        except dg.DagsterError as error:
            logging.getLogger(__name__).warning(f"run {run.run_id}: its tables are not known: {error}")
            tags = {}
        if tags:
            self._instance.add_run_tags(run.run_id, tags)
        queued: dg.DagsterRun = super().submit_run(context)
        return queued
