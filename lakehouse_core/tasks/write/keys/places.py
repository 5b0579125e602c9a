"""Places: numbers for the buckets of a table with their partitions, and how many keys each has."""

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from lakehouse_core.merge.key_homes import UNKNOWN, Partitions
from lakehouse_core.tasks.write.keys.map import NOWHERE, Places


class PlaceNumbers:
    """A place is one bucket of one partition. Places and partitions have numbers in the order in which they are met."""

    def __init__(self) -> None:
        self._partitions: dict[bytes, int] = {}
        self._bytes: list[bytes] = []
        self._numbers: dict[tuple[int, int], int] = {}
        # By place, the number of its partition, and its bucket; the last ones are those of `NOWHERE`.
        self._partition_of: list[int] = []
        self._bucket_of: list[int] = []
        self._counts: dict[int, dict[int, int]] = defaultdict(dict)

    def partition(self, partition: bytes) -> int:
        """Return the number of a serialized partition."""
        if partition not in self._partitions:
            self._partitions[partition] = len(self._bytes)
            self._bytes.append(partition)
        return self._partitions[partition]

    def bytes_of(self, partition: int) -> bytes:
        return self._bytes[partition]

    def number(self, partition: bytes, bucket: int) -> int:
        """Return the number of a place."""
        return self.number_in(self.partition(partition), bucket)

    def number_in(self, partition: int, bucket: int) -> int:
        """Return the number of a place in the partition with this number."""
        number = self._numbers.setdefault((partition, bucket), len(self._bucket_of))
        if number == len(self._bucket_of):
            self._partition_of.append(partition)
            self._bucket_of.append(bucket)
        return number

    def place(self, place: int) -> tuple[bytes, int]:
        """Return serialized partition and bucket of a place."""
        return self._bytes[self._partition_of[place]], self._bucket_of[place]

    def partition_of(self, place: int) -> int:
        return self._partition_of[place]

    def partitions(self, places: Places) -> Partitions:
        """Return the number of each place's partition; `UNKNOWN` for `NOWHERE`."""
        found: Partitions = np.array([*self._partition_of, UNKNOWN], np.int64)[places]
        return found

    def buckets(self, places: Places) -> "npt.NDArray[np.int32]":
        """Return the bucket of each place. REQUIRES: none is `NOWHERE`."""
        found: npt.NDArray[np.int32] = np.array([*self._bucket_of, NOWHERE], np.int32)[places]
        return found

    def counts(self, partition: int) -> dict[int, int]:
        """Return how many keys each bucket of a partition has."""
        return self._counts[partition]

    def count(self, place: int, keys: int) -> None:
        """Count keys that came to a place, or that left it, if the number is negative."""
        counts, bucket = self._counts[self._partition_of[place]], self._bucket_of[place]
        counts[bucket] = max(0, counts.get(bucket, 0) + keys)

    def uncount(self, places: Places) -> None:
        """Count one key less in each place, as often as it is given."""
        for place, keys in zip(*np.unique(places, return_counts=True), strict=True):
            self.count(int(place), -int(keys))
