"""A table that follows another one: it has all changes or says that it cannot, whatever expires meanwhile."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_dagster import Lake, TableSpec, commit_asset, ingest_asset
from lakehouse_dagster.pipeline import create_table, read_state
from lakehouse_dagster.sources import Behind, row_source
from lakehouse_dagster.testing import ReadyLake, ready_lake

pytestmark = pytest.mark.dagster
COMMON = {
    "database": "d",
    "comment": "T.",
    "columns": {"id": "BIGINT NOT NULL", "closed": "STRING"},
    "primary_key": ["id"],
    "runs_on": "process",
}
# By which the table holds the changes that it has yet to take.
CONSUMER = "changes.lake.d.open_orders"
FOLLOWED = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}


def nothing() -> pa.Table:
    """The followed table is written by the tests."""
    return pa.table({"id": pa.array([], pa.int64())})


SPECS = [
    TableSpec.model_validate({**COMMON, **own})
    for own in (
        {"name": "orders", "write_mode": "upsert", "function": {"call": nothing}, "options": FOLLOWED},
        {
            "name": "open_orders",
            "write_mode": "cdc",
            "changes_of": {"table": "d.orders", "while_null": ["closed"]},
            "options": {"bucket": "1"},
        },
    )
]


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(Lake(name="lake", tables=SPECS), resources={}) as made:
        create_table(lc.connect(made.warehouse), SPECS[0], {})
        yield made


def write(ready: ReadyLake, *orders: tuple[int, str | None]) -> None:
    """Commit each order in a snapshot of its own."""
    for number, closed in orders:
        ready.table("d.orders").write([{"id": number, "closed": closed}])


def consumers(ready: ReadyLake) -> dict[str, int]:
    rows = ready.table("d.orders").system("consumers").to_arrow().to_pylist()
    return {row["consumer_id"]: row["next_snapshot_id"] for row in rows}


def expire(ready: ReadyLake, retained: int, *, held: bool = False) -> None:
    """Expire snapshots of the followed table; without `held`, as if its consumers had not been written for long."""
    table = ready.table("d.orders")
    for name in () if held else consumers(ready):
        table.delete_consumer(name)
    table.expire_snapshots(retain_max=retained, retain_min=1)


def run(ready: ReadyLake, *, commit: bool = True) -> dg.ExecuteInProcessResult:
    assets = [ingest_asset, *([commit_asset] if commit else [])]
    resources = {"lakehouse": (ready.definitions.resources or {})["lakehouse"]}
    made = [each(ready.lake, SPECS[1]) for each in assets]
    return dg.materialize(made, instance=ready.instance, resources=resources, raise_on_error=False)


def commit_only(ready: ReadyLake, monkeypatch: pytest.MonkeyPatch) -> dg.ExecuteInProcessResult:
    """Execute the commit of a run again whose ingest is done, as Dagster does after a run died."""
    resources = {"lakehouse": (ready.definitions.resources or {})["lakehouse"]}
    with monkeypatch.context() as patched:
        patched.setattr("lakehouse_dagster.assets.commit.stages_itself", lambda *_: False)
        made = [commit_asset(ready.lake, SPECS[1])]
        return dg.materialize(made, instance=ready.instance, resources=resources, raise_on_error=False)


def failure(result: dg.ExecuteInProcessResult) -> str:
    (failed,) = (event for event in result.all_events if event.is_step_failure)
    return str(failed.step_failure_data.user_failure_data.description)


def open_orders(ready: ReadyLake) -> list[int]:
    return sorted(row["id"] for row in ready.table("d.open_orders").scan().to_arrow().to_pylist())


def test_a_table_that_begins_when_the_first_changes_are_expired_begins_with_the_rows(ready: ReadyLake) -> None:
    write(ready, *((number, None) for number in range(5)), (3, "yes"))
    expire(ready, 2)

    assert run(ready).success
    assert open_orders(ready) == [0, 1, 2, 4]
    write(ready, (7, None), (0, "yes"))
    assert run(ready).success
    assert open_orders(ready) == [1, 2, 4, 7]
    assert [each.commit_identifier for each in ready.table("d.open_orders").snapshots()] == [6, 7, 8]


def test_changes_that_are_staged_are_committed_also_when_they_are_expired_meanwhile(
    ready: ReadyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ready, (0, None), (1, None))
    assert run(ready).success
    write(ready, (2, None), (3, None), (4, None))
    assert run(ready, commit=False).success
    write(ready, (5, None))
    expire(ready, 2)

    # The run died, and its second step alone is executed again.
    assert commit_only(ready, monkeypatch).success

    assert open_orders(ready) == [0, 1, 2, 3, 4]
    assert run(ready).success
    assert open_orders(ready) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("before", [0, 2])
def test_a_load_goes_on_after_what_is_staged_without_reading_it_again(ready: ReadyLake, before: int) -> None:
    write(ready, *((number, None) for number in range(before)))
    assert run(ready).success
    write(ready, (2, None), (3, None), (4, None))
    assert run(ready, commit=False).success
    write(ready, (5, None))
    expire(ready, 2)

    assert run(ready).success

    assert open_orders(ready) == [*range(before), 2, 3, 4, 5]


def test_a_table_whose_changes_are_expired_says_so_and_is_made_anew_once_it_is_dropped(ready: ReadyLake) -> None:
    write(ready, (0, None))
    assert run(ready).success
    write(ready, (1, None), (2, None), (0, "yes"))
    expire(ready, 1)

    told = failure(run(ready))

    assert "it has the changes of d.orders up to snapshot 1, and not all of the later ones are kept: " in told
    assert "Drop d.open_orders: the next run makes it anew." in told
    assert open_orders(ready) == [0]
    lc.connect(ready.warehouse).drop_table("d.open_orders")
    assert run(ready).success
    assert open_orders(ready) == [1, 2]


def test_changes_that_were_staged_and_cannot_be_continued_give_way_to_the_rows(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None))
    assert run(ready, commit=False).success
    write(ready, (2, None), (0, "yes"), (3, None))
    expire(ready, 1)

    assert run(ready).success

    assert open_orders(ready) == [1, 2, 3]
    assert ready.table("d.open_orders").all_pending(ready.table("d.open_orders").snapshots()[0].commit_user) == []


def test_staged_changes_are_not_committed_without_those_before_them(
    ready: ReadyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ready, (0, None), (1, None), (1, "yes"))
    assert run(ready, commit=False).success
    table = ready.table("d.open_orders")
    (record, *_) = table.pending_commits()
    table.forget_pending(table.all_pending(record.commit_user)[1])

    told = failure(commit_only(ready, monkeypatch))

    assert "the changes of d.orders in snapshot 3 are staged, and those of snapshot 2 before them are neither" in told
    assert run(ready).success
    assert open_orders(ready) == [0]


def behind(ready: ReadyLake) -> Behind:
    """What the check `inputs_current` finds."""
    lakehouse = (ready.definitions.resources or {})["lakehouse"]
    source = row_source(ready.lake, SPECS[1])
    return source.behind(ready.table("d.open_orders"), SimpleNamespace(lakehouse=lakehouse), ready.instance)


def test_a_table_whose_source_was_rolled_back_says_so_and_is_made_anew(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None), (2, None))
    assert run(ready).success
    ready.table("d.orders").rollback_to(1)
    write(ready, (5, None))
    told = "snapshot 4 rolled d.orders back to snapshot 1, which no change tells. Drop d.open_orders"

    assert told in str(behind(ready).fault)
    assert told in failure(run(ready))
    assert open_orders(ready) == [0, 1, 2]
    lc.connect(ready.warehouse).drop_table("d.open_orders")
    assert run(ready).success
    assert open_orders(ready) == [0, 5]
    assert behind(ready).fault == ""
    write(ready, (6, None))
    assert behind(ready).waiting == ("6",)
    assert run(ready).success
    assert open_orders(ready) == [0, 5, 6]


def test_a_table_whose_source_was_rolled_back_and_forward_again_goes_on(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None), (2, None))
    assert run(ready).success
    ready.table("d.orders").rollback_to(1)
    write(ready, (5, None))
    ready.table("d.orders").rollback_to(3)

    assert behind(ready).fault == ""
    assert behind(ready).waiting == ()
    write(ready, (6, None))
    assert behind(ready).waiting == ("7",)
    assert run(ready).success
    assert open_orders(ready) == [0, 1, 2, 6]


def test_changes_that_a_rollback_took_back_before_they_were_taken_are_left_out(ready: ReadyLake) -> None:
    write(ready, (0, None))
    assert run(ready).success
    write(ready, (1, None), (2, None), (0, "yes"))
    ready.table("d.orders").rollback_to(2)
    write(ready, (6, None))

    assert behind(ready).waiting == ("2", "6")
    assert run(ready).success
    assert open_orders(ready) == [0, 1, 6]
    ready.table("d.orders").rollback_to(1)
    assert "rolled d.orders back to snapshot 1, which no change tells" in str(behind(ready).fault)


def test_a_rollback_to_the_changes_that_were_taken_last_is_understood_when_these_are_expired(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None))
    assert run(ready).success
    write(ready, (2, None))
    ready.table("d.orders").rollback_to(2)
    write(ready, (6, None))
    expire(ready, 1, held=True)
    assert [each.id for each in ready.table("d.orders").snapshots()] == [3, 4, 5]

    assert run(ready).success
    assert open_orders(ready) == [0, 1, 6]


def test_a_table_with_rows_of_its_own_begins_without_changes_that_were_taken_back(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None))
    ready.table("d.orders").rollback_to(1)
    write(ready, (6, None))
    create_table(lc.connect(ready.warehouse), SPECS[1], {})
    ready.table("d.open_orders").write([{"id": 100}])

    assert run(ready).success
    assert open_orders(ready) == [0, 6, 100]


def test_staged_changes_that_a_rollback_took_back_are_not_committed(ready: ReadyLake) -> None:
    write(ready, (0, None))
    assert run(ready).success
    write(ready, (1, None))
    assert run(ready, commit=False).success
    ready.table("d.orders").rollback_to(1)

    assert "up to snapshot 2, and snapshot 3 rolled d.orders back to snapshot 1" in failure(run(ready))
    assert open_orders(ready) == [0]


def test_a_table_whose_source_was_fast_forwarded_says_so(ready: ReadyLake) -> None:
    write(ready, (0, None))
    assert run(ready).success
    orders = ready.table("d.orders")
    orders.create_branch("b", at=1)
    orders.branch("b").write([{"id": 8, "closed": None}])
    orders.fast_forward("b")
    told = "snapshot 2 brought d.orders to the state of its branch b, which no change tells. Drop d.open_orders"

    assert told in str(behind(ready).fault)
    assert "brought to branch b" in str(read_state(orders).recent[0])


def test_a_table_whose_source_another_engine_rolled_back_says_so(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None))
    assert run(ready).success
    assert behind(ready).fault == ""
    # As Java does, which removes the later snapshots, and whose next ones have their ids.
    folder = Path(ready.warehouse, "d.db", "orders", "snapshot")
    (folder / "snapshot-2").unlink()
    (folder / "LATEST").unlink()
    assert "up to snapshot 2, and this snapshot is not there any more" in str(behind(ready).fault)
    write(ready, (5, None), (6, None))

    assert "up to snapshot 2, and another snapshot has this id now" in str(behind(ready).fault)
    assert "another snapshot has this id now" in failure(run(ready))
    assert open_orders(ready) == [0, 1]


def test_a_table_that_begins_after_a_rollback_begins_with_the_rows(ready: ReadyLake) -> None:
    write(ready, (0, None), (1, None))
    ready.table("d.orders").rollback_to(1)

    assert run(ready, commit=False).success
    assert behind(ready).fault == ""
    write(ready, (7, None))
    assert run(ready).success
    assert open_orders(ready) == [0, 7]


def test_an_expiry_keeps_the_changes_that_a_table_has_yet_to_take(ready: ReadyLake) -> None:
    write(ready, (0, None))
    assert run(ready).success
    assert consumers(ready) == {CONSUMER: 2}
    write(ready, (1, None), (2, None), (0, "yes"))
    expire(ready, 1, held=True)
    assert behind(ready).held == f"from snapshot 2 on, by consumer {CONSUMER}"
    assert read_state(ready.table("d.orders")).consumers == (f"{CONSUMER} reads snapshot 2 next",)

    assert run(ready).success

    assert open_orders(ready) == [1, 2]
    assert consumers(ready) == {CONSUMER: 5}
    expire(ready, 1, held=True)
    assert [each.id for each in ready.table("d.orders").snapshots()] == [4]


def test_changes_are_held_before_they_are_read_and_until_they_are_committed(
    ready: ReadyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ready, (0, None))
    assert run(ready, commit=False).success
    assert consumers(ready) == {CONSUMER: 1}
    write(ready, (1, None))
    expire(ready, 1, held=True)
    # Killed after its commit, before it said so.
    with monkeypatch.context() as patched:
        patched.setattr("lakehouse_dagster.assets.commit.read_state", killed)
        assert not run(ready).success

    assert open_orders(ready) == [0, 1]
    assert consumers(ready) == {CONSUMER: 1}
    assert run(ready).success
    assert consumers(ready) == {CONSUMER: 3}


def killed(*_: object) -> None:
    raise RuntimeError("the process is gone")


def test_a_table_that_is_gone_holds_nothing_for_ever_and_one_that_waited_for_long_is_held_for_again(
    ready: ReadyLake,
) -> None:
    write(ready, (0, None), (1, None))
    assert run(ready).success
    assert ready.table("d.orders").schema.options["consumer.expiration-time"] == "7 d"
    eight_days_ago = time.time() - 8 * 86400
    os.utime(ready.warehouse / "d.db" / "orders" / "consumer" / f"consumer-{CONSUMER}", (eight_days_ago,) * 2)
    write(ready, (2, None), (3, None))

    expire(ready, 2, held=True)

    assert consumers(ready) == {}
    assert behind(ready).waiting == ("3", "4")
    assert consumers(ready) == {CONSUMER: 3}
