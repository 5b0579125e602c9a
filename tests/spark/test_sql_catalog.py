"""Tables of a SQL catalog on Spark: workers need a table's location, never the database."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc


@pytest.mark.spark
def test_a_table_is_written_compacted_and_read_while_the_database_is_away(spark: Any, tmp_path: Path) -> None:
    names = tmp_path / "names.db"
    catalog = lc.connect(tmp_path / "lake", spark=spark, metastore=f"sqlite:///{names}")
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "2"}
    )
    names.unlink()

    table.write(spark.range(10).selectExpr("id k", "'old' v"))
    table.write(spark.range(4).selectExpr("id k", "'new' v"))
    table.compact(full=True)

    assert table.scan().to_spark(spark).filter("v = 'new'").count() == 4
    assert not names.exists()
