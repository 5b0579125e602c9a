"""Java 1.0.1, the oldest release that tables are exchanged with: what it writes we read, what we write it reads."""

from collections.abc import Iterator

import pytest

from tests.interop.engines import Java, Ours
from tests.interop.judge import OLDEST, Judge
from tests.interop.kinds import BY_NAME, Kind
from tests.interop.test_matrix import load, same_changes, same_history

pytestmark = pytest.mark.interop

PLAIN = BY_NAME["key"]
VECTORS = {"bucket": "2", "deletion-vectors.enabled": "true"}
KINDS = [
    *(BY_NAME[name] for name in ("append", "append bucketed", "append partitioned", "key", "key partitioned")),
    *(BY_NAME[name] for name in ("key every type", "key orc", "key avro", "key sequence", "key changelog input")),
    Kind(name="key vectors", fields=PLAIN.fields, primary_keys=["k"], options=VECTORS, batches=PLAIN.batches),
]
by_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name.replace(" ", "-") for kind in KINDS])


@pytest.fixture(scope="module", params=[OLDEST])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param) as java:
        yield java


@by_kind
def test_the_oldest_java_writes_and_we_read(ours: Ours, java: Java, kind: Kind) -> None:
    load(java, kind)

    same_history(ours, java)
    same_changes(ours, java)


@by_kind
def test_we_write_and_the_oldest_java_reads(ours: Ours, java: Java, kind: Kind) -> None:
    load(ours, kind)

    same_history(ours, java)
    same_changes(ours, java)


@by_kind
def test_the_oldest_java_goes_on_where_we_stopped(ours: Ours, java: Java, kind: Kind) -> None:
    ours.create(kind)
    first, *later = kind.batches
    ours.write(list(first))
    for batch in later:
        java.write(list(batch))
    ours.compact()

    same_history(ours, java)
