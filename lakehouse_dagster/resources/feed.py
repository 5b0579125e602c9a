"""Feed resource: the questions that table assets ask a source of batches: its version, its rows, its row counts."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FeedResource(dg.ConfigurableResource):
    """A source of named feeds: subclass it, and write the abstract methods. docs/dagster.md has an example.

    `batch` is a partition key, or None for a feed that is loaded whole.
    """

    @abstractmethod
    def version(self) -> str:
        """Return an identifier of everything the feeds deliver: the content of the source, and the rules that select
        from it.

        A batch is delivered once for each version.
        """

    @abstractmethod
    def frame(self, session: "SparkSession", feed: str, batch: str | None) -> "DataFrame":
        """Return the rows of one batch; an empty frame when it has none."""

    @abstractmethod
    def rows(self, feed: str, batch: str | None) -> pa.Table:
        """Return the same rows as `frame`, read in this process."""

    @abstractmethod
    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        """Return whether a batch strictly between the two brings rows; `after` None: from the very first batch on."""

    def delivered(self, loaded: str | None) -> Sequence[str]:
        """Return the batches that are delivered, for a `Feed` with `delivered`. Keys that were returned once stay.

        `loaded` is the newest batch that a table has committed.
        """
        raise lc.InvalidRequest(
            f"{type(self).__name__}: expected a method delivered(loaded), which returns the batches that are "
            "there. Write it, or leave `delivered` out of the Feed, which then offers all of its batches."
        )

    @abstractmethod
    def expected_rows(self, feed: str, through: str | None) -> int:
        """Return the number of rows of a table that took every batch of `feed` up to and including `through`."""
