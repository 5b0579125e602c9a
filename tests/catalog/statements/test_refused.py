"""Statements that are not carried out: each is refused by name and place, and changes nothing."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.statements import procedures

CASES = [
    tuple(block.split("\n-> ")) for block in (Path(__file__).parent / "refused.txt").read_text().strip().split("\n\n")
]


@pytest.mark.parametrize(("text", "refusal"), CASES, ids=[text for text, _ in CASES])
def test_a_statement_is_refused_by_name_and_place_and_changes_nothing(catalog, text, refusal):
    before = state(catalog)

    with pytest.raises(lc.LakehouseError) as error:
        # Values are computed when the answer is read.
        catalog.sql(text).to_arrow()

    assert f"{type(error.value).__name__}: {error.value}".replace(catalog.uri, "WAREHOUSE") == refusal
    assert state(catalog) == before


def test_there_are_as_many_cases_as_promised():
    assert len({text for text, _ in CASES}) >= 300


def test_each_procedure_and_argument_that_is_known_and_refused_has_a_case():
    refusals = "\n".join(refusal for _, refusal in CASES)

    for procedure in procedures._REFUSED:
        assert f"the procedure sys.{procedure} " in refusals, procedure
    for procedure, argument in procedures._REFUSED_ARGUMENTS:
        refused = f": the argument {argument} is not carried out: "
        assert any(f"sys.{procedure}(" in text and refused in refusal for text, refusal in CASES), (procedure, argument)


@pytest.mark.parametrize("text", [None, 5, b"SELECT 1", ["SELECT 1"]])
def test_another_object_than_text_is_refused(catalog, text):
    with pytest.raises(lc.InvalidRequest, match="expected the text of a statement"):
        catalog.sql(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parameters": [1]}, "parameters=.*expected a dict"),
        ({"parameters": {"a b": 1}}, "'a b' is not a name"),
        ({"parameters": {"p": object()}}, "A parameter is"),
        ({"tables": {"t": 5}}, "expected an object with an Arrow stream"),
        ({"tables": {"t": []}}, "found a list without columns"),
        ({"tables": {"t": {}}}, "found a dict without columns"),
        ({"tables": {"t": pa.table({})}}, "found a Table without columns"),
        ({"database": 5}, "expected the name of a database"),
        ({"settings": {"x": "y"}}, "'x' is not a setting of sql"),
        ({"settings": {"spark.paimon.write.merge-schema": "yes"}}, "merge-schema = 'yes': expected true or false"),
        ({"settings": {"write.merge-schema.explicit-cast": "true"}}, "never makes the type of a column narrower"),
        ({"settings": {"spark.sql.sources.partitionOverwriteMode": "x"}}, "expected static or dynamic"),
    ],
)
def test_a_wrong_argument_is_refused(catalog, arguments, message):
    text = "SELECT * FROM t" if "tables" in arguments else "SELECT :p"

    with pytest.raises(lc.InvalidRequest, match=message):
        catalog.sql(text, **arguments)


def state(catalog: lc.Catalog) -> list[object]:
    """Return the tables with their newest snapshots and schemas, and the tags."""
    names = [f"{database}.{name}" for database in catalog.databases() for name in catalog.tables(database)]
    return [
        (name, table.snapshot().id, table.schema.id, [tag.name for tag in table.tags()])
        for name, table in ((name, catalog.table(name)) for name in names)
    ]
