"""The expressions that are compared with Spark name every function that queries may have."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import parse_one

import lakehouse_core as lc
from lakehouse_core.planning.sql import allowed
from lakehouse_core.planning.sql.duckdb import translate
from lakehouse_core.planning.sql.query import parse_query
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import DIALECT, SqlText
from tests.catalog.statements.query_tables import queries
from tests.catalog.statements.samples import ANSWERS, TABLE, expressions, failures, files, make_samples, refused

# Every so many expressions; `make test-long` takes the others.
STEP = 8
# Types of the parser, and what Arrow calls them.
NAMES = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL": "decimal128",
    "VARCHAR": "string",
    "TEXT": "string",
    "BINARY": "binary",
    "DATE": "date32[day]",
    "TIMESTAMPNTZ": "timestamp[us]",
    "TIMESTAMPTZ": "timestamp[us, tz=UTC]",
    "ARRAY": "list",
    "MAP": "map",
    "STRUCT": "struct",
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> lc.Catalog:
    catalog = lc.connect(tmp_path_factory.mktemp("samples"))
    catalog.create_database("s")
    make_samples(catalog)
    return catalog


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", files())
def test_the_types_that_expressions_are_given_are_those_of_their_values(samples, name, monkeypatch):
    check_types(samples, expressions(name)[::STEP], monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", files())
def test_the_type_that_each_expression_is_given_is_that_of_its_values(samples, name, monkeypatch):
    check_types(samples, [text for number, text in enumerate(expressions(name)) if number % STEP], monkeypatch)


@pytest.mark.parametrize("query", ANSWERS)
def test_decimals_of_queries_beside_and_inside_others_have_the_digits_of_spark(samples, query):
    answer = samples.sql(query).to_arrow()

    assert tuple(map(str, answer.schema.types)) == ANSWERS[query]


def check_types(samples: lc.Catalog, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the types by which expressions are rewritten with those of the columns of the answer."""
    given: list[str] = []
    find_types = translate.with_types

    def noted(tree, schema):
        typed = find_types(tree, schema)
        kind = typed.selects[0].unalias().type
        given.append("" if kind is None else kind.this.name)
        return typed

    monkeypatch.setattr(translate, "with_types", noted)
    found = []
    for text in dict.fromkeys(texts):
        # A text that is known already is not rewritten again.
        column = samples.sql(f"SELECT {text} AS only_its_type FROM {TABLE}").schema().field(0)
        if given[-1] not in ("", "UNKNOWN", "NULL", "INTERVAL") and NAMES[given[-1]] != type_name(column.type):
            found.append(f"{text}: {given[-1]}, its values are {column.type}")
    assert not found, "\n".join(found)


def type_name(kind: pa.DataType) -> str:
    """Return the name of an Arrow type without its parts."""
    return re.split(r"[<(]", str(kind))[0] if not pa.types.is_timestamp(kind) else str(kind)


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
    trees = [parse_one(text, dialect=DIALECT) for text in texts]
    trees += [parse_query(QueryText(SqlText(text), 0, 0), {}).tree for text in queries()]
    named = {type(node).__name__ for tree in trees for node in tree.walk()}

    assert set(allowed.FUNCTION_NODES) - named == set()


def test_the_page_names_every_function_and_each_is_tried():
    page = (Path(lc.__file__).parent.parent / "docs" / "sql.md").read_text()
    listed = page[page.index("as `substr` and `substring`:") : page.index("## Changing tables")].split(":", 1)[1]
    texts = [text for name in files() for text in [*expressions(name), *refused()]]
    tried = "\n".join([*texts, *queries()]).lower()

    assert tuple(re.findall(r"`(\w+)`", listed)) == allowed.NAMES
    assert [name for name in allowed.NAMES if f"{name}(" not in tried and name not in ("current_date",)] == []
