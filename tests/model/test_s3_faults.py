"""Every verb on a strict S3 server where requests fail: done or not, told truly, nothing damaged, well when repeated.

Here some requests that write, every eighth verb in three of the six ways, the other verbs where the store fails
(`test_faults.py`); `make test-long` takes all verbs, the other ways and more of all requests, and `make search` each in
each way.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import ObjectStore, StoreSpec, with_storage
from lakehouse_core.storage.remote.s3 import s3_store
from tests.model.s3_faults import FAULTS, VERBS, stub_without_repeats, sweep
from tests.model.test_history import LIVES, STEPS, Life, live
from tests.model.test_table import TableMachine
from tests.pairs import each_with_one
from tests.storage.s3_stub import Request, S3Stub

READING = {"get", "head", "list"}


@pytest.fixture(scope="module")
def stub() -> Iterator[S3Stub]:
    with stub_without_repeats() as stub:
        yield stub


def some_writing(requests: Sequence[Request], place: int) -> Sequence[Request]:
    """Return every 18th of the requests that write, one at least."""
    writing = [each for each in requests if each.verb not in READING]
    return writing[place % len(writing) :: 18]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "places"), each_with_one(VERBS, [(0, 2, 4), (1, 3, 5)], step=19, first=1))
def test_readers_see_before_or_after_whatever_writing_request_fails(
    stub: S3Stub, name: str, places: Sequence[int]
) -> None:
    count = 0
    for place in places:
        count += sweep(
            stub,
            name,
            list(FAULTS)[place],
            chosen=lambda requests, place=place: some_writing(requests, place),
        )
    assert count > 0


@pytest.mark.long
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", VERBS)
def test_readers_see_before_or_after_whatever_request_fails(stub: S3Stub, name: str, fault: str, stays: bool) -> None:
    place = list(FAULTS).index(fault) + len(FAULTS) * stays
    assert sweep(stub, name, fault, stays=stays, chosen=lambda requests: requests[place % len(requests) :: 24]) > 0


class S3Machine(TableMachine):
    """The random verbs of a table, in an empty bucket."""

    stub: S3Stub

    def new_catalog(self) -> Catalog:
        return Catalog(empty(self.stub, self.clock), clock=self.clock)


def empty(stub: S3Stub, clock: VirtualClock) -> ObjectStore:
    """Return a store on the stub without an object, both at the time of the clock."""
    stub.restart({})
    stub.now_millis = clock.now_millis
    return s3_store(with_storage(StoreSpec("s3", "lake/wh"), stub.storage), clock=clock)


@pytest.mark.parametrize("examples", [4, pytest.param(25, marks=pytest.mark.long)])
def test_random_histories_say_what_the_model_says(stub: S3Stub, examples: int) -> None:
    S3Machine.stub = stub
    stub.plan = lambda request: None
    machine = S3Machine.TestCase("runTest")
    machine.settings = settings(max_examples=examples, stateful_step_count=15, deadline=None)
    machine.runTest()


@pytest.mark.parametrize("examples", [4, pytest.param(25, marks=pytest.mark.long)])
def test_random_lives_leave_what_is_needed_and_nothing_else(stub: S3Stub, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(LIVES, st.lists(STEPS, min_size=5, max_size=20))
    def any_life(life: Any, steps: Any) -> None:
        clock = VirtualClock()
        live(Life(**life, store=empty(stub, clock), clock=clock), steps)

    any_life()
