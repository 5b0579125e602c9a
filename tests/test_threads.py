"""Pools of threads carry out each call once, also where no thread can be started any more."""

import gc
import json
import subprocess
import sys
import threading
from concurrent.futures import wait
from threading import Event, Thread, current_thread
from weakref import ref

import pytest

from lakehouse_core.threads import Threads
from tests.limits import HANGS_AFTER_SECONDS
from tests.storage.s3_stub import S3Stub

# The main thread ends with the last line, and the other one goes on with all that the engine does in threads.
GOES_ON = """
import json, sys, threading
import lakehouse_core as lc

def work():
    threading.main_thread().join()
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t", {"p": "INT", "k": "INT NOT NULL", "v": "STRING"},
        partition_keys=["p"], primary_keys=["p", "k"], options={"bucket": "2"},
    )
    for turn in range(3):
        table.write([{"p": p, "k": k, "v": str(turn)} for p in range(4) for k in range(50)])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.delete("k < 10")
    table.verify()
    print(table.scan().to_arrow().num_rows)

catalog = lc.connect("s3://lake/wh", storage=json.loads(sys.argv[1]))
threading.Thread(target=work).start()
"""


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no further thread start, as at the limit of the system."""

    def start(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_calls_run_in_threads_of_the_pool() -> None:
    with Threads(1, thread_name_prefix="pool") as pool:
        assert pool.submit(lambda: current_thread().name).result(HANGS_AFTER_SECONDS).startswith("pool")


def test_where_no_thread_can_be_started_the_caller_carries_out_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch)
    with Threads(2) as pool:
        assert pool.submit(lambda name: (name, current_thread()), "a").result(0) == ("a", current_thread())
        assert list(pool.map(len, ["a", "bc"])) == [1, 2]


def test_an_error_of_a_call_that_the_caller_carries_out_is_in_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch)
    with Threads(1) as pool:
        failed = pool.submit(int, "no number")

    assert isinstance(failed.exception(0), ValueError)


def test_a_call_whose_thread_did_not_start_is_carried_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool has queued it by then, so a thread that runs already takes it too."""
    held, done = Event(), list[Thread]()
    with Threads(2) as pool:
        first = pool.submit(held.wait, HANGS_AFTER_SECONDS)
        refuse_threads(monkeypatch)
        second = pool.submit(lambda: done.append(current_thread()))
        held.set()
        wait([first, second], HANGS_AFTER_SECONDS)

    assert done == [current_thread()]


def test_an_interruption_of_the_caller_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result may never be asked for, as that of a file which is opened ahead and then not needed."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    refuse_threads(monkeypatch)
    with Threads(1) as pool, pytest.raises(KeyboardInterrupt):
        pool.submit(interrupted)


def test_a_pool_that_was_shut_down_takes_no_call() -> None:
    begun, held, done = Event(), Event(), list[str]()
    pool = Threads(1)
    first = pool.submit(lambda: (begun.set(), held.wait(HANGS_AFTER_SECONDS)))
    waiting = pool.submit(done.append, "waited")
    assert begun.wait(HANGS_AFTER_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(done.append, "came late")
    held.set()
    first.result(HANGS_AFTER_SECONDS)

    assert (waiting.cancelled(), done) == (True, [])


def test_a_call_that_failed_keeps_its_arguments_no_longer_than_its_error() -> None:
    """Without a cycle: arguments are as large as the files of a task, and no collection may come for long."""

    def fail(argument: object) -> None:
        raise ValueError

    argument = Event()
    kept = ref(argument)
    gc.disable()
    try:
        with Threads(1) as pool:
            failed = pool.submit(fail, argument)
            assert isinstance(failed.exception(HANGS_AFTER_SECONDS), ValueError)
        del failed, argument
        assert kept() is None
    finally:
        gc.enable()


def test_a_call_that_the_caller_carried_out_is_not_kept_by_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool that sends requests stays until the process ends."""
    refuse_threads(monkeypatch)
    argument = Event()
    kept = ref(argument)
    with Threads(1) as pool:
        assert pool.submit(Event.is_set, argument).result(0) is False
        del argument
        assert kept() is None


def test_a_thread_that_outlives_the_main_one_goes_on_with_a_table_in_an_object_store() -> None:
    with S3Stub() as stub:
        script = [sys.executable, "-c", GOES_ON, json.dumps(stub.storage)]
        ended = subprocess.run(script, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_SECONDS)

    assert (ended.stdout.strip(), ended.stderr) == ("160", "")
