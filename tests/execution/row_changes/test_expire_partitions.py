"""expire_partitions and mark_partitions_done: partitions by the time in their values, and the file of those done."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import FaultyStore, MemoryStore
from tests.api.malformed_calls import Unspeakable

NOW = int(datetime(2013, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
DAYS = ["2013-01-28", "2013-01-29", "2013-01-30", "2013-01-31", "none"]


class Place:
    def __init__(self, *, keyed: bool = False, **options: str) -> None:
        self.clock = VirtualClock(now_millis=NOW)
        self.store = MemoryStore(clock=self.clock)
        catalog = Catalog(self.store, clock=self.clock)
        catalog.create_database("db")
        catalog.create_table(
            "db.t",
            {"dt": "STRING NOT NULL", "k": "INT NOT NULL"},
            primary_keys=["dt", "k"] if keyed else [],
            partition_keys=["dt"],
            options={"bucket": "1" if keyed else "-1", **options},
        )
        self.table.write([{"dt": day, "k": 1} for day in DAYS])

    @property
    def table(self) -> lc.Table:
        return Catalog(self.store, clock=self.clock).table("db.t")

    def days(self) -> list[Any]:
        return sorted(self.table.scan().to_arrow().column("dt").to_pylist())


@pytest.mark.parametrize("keyed", [False, True])
def test_partitions_whose_time_is_too_long_ago_are_dropped_in_one_commit(keyed: bool) -> None:
    place = Place(keyed=keyed)

    plan = place.table.expire_partitions(timedelta(days=2), dry_run=True)
    report = place.table.expire_partitions(timedelta(days=2))

    assert plan.partitions_expired == report.partitions_expired == ({"dt": "2013-01-28"}, {"dt": "2013-01-29"})
    assert plan.dry_run
    assert (report.commit_kind, report.method, report.files_removed) == ("OVERWRITE", "partitions", 2)
    assert place.days() == DAYS[2:]
    again = place.table.expire_partitions(timedelta(days=2))
    assert again.snapshot_id is None
    assert again.noop_reason.startswith("no partition has expired; 1 of 3 partitions have values that are not a time")
    assert place.table.verify(data=True).findings == ()


def test_the_options_of_the_table_say_when_how_and_how_many() -> None:
    place = Place(**{"partition.expiration-time": "1 d", "partition.expiration-max-num": "1"})

    assert place.table.expire_partitions().partitions_expired == ({"dt": "2013-01-28"},)
    assert len(place.table.expire_partitions(at_most=5).partitions_expired) == 2
    assert place.days() == DAYS[3:]
    assert "2 of 2 partitions have" in place.table.expire_partitions(timedelta(0), formatter="yyyyMMdd").noop_reason
    assert place.table.expire_partitions(timedelta(0), pattern="$dt 11:00:00").partitions_expired == (
        {"dt": "2013-01-31"},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the option partition.expiration-time is not set"),
        ({"older_than": 5}, "older_than=5: expected a timedelta"),
        ({"older_than": timedelta(days=-1)}, "expected a timedelta of 0 or more"),
        ({"older_than": timedelta(0), "at_most": 0}, "at_most=0: expected a number of partitions"),
        ({"older_than": timedelta(0), "pattern": 5}, "pattern=5: expected a text"),
        ({"older_than": timedelta(0), "formatter": "yyyy-MMM"}, "found MMM, expected a supported"),
    ],
)
def test_what_does_not_say_which_partitions_expire_is_refused(arguments: dict[str, Any], message: str) -> None:
    place = Place()

    with pytest.raises(lc.InvalidRequest, match=message):
        place.table.expire_partitions(**arguments)

    assert place.days() == DAYS


DATES = [date(2013, 1, 28), date(2030, 1, 1)]
FORMATTER = "Give a formatter, and for several columns a pattern, that describe it"


@pytest.mark.parametrize(
    ("kind", "days", "arguments", "reason"),
    [
        ("DATE", DATES, {}, "2 of 2 partitions have values that are not a time, such as dt=2013-01-28, which counts as "
            "'15733': a DATE counts as its number of days. Delete such partitions by a condition"),
        ("DATE", DATES, {"formatter": "yyyyMMdd"}, "a DATE counts as its number of days"),
        ("DATE", DATES, {"pattern": "$dt 00:00:00"}, "which counts as '15733 00:00:00': a DATE counts as its"),
        ("INT", [20130128, 20300101], {}, f"such as dt=20130128, which counts as '20130128'. {FORMATTER}"),
        ("INT", [20130128, 20300101], {"formatter": "yyyyMMdd"}, None),
        ("INT", [20300101], {"formatter": "yyyyMMdd"}, ""),
        ("STRING", ["20130128", "2030-01-01", None], {}, f"1 of 2 partitions have values that are not a time, such as "
            f"dt=20130128, which counts as '20130128'. {FORMATTER}"),
        ("STRING", ["2013-01-28"], {"pattern": "$nix"}, "such as dt=2013-01-28, which counts as '$nix'"),
        ("STRING", ["2013-01-28", "20130128"], {}, None),
        ("TIMESTAMP(3)", [datetime(2013, 1, 28)], {}, "which counts as '2013-01-28T00:00'"),
        ("TIMESTAMP(3)", [datetime(2013, 1, 28)], {"formatter": "yyyy-MM-dd'T'HH:mm"}, None),
    ],
)  # fmt: skip
def test_values_that_are_not_a_time_are_told_when_nothing_expires(
    kind: str, days: list[Any], arguments: dict[str, str], reason: str | None
) -> None:
    clock = VirtualClock(now_millis=NOW)
    catalog = Catalog(MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"dt": kind, "k": "INT"}, partition_keys=["dt"])
    table.write([{"dt": day, "k": 1} for day in days])

    report = table.expire_partitions(timedelta(days=2), **arguments)  # type: ignore[arg-type]

    if reason is None:
        assert (len(report.partitions_expired), report.noop_reason) == (1, None)
    elif reason:
        assert reason in str(report.noop_reason)
        assert str(report.noop_reason).startswith("no partition has expired; ")
    else:
        assert report.noop_reason == "no partition has expired"


def test_an_empty_table_has_no_partition_that_expires() -> None:
    place = Place()
    place.table.truncate()

    assert place.table.expire_partitions(timedelta(0)).noop_reason == "no partition has expired"


def test_rows_that_come_into_an_expired_partition_meanwhile_go_too_or_stay_whole() -> None:
    counting = FaultyStore(Place().store)
    Catalog(counting, clock=VirtualClock(now_millis=NOW)).table("db.t").expire_partitions(timedelta(days=2))
    for number in range(1, len(counting.calls) + 1):
        place = Place()

        def interrupt(call: Any, number: int = number, place: Place = place) -> None:
            if call.number == number:
                place.table.write([{"dt": "2013-01-28", "k": 2}, {"dt": "2013-01-28", "k": 3}])

        store = FaultyStore(place.store, on_call=interrupt)
        Catalog(store, clock=place.clock).table("db.t").expire_partitions(timedelta(days=2))

        assert place.days() in (DAYS[2:], ["2013-01-28", "2013-01-28", *DAYS[2:]])
        assert place.table.verify(data=True).findings == ()


def test_a_done_partition_has_a_file_with_the_times_of_its_first_and_last_mark() -> None:
    place = Place()
    report = place.table.mark_partitions_done({"dt": "2013-01-28"})
    assert report.partitions_done == ({"dt": "2013-01-28"},)
    key = "db.db/t/dt=2013-01-28/_SUCCESS"
    first = place.store.read(key).decode()
    assert first == f'{{\n  "creationTime" : {NOW},\n  "modificationTime" : {NOW}\n}}'
    place.clock.advance(1)

    place.table.mark_partitions_done([{"dt": "2013-01-28"}, {"dt": "2013-01-29"}])

    assert place.store.read(key).decode() == first.replace(f'n" : {NOW}', f'n" : {NOW}', 1).replace(
        f'"modificationTime" : {NOW}', f'"modificationTime" : {NOW + 1000}'
    )
    assert f'"creationTime" : {NOW + 1000}' in place.store.read("db.db/t/dt=2013-01-29/_SUCCESS").decode()
    assert place.days() == DAYS
    assert place.table.verify(data=True).findings == ()


def test_a_mark_that_cannot_be_read_is_written_anew() -> None:
    place = Place()
    place.store.write({"db.db/t/dt=2013-01-28/_SUCCESS": b""})

    place.table.mark_partitions_done({"dt": "2013-01-28"})

    assert b"creationTime" in place.store.read("db.db/t/dt=2013-01-28/_SUCCESS")


@pytest.mark.parametrize(
    ("partitions", "error", "message"),
    [
        ({}, lc.InvalidRequest, "expected a dict from partition columns"),
        ({"k": 1}, lc.InvalidRequest, "the table is not partitioned by it"),
        ("dt=x", lc.InvalidRequest, "expected a dict from partition columns"),
    ],
)
def test_what_is_no_partition_is_not_marked(partitions: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Place().table.mark_partitions_done(partitions)


def test_other_actions_are_refused() -> None:
    place = Place(**{"partition.mark-done-action": "success-file,mark-event"})

    with pytest.raises(lc.UnsupportedFeature, match="only success-file is carried out"):
        place.table.mark_partitions_done({"dt": "2013-01-28"})


def test_partitions_that_got_no_file_for_too_long_are_dropped_by_update_time() -> None:
    place = Place(**{"partition.expiration-time": "2 d", "partition.expiration-strategy": "update-time"})
    assert place.table.expire_partitions().noop_reason == "no partition has expired"
    place.clock.advance(3 * 86_400)
    place.table.write([{"dt": "2013-01-28", "k": 2}])
    place.table.create_branch("b")

    plan = place.table.expire_partitions(dry_run=True)
    report = place.table.expire_partitions()

    assert plan.partitions_expired == report.partitions_expired
    assert [one["dt"] for one in report.partitions_expired] == DAYS[1:]
    assert place.days() == [DAYS[0], DAYS[0]]
    before = place.table.scan(at=lc.AtSnapshot(report.snapshot_id_before))
    assert before.count() == len(DAYS) + 1
    assert place.table.verify(data=True).findings == ()


def test_a_partition_that_gets_a_row_meanwhile_has_not_expired_by_update_time() -> None:
    place = Place()
    place.clock.advance(3 * 86_400)
    acted: list[str] = []

    def act(call: Any) -> None:
        if call.writes and not acted:
            acted.append(call.key)
            place.table.write([{"dt": DAYS[1], "k": 9}])

    catalog = Catalog(FaultyStore(place.store, on_call=act), clock=place.clock)
    report = catalog.table("db.t").expire_partitions(timedelta(days=2), strategy="update-time")

    assert [one["dt"] for one in report.partitions_expired] == [day for day in DAYS if day != DAYS[1]]
    assert place.days() == [DAYS[1], DAYS[1]]


def test_wrong_arguments_of_update_time_are_refused() -> None:
    table = Place().table

    with pytest.raises(lc.InvalidRequest, match="Leave pattern out"):
        table.expire_partitions(timedelta(1), pattern="$dt", strategy="update-time")
    with pytest.raises(lc.InvalidRequest, match="strategy='custom'"):
        table.expire_partitions(timedelta(1), strategy="custom")
    given: Any = Unspeakable()
    with pytest.raises(lc.InvalidRequest, match="expected 'values-time' or 'update-time'"):
        table.expire_partitions(timedelta(1), strategy=given)
