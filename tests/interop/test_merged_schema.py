"""Tables that statements with rows of new columns have altered: Java reads them and writes on, and we go on."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.interop.engines import TABLE, Java, Ours
from tests.interop.judge import VERSIONS, Judge

pytestmark = pytest.mark.interop

SETTINGS = {"write.merge-schema": "true", "write.merge-schema.type-widening": "true"}
COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "n": "INT", "s": "ROW<a INT>"}
FORMATS = ["parquet", "orc", "avro"]
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
# A column more, one in the struct, and larger numbers in both.
WIDER = pa.table(
    {
        "p": pa.array([1, 2], pa.int32()),
        "k": pa.array([2, 9], pa.int32()),
        "n": pa.array([2**40, None], pa.int64()),
        "s": pa.array([{"a": 2**41, "b": "new"}, None], STRUCT),
        "d": pa.array([None, 0.5], pa.float64()),
    }
)
STATEMENTS = {
    "insert": "INSERT INTO db.t BY NAME SELECT * FROM wider",
    "merge": "MERGE INTO db.t AS t USING wider AS w ON t.p = w.p AND t.k = w.k "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
}


@pytest.fixture(scope="module", params=VERSIONS)
def judge(request: pytest.FixtureRequest):
    with Judge(request.param) as java:
        yield java


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(
    ("keys", "options"),
    [
        pytest.param([], {}, id="append"),
        pytest.param([], {"deletion-vectors.enabled": "true"}, id="append with vectors"),
        pytest.param(["p", "k"], {"bucket": "2"}, id="key"),
        pytest.param(["p", "k"], {"bucket": "1", "changelog-producer": "lookup"}, id="lookup"),
        pytest.param(["p", "k"], {"dynamic-bucket.target-row-num": "2"}, id="dynamic"),
        pytest.param(["k"], {"bucket": "-1"}, id="moving"),
    ],
)
def test_java_reads_and_writes_what_rows_with_new_columns_have_altered(
    java: Java, tmp_path: Path, *, keys: list[str], options: dict[str, str], file_format: str, statement: str
) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    catalog.create_table(
        TABLE, COLUMNS, primary_keys=keys, partition_keys=["p"], options={**options, "file.format": file_format}
    )
    ours = Ours(tmp_path)
    old = [{"p": 1, "k": 1, "n": 1, "s": {"a": 1}}, {"p": 1, "k": 2, "n": None, "s": None}]
    java.write(old)

    catalog.sql(STATEMENTS[statement], tables={"wider": WIDER}, settings=SETTINGS)

    assert [str(field.type) for field in ours.table.schema.fields] == [
        "INT NOT NULL",
        "INT NOT NULL",
        "BIGINT",
        "ROW<`a` BIGINT, `b` STRING>",
        "DOUBLE",
    ]
    assert ours.rows() == java.rows()
    assert ours.rows(1) == java.rows(1)
    assert len(ours.rows()) == (4 if statement == "insert" and not keys else 3)

    java.write([{"p": 2, "k": 3, "n": 2**50, "s": {"a": 2**51, "b": "of Java"}, "d": 1.5}])
    java.compact()
    assert ours.rows() == java.rows()

    ours.write([{"p": 1, "k": 1, "n": -(2**50), "s": {"a": None, "b": "ours"}, "d": -1.5}])
    ours.compact()
    assert ours.rows() == java.rows()
    assert (java.missing_files(), ours.verify()) == ([], [])
