"""The expressions that are compared with Spark name every function that queries may have."""

import re
from pathlib import Path

import pytest
from sqlglot import parse_one

import lakehouse_core as lc
from lakehouse_core.planning.sql import allowed
from lakehouse_core.planning.sql.tokens import DIALECT
from tests.catalog.statements.query_tables import queries
from tests.catalog.statements.samples import TABLE, expressions, failures, files, make_samples, refused


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> lc.Catalog:
    catalog = lc.connect(tmp_path_factory.mktemp("samples"))
    catalog.create_database("s")
    make_samples(catalog)
    return catalog


@pytest.mark.parametrize("text", failures())
def test_an_expression_that_is_an_error_in_spark_is_one_here(samples, text):
    with pytest.raises(lc.InvalidRequest, match="SQL"):
        samples.sql(f"SELECT {text} AS c").to_arrow()


@pytest.mark.parametrize("text", refused())
def test_what_only_spark_computes_is_refused_by_name(samples, text):
    with pytest.raises(lc.UnsupportedFeature, match="without Spark"):
        samples.sql(f"SELECT {text} AS c FROM {TABLE}").to_arrow()


def test_every_allowed_function_is_compared_with_spark():
    texts = [f"SELECT {text}" for name in files() for text in [*expressions(name), *failures(), *refused()]]
    named = {type(node).__name__ for text in [*texts, *queries()] for node in parse_one(text, dialect=DIALECT).walk()}

    assert set(allowed.FUNCTION_NODES) - named == set()


def test_the_page_names_every_function_and_each_is_tried():
    page = (Path(lc.__file__).parent.parent / "docs" / "sql.md").read_text()
    listed = page[page.index("as `substr` and `substring`:") : page.index("## Changing tables")].split(":", 1)[1]
    texts = [text for name in files() for text in [*expressions(name), *refused()]]
    tried = "\n".join([*texts, *queries()]).lower()

    assert tuple(re.findall(r"`(\w+)`", listed)) == allowed.NAMES
    assert [name for name in allowed.NAMES if f"{name}(" not in tried and name not in ("current_date",)] == []
