"""Every verb on a strict S3 server where requests fail: done or not, told truly, nothing damaged, well when repeated.

Here some requests that write, in each way; `make test-long` takes more of all, and `make search` each in each way.
"""

from collections.abc import Iterator

import pytest

from tests.model.s3_faults import FAULTS, VERBS, stub_without_repeats, sweep
from tests.storage.s3_stub import S3Stub

READING = {"get", "head", "list"}


@pytest.fixture(scope="module")
def stub() -> Iterator[S3Stub]:
    with stub_without_repeats() as stub:
        yield stub


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_readers_see_before_or_after_whatever_writing_request_fails(stub: S3Stub, name: str) -> None:
    count = 0
    for place, fault in enumerate(FAULTS):
        count += sweep(
            stub,
            name,
            fault,
            chosen=lambda requests, place=place: [each for each in requests if each.verb not in READING][place::18],
        )
    assert count > 0


@pytest.mark.long
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", VERBS)
def test_readers_see_before_or_after_whatever_request_fails(stub: S3Stub, name: str, fault: str, stays: bool) -> None:
    place = list(FAULTS).index(fault) + len(FAULTS) * stays
    assert sweep(stub, name, fault, stays=stays, chosen=lambda requests: requests[place % len(requests) :: 24]) > 0
