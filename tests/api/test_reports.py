"""What the verbs answer: figures of the work, and the time that it took."""

from lakehouse_core.api.reports import Report, timed
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore
from tests.contexts import context_of


class Sleeper:
    """An object with one verb, which takes as long as it is told."""

    def __init__(self) -> None:
        self.name = "db.t"
        self.clock = VirtualClock()
        self._context = context_of(MemoryStore(), self.clock)

    @timed
    def sleep(self, seconds: float) -> Report:
        self.clock.sleep(seconds)
        return Report(table="db.t")


def test_a_report_says_how_long_its_verb_took():
    report = Sleeper().sleep(2.5)

    assert report == Report(table="db.t", duration_seconds=2.5)
