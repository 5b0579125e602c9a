"""The expressions that are compared with Spark name every function that queries may have."""

from sqlglot import parse_one

from lakehouse_core.planning.sql import allowed
from lakehouse_core.planning.sql.tokens import DIALECT
from tests.catalog.statements.query_tables import queries
from tests.catalog.statements.samples import expressions, failures, files


def test_every_allowed_function_is_compared_with_spark():
    texts = [f"SELECT {text}" for name in files() for text in [*expressions(name), *failures()]]
    named = {type(node).__name__ for text in [*texts, *queries()] for node in parse_one(text, dialect=DIALECT).walk()}

    assert set(allowed.FUNCTION_NODES) - named == set()
