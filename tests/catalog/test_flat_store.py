"""A store without folders, as object stores are: what moves a folder is refused by name, all else works."""

import pytest

from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.storage import FaultyStore, MemoryStore, ObjectStore


class FlatStore(MemoryStore):
    """Keys alone."""

    @property
    def folders(self) -> None:  # type: ignore[override]
        return None

    def at(self, prefix: str) -> MemoryStore:
        """Return the store rooted deeper; what is below it needs no folders."""
        return FlatStore(self._name, prefix="/".join(part for part in (self._prefix, prefix) if part))


@pytest.fixture(params=["flat", "flat below a wrapper"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    flat = FlatStore()
    return flat if request.param == "flat" else FaultyStore(flat)


@pytest.fixture
def catalog(store: ObjectStore) -> Catalog:
    catalog = Catalog(store, clock=VirtualClock())
    catalog.create_database("db")
    catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    catalog.table("db.t").write([{"k": 1}])
    return catalog


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("dropped", lambda catalog: catalog.drop_table("db.t")),
        ("dropped", lambda catalog: catalog.drop_database("db", cascade=True)),
        ("renamed", lambda catalog: catalog.rename_table("db.t", "db.u")),
    ],
    ids=["drop a table", "drop a database", "rename"],
)
def test_what_moves_a_table_is_refused_and_changes_nothing(catalog: Catalog, store: ObjectStore, verb, call) -> None:
    before = {info.key: store.read(info.key) for info in store.list("")}

    with pytest.raises(UnsupportedFeature, match=f"Table 'db.t' cannot be {verb}: the store of memory:"):
        call(catalog)
    assert {info.key: store.read(info.key) for info in store.list("")} == before


def test_expiry_and_an_empty_database_need_no_folders(catalog: Catalog) -> None:
    table = catalog.table("db.t")
    table.write([{"k": 2}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    catalog.create_database("empty")
    catalog.drop_database("empty")

    assert table.scan().to_arrow().num_rows == 2
    assert catalog.databases() == ["db"]
