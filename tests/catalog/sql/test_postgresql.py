"""A SQL catalog in a real PostgreSQL: the same names, the lock between processes, a server that goes away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.catalog.sql.postgresql_server import PostgresqlServer, postgresql_server, rows_of
from tests.catalog.sql.server_contract import Lake, SqlCatalogContract, check_refused, written_by_processes
from tests.catalog.sql.sql_tables import COLUMNS, KEYED, ROW, made

# What other databases show in `make test`.
repeated = pytest.mark.long


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql_server() as running:
        yield running


@pytest.fixture
def lake(server: PostgresqlServer, tmp_path: Path) -> Lake:
    return Lake(server, tmp_path / "lake", rows_of)


@repeated
class TestPostgresql(SqlCatalogContract):
    interval = "interval '{} seconds'"
    shown_address = "postgresql://postgres@/names_"

    def test_processes_that_write_under_the_lock_lose_no_row(self, lake: Lake) -> None:
        assert written_by_processes(lake, restarts=0) == []


def test_names_are_made_listed_renamed_and_dropped(lake: Lake) -> None:
    catalog = lake.connect()
    assert catalog.databases() == []
    catalog.create_database("sales", properties={"owner": "ann"})
    made(catalog)
    made(catalog, "archive.items")

    assert (catalog.databases(), catalog.tables("sales"), catalog.check()) == (["archive", "sales"], ["orders"], [])
    assert catalog.database_properties("sales")["owner"] == "ann"
    catalog.alter_database("sales", {"owner": "bob", "comment": None})
    assert catalog.database_properties("sales")["owner"] == "bob"
    assert catalog.rename_table("sales.orders", "archive.old").scan().to_arrow().to_pylist() == ROW
    with pytest.raises(lc.InvalidRequest, match="already exists"):
        catalog.rename_table("archive.old", "archive.items")
    assert (catalog.tables("archive"), catalog.check()) == (["items", "old"], [])
    catalog.drop_database("archive", cascade=True)
    catalog.drop_database("sales")
    assert catalog.databases() == []
    assert lake.sql("SELECT * FROM paimon_table_properties") == []


@repeated
@pytest.mark.parametrize("verb", ["create", "drop", "rename"])
def test_a_connection_that_is_lost_while_a_change_is_committed_leaves_names_and_files_usable(
    lake: Lake, verb: str
) -> None:
    catalog = lake.connect()
    made(catalog)
    lake.sql(
        "CREATE FUNCTION end_it() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
    )
    lake.sql(
        "CREATE CONSTRAINT TRIGGER ends AFTER INSERT OR UPDATE OR DELETE ON paimon_tables "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_it()"
    )
    verbs = {
        "create": lambda: catalog.create_table("sales.items", COLUMNS, **KEYED),
        "drop": lambda: catalog.drop_table("sales.orders"),
        "rename": lambda: catalog.rename_table("sales.orders", "sales.old"),
    }

    with pytest.raises(lc.StorageUnavailable, match="the connection was lost when a change was committed"):
        verbs[verb]()
    lake.sql("DROP TRIGGER ends ON paimon_tables")

    assert catalog.tables("sales") == ["orders"]
    if verb == "rename":
        catalog.drop_table("sales.orders")
        catalog.create_table("sales.old", COLUMNS, exist_ok=True)
    assert catalog.table("sales.old" if verb == "rename" else "sales.orders").scan().to_arrow().to_pylist() == ROW
    if verb == "create":
        assert len(catalog.check()) == 1
        catalog.create_table("sales.items", COLUMNS, exist_ok=True)
    assert catalog.check() == []


@repeated
def test_a_server_that_is_down_and_a_user_it_does_not_know_are_told(lake: Lake, server: PostgresqlServer) -> None:
    catalog = lake.connect()
    made(catalog)
    refused = (
        (lake.address.replace(f"port={server.port}", "port=1"), "the database of the catalog did not answer"),
        (lake.address.replace("postgres@", "nobody@"), 'role "nobody" does not exist'),
        (server.address("elsewhere"), 'database "elsewhere" does not exist'),
    )
    check_refused(lake, refused)

    lake.sql("CREATE ROLE reader LOGIN")
    lake.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = lc.connect(lake.warehouse, metastore=lake.address.replace("postgres@", "reader@"))
    assert reader.tables("sales") == ["orders"]
    with pytest.raises(lc.InvalidRequest, match=r"permission denied .* Check the permissions"):
        reader.create_database("new")
    lake.sql("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader")
    reader.create_database("new")
    assert catalog.databases() == ["new", "sales"]
