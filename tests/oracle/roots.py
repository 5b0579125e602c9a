"""What keeps a history readable: snapshots, tags, consumers and changelogs that outlive their snapshots.

Counts alone decide, for every snapshot of a history is young.
Source: docs/semantics/maintenance.md#snapshot-expiry, docs/semantics/maintenance.md#changelog-lifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROOT_VERBS = ("create-tag", "delete-tag", "consumer", "expire")


def snapshot_behind(behind: int, earliest: int, latest: int) -> int:
    """Return the id so many snapshots before the latest, or the earliest that is left; -1 is the next to come."""
    return max(latest - behind, earliest)


class Roots:
    """`tags` has the snapshot's id by the tag's name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._changelogs_max = int(options.get("changelog.num-retained.max", "0"))
        self._earliest = 1
        self._consumers: dict[str, int] = {}
        self.tags: dict[str, int] = {}
        self.changelog_ids: set[int] = set()

    def snapshot_ids(self, latest: int) -> set[int]:
        return set(range(self._earliest, latest + 1))

    def operated(self, operation: Mapping[str, Any], latest: int) -> None:
        """Do what an operation does to a table whose latest snapshot is `latest`; without one it does nothing."""
        if not latest:
            return
        match operation["verb"]:
            case "create-tag":
                self.tags[operation["tag"]] = snapshot_behind(operation["behind"], self._earliest, latest)
            case "delete-tag":
                self.tags.pop(operation["tag"], None)
            case "consumer" if operation["behind"] is None:
                self._consumers.pop(operation["consumer"], None)
            case "consumer":
                self._consumers[operation["consumer"]] = snapshot_behind(operation["behind"], self._earliest, latest)
            case "expire":
                self._expire(latest, operation["retainMax"])
            case other:
                raise AssertionError(other)

    def _expire(self, latest: int, retain_max: int) -> None:
        read_next = list(self._consumers.values())
        first = max(min([latest - retain_max + 1, *read_next]), self._earliest)
        if self._changelogs_max > retain_max:
            self.changelog_ids |= set(range(self._earliest, first))
        if self.changelog_ids:
            # The newest of them stays until snapshots that expire leave another.
            last = max(self.changelog_ids)
            oldest = min([latest - self._changelogs_max + 1, last, *read_next])
            self.changelog_ids = {each for each in self.changelog_ids if each >= oldest}
        self._earliest = first
