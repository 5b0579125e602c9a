"""What the verbs answer: figures of the work, and the time that it took."""

from pathlib import Path

import lakehouse_core as lc
from lakehouse_core.api.reports import Report
from lakehouse_core.api.verb import reported
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore
from tests.contexts import context_of


class Sleeper:
    """An object with one verb, which takes as long as it is told."""

    def __init__(self) -> None:
        self.name = "db.t"
        self.clock = VirtualClock()
        self._context = context_of(MemoryStore(), self.clock)

    @reported
    def sleep(self, seconds: float) -> Report:
        self.clock.sleep(seconds)
        return Report(table="db.t")


def test_a_report_says_how_long_its_verb_took():
    report = Sleeper().sleep(2.5)

    assert report == Report(table="db.t", duration_seconds=2.5)


def test_a_dry_run_of_a_compaction_with_nothing_to_do_leaves_the_number_of_files(tmp_path: Path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
    table.write([{"id": 1}])
    table.compact(full=True)
    done = table.compact(full=True, dry_run=True)
    table.write([{"id": 2}])
    due = table.compact(full=True, dry_run=True)

    assert (done.files_before, done.files_after) == (1, 1)
    assert (due.files_before, due.files_after) == (2, 0)
