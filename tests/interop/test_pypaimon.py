"""Both directions with pypaimon: what it can write we read, what we write and compact it reads."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.interop.engines import TABLE, Ours
from tests.interop.kinds import BY_NAME, Kind
from tests.interop.pypaimon_client import VERSION, PyPaimon
from tests.interop.values import arrow_rows, canonical, java_rows

pytestmark = pytest.mark.interop

# It parses no MULTISET, and writes inserts only.
NAMES = ("append", "append partitioned", "append bucketed", "key", "key partitioned", "key composite", "key sequence")
by_kind = pytest.mark.parametrize(
    "kind", [BY_NAME[name] for name in NAMES], ids=[f"pypaimon {VERSION}-{name.replace(' ', '-')}" for name in NAMES]
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PyPaimon]:
    with PyPaimon(tmp_path_factory.mktemp("pypaimon")) as process:
        yield process


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    return Ours(tmp_path)


def inserts(kind: Kind, table: lc.Table) -> list[pa.Table]:
    """Return the batches of a kind, as inserts: the one row kind that pypaimon writes."""
    batches = [[{name: v for name, v in row.items() if name != "_kind"} for row in batch] for batch in kind.batches]
    return [arrow_rows(batch, table.schema.fields) for batch in batches]


def read_by_pypaimon(peer: PyPaimon, warehouse: Path, ours: Ours) -> list[str]:
    return canonical(java_rows(peer.read(warehouse, TABLE), ours.table.schema.fields))


@by_kind
def test_we_write_compact_and_expire_and_pypaimon_reads(ours: Ours, peer: PyPaimon, tmp_path: Path, kind: Kind) -> None:
    ours.create(kind)
    for batch in kind.batches:
        ours.write(list(batch))

    assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()

    ours.compact()
    ours.compact_manifests()
    ours.expire(1)
    assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()


@by_kind
def test_pypaimon_and_we_write_in_turn_and_both_read(ours: Ours, peer: PyPaimon, tmp_path: Path, kind: Kind) -> None:
    ours.create(kind)
    for index, batch in enumerate(inserts(kind, ours.table)):
        if index % 2:
            ours.table.write(batch)
        else:
            peer.write(tmp_path, TABLE, batch)
        assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()

    ours.compact()
    peer.write(tmp_path, TABLE, inserts(kind, ours.table)[0])
    assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()
    assert ours.verify() == []


def test_a_table_that_pypaimon_made_opens_here_and_is_maintained(ours: Ours, peer: PyPaimon, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("d", pa.date32())])
    peer.create(tmp_path, TABLE, schema, primary_keys=["k"], options={"bucket": "2"})
    for round_ in range(3):
        rows = pa.table({"k": range(10), "v": [f"{round_}/{k}" for k in range(10)], "d": [None] * 10}, schema=schema)
        peer.write(tmp_path, TABLE, rows)

    ours.compact()

    assert ours.verify() == []
    assert [row["v"] for row in sorted(ours.table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])] == [
        f"2/{k}" for k in range(10)
    ]
    assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()
