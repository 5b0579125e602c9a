"""Seen: what the first answer was, for all that ask the same store."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse_core.metadata.seen import SeenStore
from lakehouse_core.storage import FaultyStore, LocalStore, MemoryStore


@pytest.mark.parametrize("first", [lambda seen: seen.read("schema/a"), lambda seen: seen.children("schema")])
def test_threads_that_ask_at_the_same_time_have_one_answer(first: Callable[[SeenStore], object]) -> None:
    """Another thread has its answer, and a writer comes, while the first one waits for its own."""
    store = MemoryStore()
    answers: list[object] = []
    store.write({"schema/a": b"old"})

    def beside(call: object) -> None:
        if not answers:
            answers.append(None)
            answers[:] = [(seen.read("schema/a"), [*seen.children("schema").files])]
            store.write({"schema/a": b"new"})
            store.write({"schema/b": b"new"})

    seen = SeenStore(FaultyStore(store, on_call=beside))
    first(seen)

    assert [(seen.read("schema/a"), [*seen.children("schema").files])] == answers == [(b"old", ["a"])]


def test_what_was_seen_does_not_go_to_another_process(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write({"schema/a": b"old"})
    seen = SeenStore(store)
    assert seen.read("schema/a") == b"old"

    store.write({"schema/a": b"new"})

    assert seen.read("schema/a") == b"old"
    assert pickle.loads(pickle.dumps(seen)).read("schema/a") == b"new"
