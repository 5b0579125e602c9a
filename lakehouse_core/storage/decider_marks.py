"""Marks in a warehouse: the databases that decide which of its writers wins, where the store has no conditional writes.

Rule: a mark is named after its database's id and is never removed by us. Who wants to decide writes its own mark, then
lists all: so of two that begin at once, one at least finds the other.
Source: docs/decisions/0024-commits-by-a-database.md.
"""

from collections.abc import Mapping
from typing import Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.storage.object_store import ObjectStore, StoreReader

MARKS_FOLDER: Final = ".lakehouse-decided"


def marks(store: StoreReader) -> Mapping[str, str]:
    """Return the names of the databases that decide here, by their ids. `store` is rooted at the warehouse."""
    keys = [info.key for info in store.list(MARKS_FOLDER)]
    return {key.rpartition("/")[2]: text.decode(errors="replace") for key, text in store.read_found(keys).items()}


def write_mark(store: ObjectStore, decider_id: str, name: str) -> None:
    """Say that a database decides here."""
    store.write({f"{MARKS_FOLDER}/{decider_id}": name.encode()})


def decided_elsewhere(store: StoreReader, found: Mapping[str, str], asked: str) -> InvalidRequest:
    """Return the error of a writer whose database, or whose store, does not decide here. `asked`: which of them."""
    deciders = " and ".join(sorted(set(found.values())))
    return InvalidRequest(
        f"{store.uri('')}: {deciders} decides here which writer wins, and this catalog asks {asked}, so commits could "
        "be lost. Nothing was written. Connect with storage={'conditional-writes': 'false'} and that database as "
        f"metastore. If this is a copy of that warehouse, remove what is below {store.uri(MARKS_FOLDER)}/ first."
    )


def check_undecided(store: StoreReader) -> None:
    """Raise InvalidRequest if a database decides in the warehouse. For writers that ask none."""
    if found := marks(store):
        raise decided_elsewhere(store, found, "the store alone")
