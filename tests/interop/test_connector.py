"""Paimon's own released connector of Spark, 0.9.0, reads our tables and goes on in them, and we go on in its."""

from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.connector_client import Connector
from tests.interop.kinds import KINDS, Kind
from tests.interop.values import Row, arrow_rows

pytestmark = pytest.mark.interop

# What the connector reads otherwise than later releases, or not at all.
NOT_READ = {
    "append every type": "it takes decimals in rows of Parquet for another class",
    "key every type": "it takes decimals in rows of Parquet for another class",
    "key thin": "it asks files for the columns of the key",
    "key sequence descending": "it has no such order",
    "partial-update remove": "it has no such option",
}
READ = [kind for kind in KINDS if kind.name not in NOT_READ]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lc.Catalog:
    made = lc.connect(tmp_path_factory.mktemp("lake"))
    made.create_database("db")
    return made


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory, catalog: lc.Catalog) -> Iterator[Connector]:
    with Connector(tmp_path_factory.mktemp("scratch"), Path(catalog.uri.removeprefix("file://"))) as made:
        yield made


def shown(rows: list[Row]) -> list[str]:
    """Return rows as texts in one order."""
    return sorted(repr({name: _plain(value) for name, value in row.items()}) for row in rows)


def our_rows(table: lc.Table) -> list[str]:
    return shown(table.scan().to_arrow().to_pylist(maps_as_pydicts="strict"))


def _plain(value: Any) -> Any:
    match value:
        case bytearray():
            return bytes(value)
        case dict():
            return {name: _plain(value[name]) for name in sorted(value)}
        case list():
            return [_plain(each) for each in value]
        case datetime():
            return value.replace(tzinfo=None)
        case time():
            # Spark has no such type; the connector gives milliseconds.
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
        case _:
            return value


@pytest.mark.parametrize("kind", READ, ids=[kind.name.replace(" ", "-") for kind in READ])
def test_the_connector_reads_what_we_wrote_and_compacted(catalog: lc.Catalog, connector: Connector, kind: Kind) -> None:
    name = kind.name.replace(" ", "_").replace("-", "_").replace(",", "")
    table = catalog.create_table(
        f"db.{name}",
        dict(kind.fields),
        primary_keys=list(kind.primary_keys),
        partition_keys=list(kind.partition_keys),
        options=dict(kind.options),
    )
    for batch in kind.batches:
        data = arrow_rows(list(batch), table.schema.fields)
        has_kinds = any("_kind" in row for row in batch) and "rowkind.field" not in kind.options
        kinds = [row.get("_kind", "+I") for row in batch]
        table.write(
            data.append_column("_kind", [kinds]) if has_kinds else data, rowkind_column="_kind" if has_kinds else None
        )

    rows = our_rows(table)
    assert shown(connector.sql(f"SELECT * FROM lake.db.{name}")) == rows

    table.compact(full=True)

    assert shown(connector.sql(f"SELECT * FROM lake.db.{name}")) == rows
    assert rows


@pytest.mark.parametrize(
    ("keys", "partitions", "options"),
    [
        pytest.param([], [], {}, id="append"),
        pytest.param([], ["p"], {}, id="append_partitioned"),
        pytest.param(["k"], [], {"bucket": "2"}, id="key"),
        pytest.param(["p", "k"], ["p"], {"bucket": "2"}, id="key_partitioned"),
        pytest.param(["k"], [], {"bucket": "1", "changelog-producer": "lookup"}, id="lookup"),
        pytest.param(["k"], [], {"bucket": "1", "deletion-vectors.enabled": "true"}, id="vectors"),
        pytest.param(["k"], [], {"dynamic-bucket.target-row-num": "2"}, id="dynamic"),
        pytest.param(["k"], ["p"], {"bucket": "-1"}, id="moving"),
    ],
)
def test_the_connector_and_we_change_one_table_in_turn(
    request: pytest.FixtureRequest,
    catalog: lc.Catalog,
    connector: Connector,
    *,
    keys: list[str],
    partitions: list[str],
    options: dict[str, str],
) -> None:
    name = f"turns_{request.node.callspec.id}"
    columns = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING", "n": "BIGINT"}
    table = catalog.create_table(f"db.{name}", columns, primary_keys=keys, partition_keys=partitions, options=options)
    statements = [
        "INSERT INTO {t} VALUES (1, 1, 'one', 1), (2, 2, 'two', 2), (1, 3, NULL, NULL), (2, 4, '', 4)",
        "UPDATE {t} SET v = concat('changed ', v), n = n + 1 WHERE k IN (1, 2)",
        "DELETE FROM {t} WHERE k = 3",
        "INSERT INTO {t} VALUES (1, 5, 'five', 5), (2, 6, 'six', 6)",
        "MERGE INTO {t} AS t USING (SELECT p, k, n FROM {t} WHERE k > 4) AS s ON t.p = s.p AND t.k = s.k "
        "WHEN MATCHED AND s.n = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged'",
    ]
    expected: list[list[str]] = []
    for turn, statement in enumerate([*statements, "DELETE FROM {t}", *statements]):
        if turn % 2 == 0:
            connector.sql(statement.format(t=f"lake.db.{name}"))
        else:
            catalog.sql(statement.format(t=f"db.{name}"))
        seen = our_rows(table)
        assert shown(connector.sql(f"SELECT * FROM lake.db.{name}")) == seen, statement
        expected.append(seen)
        # It compacts no table whose keys move between partitions.
        if turn == 4 and name != "turns_moving":
            connector.sql(f"CALL lake.sys.compact(table => 'db.{name}')")
        if turn == 9:
            table.compact(full=True)
        assert our_rows(table) == seen

    # The second time each statement is the other side's.
    assert expected[:5] == expected[6:]
    assert [len(rows) for rows in expected] == [4, 4, 3, 5, 4, 0, 4, 4, 3, 5, 4]
    assert table.verify(data=True).findings == ()
