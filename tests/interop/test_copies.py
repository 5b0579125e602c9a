"""Copies of tables in another warehouse: Java reads them as the tables themselves, and goes on with them."""

from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.interop.engines import TABLE, Java, Ours
from tests.interop.judge import Judge
from tests.interop.kinds import KINDS, Kind

pytestmark = pytest.mark.interop

COPIED = [kind for kind in KINDS if kind.name in {"append partitioned", "key", "key changelog input"}]


@pytest.mark.parametrize("snapshots", [None, 1])
@pytest.mark.parametrize("kind", COPIED, ids=[kind.name for kind in COPIED])
def test_java_reads_writes_compacts_and_expires_a_copy(
    judge: Judge, tmp_path: Path, kind: Kind, snapshots: int | None
) -> None:
    source = Ours(tmp_path / "source")
    source.create(kind)
    for batch in kind.batches[:-1]:
        source.write(list(batch))
    source.tag("kept")
    target = lc.connect(tmp_path / "target")
    target.create_database("db")
    report = target.copy_table(source.table, snapshots=snapshots)
    ours, java = Ours(tmp_path / "target"), Java(judge, tmp_path / "target")

    assert java.rows() == source.rows()
    assert java.tagged("kept") == source.tagged("kept")
    assert [java.rows(id) for id in report.snapshot_ids] == [source.rows(id) for id in report.snapshot_ids]
    source.write(list(kind.batches[-1]))
    java.write(list(kind.batches[-1]))
    java.compact()
    java.expire(1)
    assert ours.rows() == java.rows() == source.rows()
    assert target.table(TABLE).verify(data=True).findings == ()
