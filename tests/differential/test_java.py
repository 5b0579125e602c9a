"""Real Java against the model, and both ways between Java and us: 200 random histories, the same on every run."""

from collections.abc import Iterator

import pytest

from tests.differential.compare import against_model, against_reader, failure
from tests.differential.executors import Java, Ours
from tests.differential.generate import histories
from tests.interop.judge import VERSIONS, Judge

pytestmark = pytest.mark.interop

SHARES, SHARE = 5, 20


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Iterator[Java]:
    with Judge(request.param) as judge:
        yield Java(judge)


@pytest.mark.parametrize("share", range(SHARES))
def test_the_model_shows_what_java_shows(java: Java, share: int) -> None:
    for seed, history in histories(share * SHARE, SHARE):
        found = failure(
            f"Java {java.version} against the model", lambda history: against_model(java, history), seed, history
        )

        assert found is None, found


@pytest.mark.parametrize("share", range(SHARES))
def test_java_and_we_read_what_the_other_wrote(java: Java, share: int) -> None:
    ours = Ours()
    for seed, history in histories(share * 100_000, SHARE // 2):
        for name, writer, reader in (
            (f"Java {java.version} writes, we read", java, ours),
            (f"we write, Java {java.version} reads", ours, java),
        ):
            found = failure(
                name,
                lambda history, writer=writer, reader=reader: against_reader(writer, reader, history),
                seed,
                history,
            )

            assert found is None, found
