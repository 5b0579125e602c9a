"""Translator: how tables appear in Dagster.

Rule: what a translator changes is seen by people alone. Tables, commits and their identities do not depend on it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What is known of a table before it is opened: its lake, and what its specification says."""

    lake: str
    database: str
    name: str
    comment: str = ""
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> str:
        """The table's name in its catalog: `database.name`."""
        return f"{self.database}.{self.name}"


class LakehouseTranslator:
    """The names of tables in Dagster. Subclass it, override what is to differ, and give it to the lake:
    `Lake(…, translator=OwnTranslator())`.
    """

    def key(self, table: TableFacts) -> dg.AssetKey:
        """Return the key of the asset that is the table."""
        return dg.AssetKey([table.lake, table.database, table.name])

    def group_name(self, table: TableFacts) -> str:
        """Return the group of the table's assets."""
        # With the lake, so that equal tables of two lakes in one code location are two groups. Without `/`, because the
        # pages of groups within groups are empty in Dagster 1.13.
        return "__".join(re.sub(r"[^A-Za-z0-9_]", "_", part) for part in (table.lake, table.database, table.name))

    def owners(self, table: TableFacts) -> Sequence[str]:
        """Return the owners: addresses, or teams as `team:name`."""
        return table.owners

    def tags(self, table: TableFacts) -> Mapping[str, str]:
        """Return the tags of the table's assets."""
        return {"lakehouse/database": table.database, **table.tags}

    def kinds(self, table: TableFacts) -> set[str]:
        """Return the kinds that the graph shows."""
        return {"paimon"}

    def description(self, table: TableFacts) -> str:
        """Return the description of the table."""
        return table.comment
