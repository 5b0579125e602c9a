"""The flights tables in this process, without Spark and Dagster: the vocabulary of the table tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakehouse_core as lc
from assets.flights.events import batch_ordinal
from assets.flights.feed import FlightsFeed
from assets.lake import LAKE
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline.committing import commit_batches
from lakehouse_dagster.pipeline.staging import stage_batches
from lakehouse_dagster.pipeline.table_setup import create_table
from lakehouse_dagster.sources.changelog_source import ROWKIND, changes_of, changes_user, pending_changes, unapplied
from lakehouse_dagster.specs import TableSpec

SPECS = {spec.identifier: spec for spec in LAKE.tables}
FIRST = date(2013, 1, 31)
OPEN = SPECS["serving.open_flights"]
OPEN_KEY = LAKE.table_key(OPEN)


def days(count: int) -> list[date]:
    """The first `count` batches; 16 close the two weeks."""
    return [FIRST + timedelta(days=n) for n in range(count)]


def batch(day: date) -> Batch:
    return Batch(key=day.isoformat(), identifier=batch_ordinal(day))


@dataclass(frozen=True, kw_only=True)
class Warehouse:
    """A warehouse that takes the flights batch by batch, as the assets do."""

    folder: Path
    feed: FlightsFeed

    @property
    def catalog(self) -> lc.Catalog:
        return lc.connect(str(self.folder))

    def table(self, name: str) -> lc.Table:
        return create_table(self.catalog, SPECS[name], {})

    def stage(self, name: str, loaded: Sequence[date]) -> None:
        list(stage_batches(self.table(name), map(batch, loaded), self._rows(SPECS[name]), commit_user="feed"))

    def commit(self, name: str, loaded: Sequence[date]) -> None:
        tags = SPECS[name].tag_batches
        list(commit_batches(self.table(name), map(batch, loaded), commit_user="feed", run_id="r", tag_batches=tags))

    def load(self, name: str, loaded: Sequence[date]) -> lc.Table:
        self.stage(name, loaded)
        self.commit(name, loaded)
        return self.table(name)

    def stage_open_flights(self) -> list[Batch]:
        """Stage what the changelog has and the table has not; return it."""
        followed, table = self.catalog.table("ops.flight_status"), self.table("serving.open_flights")
        assert OPEN.changes_of is not None
        columns, while_null = tuple(OPEN.columns), OPEN.changes_of.while_null
        user = changes_user(followed, OPEN_KEY)
        due = unapplied(followed, table, commit_user=user)
        staged = stage_batches(
            table,
            due,
            lambda each: changes_of(followed, each.identifier, columns, while_null),
            commit_user=user,
            rowkind_column=ROWKIND,
        )
        list(staged)
        return due

    def commit_open_flights(self) -> lc.Table:
        followed, table = self.catalog.table("ops.flight_status"), self.table("serving.open_flights")
        user = changes_user(followed, OPEN_KEY)
        staged = pending_changes(followed, table, commit_user=user)
        list(commit_batches(table, staged, commit_user=user, run_id="r", tag_batches=False))
        return table

    def _rows(self, spec: TableSpec) -> Any:
        assert spec.feed is not None
        name = spec.feed.name
        return lambda each: self.feed.rows(name, each.key)


def rows_by_key(table: lc.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """All rows by primary key."""
    rows: pa.Table = table.scan().to_arrow()
    keys = table.schema.primary_keys
    found = {tuple(row[name] for name in keys): row for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found
