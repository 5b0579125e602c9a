"""Arbiter: decides which writer's file gets a number, when several writers publish a snapshot or a schema at once.

Rule: an arbiter other than create-if-absent still creates the file by create-if-absent.
Source: docs/reliability/commit.md#steps.
"""

from typing import Final, Protocol

from lakehouse_core.storage.object_store import ObjectStore


class Arbiter(Protocol):
    """What lets one of several writers of a numbered file win: the store alone, or a catalog too."""

    def create(self, store: ObjectStore, key: str, data: bytes) -> bool:
        """Create the file of a snapshot or a schema; return False if another file has `key`.

        `store` is rooted at the table. Raises WriteOutcomeUnknown if the file may have been created.
        """
        ...


class CreateIfAbsent:
    """The store decides, by its own create-if-absent."""

    def create(self, store: ObjectStore, key: str, data: bytes) -> bool:
        return store.create_new(key, data)


CREATE_IF_ABSENT: Final = CreateIfAbsent()
