"""What the table assets ask of a source of batches: its version, a batch as a DataFrame, and how many rows it makes."""

from abc import abstractmethod
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FeedResource(dg.ConfigurableResource):
    """A source of named feeds; `batch` is a partition key, or None for a feed that is loaded whole."""

    @abstractmethod
    def version(self) -> str:
        """Return what identifies everything the feeds deliver: the source's content, and the rules that select from it.

        A batch is delivered once for each version.
        """

    @abstractmethod
    def frame(self, session: "SparkSession", feed: str, batch: str | None) -> "DataFrame":
        """Return the rows of one batch; none is an empty frame."""

    @abstractmethod
    def rows(self, feed: str, batch: str | None) -> pa.Table:
        """Return what `frame` does, read in this process."""

    @abstractmethod
    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        """Return whether a batch strictly between the two brings rows; `after` None: from the very first batch on."""

    @abstractmethod
    def expected_rows(self, feed: str, through: str | None) -> int:
        """Return how many rows a table has that took every batch of `feed` up to and including `through`."""
