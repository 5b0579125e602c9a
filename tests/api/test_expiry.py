"""expire_snapshots at the front door: what it says is what it does."""

import time
from datetime import timedelta

import lakehouse_core as lc


def test_fewer_snapshots_than_are_retained_all_stay_and_only_what_an_ended_tag_kept_goes(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "1", "lakehouse.read.grace": "0 s", "write-only": "true"}
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options)
    for number in range(5):
        table.write([{"k": number, "v": "a"}])
    table.create_tag("short", at=2, retention=timedelta(milliseconds=1))
    # The millisecond must have ended before the first of the two calls.
    time.sleep(0.01)

    dry = table.expire_snapshots(dry_run=True)
    report = table.expire_snapshots()

    assert dry.paths == report.paths
    assert not [path for path in report.paths if not path.startswith("tag/")]
    assert (report.snapshots_retained, report.earliest_snapshot_id, report.tags_expired) == (5, 1, ("short",))
    assert report.reason == "snapshots 1 to 5 stay: at least 10 are to be retained"
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3, 4, 5]
    assert table.scan(at=lc.AtSnapshot(2)).count() == 2
