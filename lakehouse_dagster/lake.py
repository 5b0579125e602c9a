"""Lake: a warehouse in Dagster, its tables by specification, and the sources of their rows.

Rule: asset keys and the names of jobs, schedules and sensors are made only here. Lakes with different names share none.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import Feed
from lakehouse_dagster.partitions import partition_fault
from lakehouse_dagster.specs import FeedSpec, Misfit, TableSpec, misfit_error, nearest
from lakehouse_dagster.translator import LakehouseTranslator, TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The tables of one warehouse. Assets, jobs, schedules and sensors are functions of it:
    `lake_definitions(Lake(name="lake", tables=load_specs(Path("tables"))), resources={…})`.

    `name` is the first part of the asset keys. `feeds` has the source of each specification's `feed.source`. `resource`
    is the key of the `LakehouseResource` in the code location, which opens the warehouse. `prefix` begins the names of
    its jobs, schedules and sensors; None means the name of the lake. `translator` says how its tables appear: keys,
    groups, owners, tags, kinds, descriptions. `followed` names tables of the warehouse that are defined elsewhere, and
    whose changes its tables may take. Raises InvalidRequest when two tables have one name or one key; when a
    specification names a feed or table that the lake lacks; and when it asks for news of a feed without `delivered`.
    """

    name: str
    tables: Sequence[TableSpec]
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    resource: str = "lakehouse"
    prefix: str | None = None
    translator: LakehouseTranslator = field(default_factory=LakehouseTranslator, compare=False)
    followed: Collection[str] = ()
    _by_identifier: Mapping[str, TableSpec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not all(isinstance(table, TableSpec) for table in self.tables):
            raise lc.InvalidRequest(
                f"lake {self.name}: tables={self.tables!r}: expected specifications. Read them: load_specs(folder)."
            )
        counts = Counter(table.identifier for table in self.tables)
        object.__setattr__(self, "_by_identifier", {table.identifier: table for table in self.tables})
        for table in self.tables:
            if counts[table.identifier] > 1:
                twice = f"{table.identifier} is specified twice in the lake {self.name}. Keep one"
                raise misfit_error(table, Misfit(("name",), twice))
            if table.feed is not None and (unknown := self._unknown_feed(table.feed)) is not None:
                raise misfit_error(table, unknown)
            if table.feed is not None and self.feeds[table.feed.source].delivered is None:
                fault = table.fault_of_news(f"the feed {table.feed.source!r}, which has no `delivered`,")
                if fault is not None:
                    raise misfit_error(table, fault)
            if table.changes_of is not None:
                self.followed_key(table.changes_of.table)
            if (misfit := partition_fault(table)) is not None:
                raise misfit_error(table, Misfit(("partitions",), misfit))
            self._check_appearance(table)
        keys: dict[dg.AssetKey, TableSpec] = {}
        for table in self.tables:
            if (other := keys.setdefault(key := self.table_key(table), table)) is not table:
                told = (
                    f"the translator of the lake {self.name} gives {other.identifier} and {table.identifier} one key, "
                    f"{key.to_user_string()}. Give each table a key of its own"
                )
                raise misfit_error(table, Misfit(("name",), told))

    def _unknown_feed(self, feed: FeedSpec) -> Misfit | None:
        """Return why the lake has no such feed, None if it has it."""
        if not self.feeds:
            told = f"the lake {self.name} has no feeds. Give it one: Lake(feeds={{{feed.source!r}: …}})"
            return Misfit(("feed", "source"), f"feed.source {feed.source!r}: {told}")
        if feed.source not in self.feeds:
            return Misfit(
                ("feed", "source"), f"feed.source {feed.source!r} is not known{nearest(feed.source, self.feeds)}"
            )
        names = self.feeds[feed.source].names
        if feed.name not in names:
            return Misfit(("feed", "name"), f"feed.name {feed.name!r} is not known{nearest(feed.name, names)}")
        return None

    def _check_appearance(self, table: TableSpec) -> None:
        """Raise InvalidRequest for owners, tags or a group that Dagster refuses."""
        facts, of = self.facts(table), self.translator
        parts: Mapping[str, Mapping[str, Any]] = {
            "owners": {"owners": list(of.owners(facts)) or None},
            "tags": {"tags": of.tags(facts)},
            "name": {"group_name": of.group_name(facts), "kinds": of.kinds(facts)},
        }
        for place, arguments in parts.items():
            try:
                dg.AssetSpec(self.table_key(table), **arguments)
            except dg.DagsterError as error:
                raise misfit_error(table, Misfit((place,), " ".join(str(error).split()).rstrip("."))) from error

    def table(self, identifier: str) -> TableSpec:
        """Return the specification of the table `database.name`. Raises InvalidRequest when the lake has none."""
        if (table := self._by_identifier.get(identifier)) is not None:
            return table
        raise lc.InvalidRequest(
            f"lake {self.name}: there is no table {identifier}; there are "
            f"{', '.join(table.identifier for table in self.tables) or 'none'}. Specify it, or name one of these."
        )

    def scoped(self, name: str) -> str:
        """Return the name of one of the lake's jobs, schedules or sensors: `<prefix>_<name>`."""
        return f"{self.name if self.prefix is None else self.prefix}_{name}"

    def table_key(self, table: TableSpec) -> dg.AssetKey:
        """Return the key of the asset that is the table: `<lake>/<database>/<table>`, or that of the translator.

        Raises InvalidRequest for a table of another lake.
        """
        return self.translator.key(self.facts(table))

    def followed_key(self, identifier: str) -> dg.AssetKey:
        """Return the key of a table that others follow: one of the lake, or one of `followed`.

        Raises InvalidRequest for another.
        """
        if identifier in self._by_identifier or identifier not in self.followed:
            return self.table_key(self.table(identifier))
        database, _, name = identifier.partition(".")
        return self.translator.key(
            TableFacts(lake=self.name, database=database, name=name, comment="", owners=(), tags={})
        )

    def facts(self, table: TableSpec) -> TableFacts:
        """Return what a translator is told of a table. Raises InvalidRequest for a table of another lake."""
        own = self.table(table.identifier)
        if own is not table and own != table:
            raise lc.InvalidRequest(
                f"lake {self.name}: it specifies {table.identifier} differently. Pass the specification that it has."
            )
        return TableFacts(
            lake=self.name,
            database=table.database,
            name=table.name,
            comment=table.comment,
            owners=table.owners,
            tags=table.tags,
        )

    def identity(self, table: TableSpec) -> dg.AssetKey:
        """Return the key by which a table's commits are known: the same whatever the translator.

        Raises InvalidRequest for a table of another lake.
        """
        return LakehouseTranslator().key(self.facts(table))

    @property
    def fleet_key(self) -> dg.AssetKey:
        """The key of the asset that spends a budget of maintenance on all tables of the lake."""
        return dg.AssetKey([self.name, "fleet"])

    def operation_key(self, table: TableSpec, operation: str) -> dg.AssetKey:
        """Return the key of one of the table's operations: `ingest`, or one of `OPERATIONS`."""
        return dg.AssetKey([*self.table_key(table).path, operation])
