"""The location of a data file's deletion vector, as part of a split. Source: docs/semantics/reading.md#splits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """A vector inside an index file. `key` is relative to the table, `length` as the index manifest records it.

    `cardinality`: how many rows it marks as deleted. `checksum`: the CRC-32 at the vector's end. Both None if the
    writer of the index manifest did not record them.
    """

    key: str
    offset: int
    length: int
    cardinality: int | None = None
    checksum: int | None = None
