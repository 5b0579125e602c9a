"""Both directions with pypaimon: what it can write we read, what we write and compact it reads."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.interop.engines import TABLE, Ours
from tests.interop.kinds import BY_NAME, Kind
from tests.interop.pypaimon_client import VERSION, PyPaimon
from tests.interop.values import arrow_rows, canonical, java_rows

pytestmark = pytest.mark.interop

# It writes inserts only, and to these.
WRITTEN = ("append", "append partitioned", "append bucketed", "key", "key partitioned", "key composite", "key sequence")
# What it does not read, by its own words.
REFUSED = {
    **dict.fromkeys(("append every type", "append orc", "append avro"), "Unsupported data type: MULTISET"),
    **dict.fromkeys(("key every type", "key orc", "key avro"), "Unsupported data type: MULTISET"),
    **dict.fromkeys(("partial-update groups", "lookup groups"), "does not yet implement: fields.names.aggregate-func"),
    "partial-update remove": "does not yet implement: partial-update.remove-record",
}
# Where it lacks a function or a retract, what we merged is read all the same.
READ_MERGED = ("aggregation", "aggregation retracts", "lookup aggregation")


def kinds(names: Iterable[str]) -> pytest.MarkDecorator:
    cases = {f"pypaimon {VERSION}-{name.replace(' ', '-')}": BY_NAME[name] for name in names}
    return pytest.mark.parametrize("kind", cases.values(), ids=cases.keys())


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


@kinds(name for name in BY_NAME if name not in REFUSED)
def test_we_write_compact_and_expire_and_pypaimon_reads(ours: Ours, peer: PyPaimon, tmp_path: Path, kind: Kind) -> None:
    ours.create(kind)
    for batch in kind.batches:
        ours.write(list(batch))

    if kind.name not in READ_MERGED:
        assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()

    ours.compact()
    ours.compact_manifests()
    ours.expire(1)
    assert read_by_pypaimon(peer, tmp_path, ours) == ours.rows()


@kinds(REFUSED)
def test_what_pypaimon_refuses_it_refuses_by_name(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, ours: Ours, kind: Kind
) -> None:
    ours.create(kind)
    ours.write(list(kind.batches[0]))

    with PyPaimon(tmp_path_factory.mktemp("pypaimon")) as peer, pytest.raises(AssertionError, match=REFUSED[kind.name]):
        peer.read(tmp_path, TABLE)


@kinds(WRITTEN)
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
