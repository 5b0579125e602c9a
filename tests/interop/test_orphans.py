"""Orphans of one table, for Java and for us."""

from pathlib import Path

import pytest

from lakehouse_core.execution.expiry.orphans import remove_orphans
from tests.interop.engines import Java, Ours
from tests.interop.judge import Judge
from tests.interop.kinds import KINDS, Kind
from tests.interop.values import arrow_rows

pytestmark = pytest.mark.interop

ALWAYS = 2**52


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_both_find_the_same_orphans_and_none_after_a_removal(
    judge: Judge, ours: Ours, java: Java, tmp_path: Path, kind: Kind
) -> None:
    ours.create(kind)
    for batch in kind.batches:
        ours.write(list(batch))
    rows = [{name: value for name, value in row.items() if name != "_kind"} for row in kind.batches[0]]
    ours.table.stage(arrow_rows(rows, ours.table.schema.fields), commit_user="killed", commit_identifier=1)
    asked = {"table": "db.t", "warehouse": str(tmp_path), "olderThanMillis": ALWAYS}
    theirs = judge.call("orphan-clean", **asked, dryRun=True)["files"]
    before = ours.rows()

    found = remove_orphans(ours.table._context, min_age_millis=0)

    assert found.deleted
    assert sorted(one.key for one in found.deleted) == sorted(file.rpartition("/t/")[2] for file in theirs)
    assert judge.call("orphan-clean", **asked)["files"] == []
    assert ours.rows() == java.rows() == before
    assert ours.table.verify().findings == ()
