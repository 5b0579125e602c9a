"""The task that copies changelog files behind each other: byte for byte, or nothing at all."""

from collections.abc import Mapping
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, LakehouseError
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ProcessDied
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.joined_changelog import segment_names, segment_of
from lakehouse_core.tasks.changelogs import concatenate as join
from lakehouse_core.tasks.changelogs.concatenate import JoinTask, join_answer, join_files, run_join
from lakehouse_core.tasks.runtime import local_runtime

CONTENTS = {"p/bucket-1/a.orc": b"first", "p/bucket-1/b.orc": b"", "p/bucket-3/c.orc": b"third file"}


def joining(store: ObjectStore, contents: Mapping[str, bytes]) -> JoinTask:
    """Put the files there and return the task that joins them in this order."""
    store.write(contents)
    return JoinTask(
        number=7,
        store=store.spec,
        folder="p/bucket-1",
        bucket=1,
        file_format="orc",
        files=tuple((key, len(data)) for key, data in contents.items()),
    )


def objects(store: ObjectStore) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list("")}


def test_the_object_is_the_files_one_behind_the_other_and_they_stay() -> None:
    store = MemoryStore()
    task = joining(store, CONTENTS)

    number, name = join_answer(run_join(task, local_runtime(store, VirtualClock())))

    assert number == 7
    assert objects(store) == {**CONTENTS, f"p/bucket-1/{name}": b"firstthird file"}


@given(contents=st.lists(st.binary(min_size=1, max_size=40), min_size=2, max_size=6), step=st.integers(1, 30))
def test_every_segment_is_the_file_that_it_was(contents: list[bytes], step: int) -> None:
    store = MemoryStore()
    files = {f"p/bucket-{bucket}/f": data for bucket, data in enumerate(contents, 1)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(join, "_COPIED_BYTES", step)
        name = join_files(joining(store, files), local_runtime(store, VirtualClock()))

    found = []
    for bucket, segment_name in enumerate(segment_names(name, map(len, contents)), 1):
        segment = segment_of(f"p/bucket-{bucket}/{segment_name}")
        assert segment is not None
        found.append(store.read(segment.key)[segment.offset : segment.end])
    assert found == contents


@pytest.mark.parametrize(
    ("now", "says"), [(None, "is missing"), (b"shorter or longer", "has 17 bytes, its writer recorded 10")]
)
def test_a_file_that_is_not_what_was_written_stops_the_task(now: bytes | None, says: str) -> None:
    store = MemoryStore()
    task = joining(store, CONTENTS)
    if now is None:
        store.delete(["p/bucket-3/c.orc"])
    else:
        store.write({"p/bucket-3/c.orc": now})
    before = objects(store)

    with pytest.raises(CorruptTable, match=says):
        join_files(task, local_runtime(store, VirtualClock()))
    assert objects(store) == before


@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.ENOSPC, FaultKind.DIE_BEFORE])
def test_whatever_fails_the_files_are_there_and_an_object_is_whole_or_not_there(kind: FaultKind) -> None:
    for at in count(1):
        store = MemoryStore()
        task = joining(store, CONTENTS)
        faulty = FaultyStore(store, [Fault(at=at, kind=kind)])
        try:
            join_files(task, local_runtime(faulty, VirtualClock()))
        except (LakehouseError, ProcessDied):
            assert objects(store) == CONTENTS
        if at > len(faulty.calls):
            break

    assert at > 3
