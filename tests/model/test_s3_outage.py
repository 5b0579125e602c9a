"""A store answers 503 for a minute: verbs go on or say to come back, ask it seldom meanwhile, and lose no row."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.storage import StoreSpec, with_storage
from lakehouse_core.storage.remote.s3 import s3_store
from tests.model.s3_faults import VERBS, trial_of
from tests.model.s3_outage import RETRIABLE, FastClock, Outage, fast_stub, ride, until_done
from tests.model.test_s3_faults import READING
from tests.storage.s3_stub import Request, S3Stub

SPEED = 100.0
SEEDS = count(1)
SOME = ("write", "commit, overtaken", "write, compact", "compact", "expire", "create table")
# Each of 32 requests at once is tried six times in one to two seconds, and after a longer wait again.
MOST_REFUSED = 384
# Of a user who does it again and again: six a second.
MOST_REFUSED_BY_ONE = 360


@pytest.fixture(scope="module")
def stub() -> Iterator[S3Stub]:
    with fast_stub(SPEED) as stub:
        yield stub


def publishing(requests: Sequence[Request]) -> Request:
    """Return the request that publishes the first snapshot."""
    return next(each for each in requests if each.verb == "put" and "/snapshot/snapshot-" in each.key)


def the(request: Request) -> Callable[[Request], bool]:
    return lambda each: each == request


def number(place: int) -> Callable[[Request], bool]:
    """Return whether a request is the one at this place: of requests at once, another one may be the first."""
    places = count()
    return lambda _: next(places) == place


def ends_well(stub: S3Stub, name: str, at: Callable[[Request], bool]) -> BaseException | None:
    """Ride out the minute; return the error that was told, which says to do the same again."""
    outage, told = ride(stub, name, at, speed=SPEED)

    assert told is None or isinstance(told, RETRIABLE)
    assert 0 < len(outage.refused) <= MOST_REFUSED, (name, outage.refused[:1], told)
    return told


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_a_verb_during_a_minute_of_503_ends_and_says_whether_to_do_it_again(stub: S3Stub, name: str) -> None:
    writing = [each for each in trial_of(stub, name).requests if each.verb not in READING]

    for request in (writing[0], writing[len(writing) // 2]):
        ends_well(stub, name, the(request))


def test_a_commit_whose_snapshot_is_refused_for_a_minute_is_published_after_it(stub: S3Stub) -> None:
    requests = trial_of(stub, "write").requests

    assert ends_well(stub, "write", the(publishing(requests))) is None


@pytest.mark.long
@pytest.mark.parametrize("name", VERBS)
def test_every_verb_rides_out_a_minute_of_503(stub: S3Stub, name: str) -> None:
    requests = len(trial_of(stub, name).requests)
    for place in range(0, requests, max(1, requests // 8)):
        ends_well(stub, name, number(place))


@pytest.mark.slow
@pytest.mark.parametrize("speed", [SPEED, pytest.param(1.0, marks=pytest.mark.long)])
def test_writers_a_reader_and_compactions_go_on_after_a_minute_of_503_and_no_row_is_lost(speed: float) -> None:
    with fast_stub(speed) as stub:
        location = with_storage(StoreSpec("s3", "lake/wh"), stub.storage)

        def opened() -> tuple[FastClock, Catalog]:
            clock = FastClock(speed, seed=next(SEEDS))
            return clock, Catalog(s3_store(location, clock=clock), clock=clock)

        clock, catalog = opened()
        catalog.create_database("db")
        options = {"bucket": "2", "changelog-producer": "input", "num-sorted-run.compaction-trigger": "4"}
        made = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options=options)
        outage = Outage(stub, clock, lambda each: each.verb == "put" and each.key.endswith("/snapshot/snapshot-6"))
        told: list[lc.LakehouseError] = []
        written = threading.Event()

        def write(writer: int) -> int:
            clock, catalog = opened()
            table = until_done(clock, lambda: catalog.table("db.t"), told)
            number = 0
            while number < 4 or not outage.has_ended:
                row = {"k": writer * 1000 + number, "v": number}
                until_done(clock, lambda row=row, number=number: kept(table, row, f"writer-{writer}", number), told)
                number += 1
            return number

        def read() -> int:
            clock, catalog = opened()
            reads, before = 0, set[int]()
            while not written.is_set():
                found = until_done(clock, lambda: keys_of(catalog.table("db.t")), told)
                assert before <= found
                before, reads = found, reads + 1
            return reads

        def compact() -> None:
            clock, catalog = opened()
            while not written.is_set():
                # Writers compact too, and may have been faster in all buckets.
                with suppress(lc.CommitConflict):
                    until_done(clock, lambda: catalog.table("db.t").compact(full=True), told)
                clock.sleep(2)

        with ThreadPoolExecutor(5) as pool:
            beside = [pool.submit(read), pool.submit(compact)]
            try:
                counts = list(pool.map(write, range(3)))
            finally:
                written.set()
            for each in beside:
                each.result()

        expected = [writer * 1000 + number for writer in range(3) for number in range(counts[writer])]
        assert outage.has_ended
        assert sorted(made.scan().to_arrow()["k"].to_pylist()) == expected
        # Each row was told once, so none was committed twice.
        assert sorted(made.changes(after=0).to_arrow()["k"].to_pylist()) == expected
        assert made.verify(data=True).findings == ()
        assert len(outage.refused) <= 5 * MOST_REFUSED_BY_ONE, told


def keys_of(table: lc.Table) -> set[int]:
    return set(table.scan().to_arrow()["k"].to_pylist())


def kept(table: lc.Table, row: dict[str, int], user: str, identifier: int) -> object:
    """As a pipeline does it: what was staged is kept until it is committed."""
    staged = table.pending(user, identifier)
    if staged is None:
        staged = table.stage([row], commit_user=user, commit_identifier=identifier)
        table.keep_pending(staged)
    return table.commit(staged)
