"""Asked tables: the tables of a warehouse that the configuration of a run names."""

from collections.abc import Iterable

import dagster as dg

import lakehouse_core as lc


class AskedTables(dg.Config):
    """`tables` are `database.table`, `databases` mean all their tables; neither means all tables of the warehouse."""

    tables: list[str] = []  # noqa: RUF012  # pydantic copies the default
    databases: list[str] = []  # noqa: RUF012  # pydantic copies the default

    def names_in(self, catalog: lc.Catalog) -> Iterable[str]:
        """Return the names of the tables, each once."""
        of_databases = self.databases or ([] if self.tables else catalog.databases())
        in_them = (f"{database}.{table}" for database in of_databases for table in catalog.tables(database))
        return dict.fromkeys([*self.tables, *in_them])
