"""One warehouse with the tables that queries ask, for the tests that change nothing."""

import pytest

import lakehouse_core as lc
from tests.catalog.statements.query_tables import make_tables


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lc.Catalog:
    catalog = lc.connect(tmp_path_factory.mktemp("sql"))
    make_tables(catalog)
    return catalog


@pytest.fixture
def empty(tmp_path) -> lc.Catalog:
    """A warehouse with the database `s`."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("s")
    return catalog
