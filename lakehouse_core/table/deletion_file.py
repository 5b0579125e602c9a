"""Where the deletion vector of a data file lies, as a split carries it. Source: docs/semantics/reading.md#splits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """A vector inside an index file. `key` is relative to the table, `length` as the index manifest records it.

    `cardinality`: how many rows it marks as deleted, `checksum`: the CRC-32 that it ends with, None where the writer of
    the index manifest did not record that.
    """

    key: str
    offset: int
    length: int
    cardinality: int | None = None
    checksum: int | None = None
