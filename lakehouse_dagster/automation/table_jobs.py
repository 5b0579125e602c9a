"""Jobs for tables without specifications: the tables that the configuration of a run names, and a job of one op."""

from collections.abc import Iterable

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.alerts import log_failed_step


class AskedTables(dg.Config):
    """`tables` are `database.table`, `databases` mean all their tables; neither means all tables of the warehouse."""

    tables: list[str] = []  # noqa: RUF012  # pydantic copies the default
    databases: list[str] = []  # noqa: RUF012  # pydantic copies the default

    def names_in(self, catalog: lc.Catalog) -> Iterable[str]:
        """Return the names of the tables, each once."""
        of_databases = self.databases or ([] if self.tables else catalog.databases())
        in_them = (f"{database}.{table}" for database in of_databases for table in catalog.tables(database))
        return dict.fromkeys([*self.tables, *in_them])


def job_of(op: dg.OpDefinition, *, name: str, description: str) -> dg.JobDefinition:
    """Return the job that runs one op, with the op's tags. It logs why the op failed."""

    @dg.job(name=name, description=description, hooks={log_failed_step}, tags=op.tags)
    def job() -> None:
        op()

    return job
