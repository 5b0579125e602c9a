"""Automatic tags after a commit: what a fault, a crash or another commit in between leaves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.execution.expiry.tags import create_tag
from lakehouse_core.execution.write.auto_tags import AutoTags, make_due_tags
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore
from lakehouse_core.storage.faulty import ProcessDied
from lakehouse_core.table.schema.record import serialize_schema
from tests.contexts import context_of
from tests.execution.small_table import SmallTable
from tests.oracle.reachable import reachable

DAY = 86_400
DAILY = {"tag.automatic-creation": "process-time", "tag.create-success-file": "true", "tag.num-retained-max": "2"}
# Its clock begins at 2023-11-14T22:13:20; the day before is over.


def table_of_days(*, days: int = 4, **options: str) -> SmallTable:
    """A table with a commit a day, the first of them tagged, after which no tag was made."""
    table = SmallTable(options={**DAILY, **options})
    for day in range(days):
        table.write({day: "v"})
        if day == 0:
            assert make_due_tags(table.context).made == ("2023-11-13",)
        table.clock.advance(DAY)
    return table


def tags_of(table: SmallTable) -> dict[str, int]:
    return {name: tag.snapshot.id for name, tag in table.context.tags.all().items()}


def settled(table: SmallTable) -> dict[str, int]:
    """Return the tags after the next commit. Then let another one follow, a period later, and an expiry delete what
    nothing needs.
    """
    context = context_of(table.store, table.clock)
    context.schemas.latest()
    assert make_due_tags(context).failure is None
    after_one = tags_of(table)
    table.clock.advance(DAY)
    table.write({9: "v"})
    assert make_due_tags(context).failure is None
    for _ in range(2):
        table.expire(retain_max=1)
    assert table.findings() == []
    assert table.files() == reachable(table.context, table.folders, delta_is_changelog=True)
    return after_one


def run(store: FaultyStore, table: SmallTable) -> AutoTags | None:
    """Make the tags as a commit does; None if its process ends."""
    context = context_of(store, VirtualClock(seed=5, now_millis=table.clock.now_millis()))
    # The commit before has read the schema.
    context = replace(context, schemas=table.context.schemas)
    try:
        return make_due_tags(context)
    except ProcessDied:
        return None


def test_the_next_commit_makes_the_tags_of_all_periods_that_were_missed() -> None:
    table = table_of_days()
    outdated = tags_of(table)

    done = make_due_tags(table.context)

    assert done == AutoTags(made=("2023-11-15", "2023-11-16"), deleted=("2023-11-13",))
    assert outdated == {"2023-11-13": 1}
    assert tags_of(table) == {"2023-11-15": 3, "2023-11-16": 4}
    assert make_due_tags(table.context) == AutoTags()


KINDS = [
    FaultKind.FAIL_AFTER,
    *(
        pytest.param(kind, marks=pytest.mark.long)
        for kind in (FaultKind.DIE_BEFORE, FaultKind.FAIL_BEFORE, FaultKind.LOST_BEFORE, FaultKind.DIE_AFTER)
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call_leaves_what_the_next_commit_completes(kind: FaultKind) -> None:
    origin = table_of_days()
    probed = origin.copy()
    counting = FaultyStore(probed.store)
    run(counting, probed)
    assert len(counting.calls) > 15

    for at in range(1, len(counting.calls) + 1):
        table = origin.copy()
        done = run(FaultyStore(table.store, [Fault(at=at, kind=kind)]), table)

        assert set(tags_of(table)) <= {"2023-11-13", "2023-11-15", "2023-11-16"}
        if done is not None:
            assert set(done.made) <= set(tags_of(table)), at
        # One beyond the number that stays goes when the next tag is made.
        assert {"2023-11-15": 3, "2023-11-16": 4}.items() <= settled(table).items(), (at, done)
        assert tags_of(table) == {"2023-11-16": 4, "2023-11-18": 5}, (at, done)
        marks = {info.key for info in table.store.list("tag/tag-success-file")}
        missing = {f"tag/tag-success-file/{name}_SUCCESS" for name in tags_of(table)} - marks
        assert len(missing) <= 1, (at, missing)
        assert marks <= {f"tag/tag-success-file/{name}_SUCCESS" for name in tags_of(table)}, at


def test_of_two_commits_at_once_each_finds_the_tags_of_the_other() -> None:
    origin = table_of_days()
    probed = origin.copy()
    counting = FaultyStore(probed.store)
    run(counting, probed)

    for number in range(1, len(counting.calls) + 1):
        table = origin.copy()

        def interrupt(call: Any, number: int = number, table: SmallTable = table) -> None:
            if call.number == number:
                other = context_of(table.store, VirtualClock(seed=6, now_millis=table.clock.now_millis()))
                other.schemas.latest()
                assert make_due_tags(other).failure is None

        done = run(FaultyStore(table.store, on_call=interrupt), table)

        assert done is not None
        assert settled(table) == {"2023-11-15": 3, "2023-11-16": 4}, number


def test_a_snapshot_that_expires_before_its_tag_is_there_gets_none_and_the_others_get_theirs() -> None:
    origin = table_of_days()
    probed = origin.copy()
    counting = FaultyStore(probed.store)
    run(counting, probed)
    seen = set()

    for number in range(1, len(counting.calls) + 1):
        table = origin.copy()

        def interrupt(call: Any, number: int = number, table: SmallTable = table) -> None:
            if call.number == number:
                table.expire(retain_max=1)

        done = run(FaultyStore(table.store, on_call=interrupt), table)

        assert done is not None
        assert table.findings() == [], number
        assert done.failure is None or "expired" in done.failure, number
        kept = {name: at for name, at in settled(table).items() if name != "2023-11-13"}
        assert kept in ({"2023-11-16": 4}, {"2023-11-15": 3, "2023-11-16": 4}), number
        seen.add((done.failure is None, len(kept)))

    assert (True, 2) in seen
    assert (False, 1) in seen


def test_options_of_a_later_schema_by_which_no_tag_can_be_made_are_told_and_the_commit_stays() -> None:
    table = SmallTable(options=DAILY)
    table.write({1: "v"})
    schema = replace(table.schema, id=1, options={**table.schema.options, "sink.process-time-zone": "Berlin"})
    table.store.write({"schema/schema-1": serialize_schema(schema)})
    table.context.schemas.latest()

    failure = make_due_tags(table.context).failure

    assert str(failure).startswith("Option sink.process-time-zone is 'Berlin': expected the name of a time zone")


def test_a_tag_that_was_made_by_hand_under_the_name_stays() -> None:
    table = table_of_days(days=2)
    create_tag(table.context, "2023-11-15", snapshot_id=2)
    table.clock.advance(DAY)
    table.write({9: "v"})

    assert make_due_tags(table.context).made == ("2023-11-16",)
    assert tags_of(table)["2023-11-15"] == 2


def lake(store: ObjectStore | None = None, **options: str) -> tuple[Catalog, VirtualClock, lc.Table]:
    clock = VirtualClock()
    catalog = Catalog(store or MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", **DAILY, **options}
    )
    return catalog, clock, table


VERBS: dict[str, Callable[[lc.Table], Any]] = {
    "write": lambda table: table.write([{"k": 2}]),
    "overwrite": lambda table: table.overwrite([{"k": 2}]),
    "commit": lambda table: table.commit(table.stage([{"k": 2}], commit_user="u", commit_identifier=1)),
    "delete": lambda table: table.delete("k = 1"),
    "update": lambda table: table.update({"v": "'x'"}, "k = 1"),
    "compact": lambda table: table.compact(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_commits_names_the_tags_that_it_made(verb: str) -> None:
    _, clock, table = lake()
    first = table.write([{"k": 1, "v": "a"}])
    clock.advance(DAY)

    report = VERBS[verb](table)

    assert first.tags_created == ("2023-11-13",)
    assert report.tags_created == (() if verb == "compact" else ("2023-11-14",))
    assert report.tag_failure is None


def test_a_table_whose_upkeep_is_left_to_others_gets_its_tags_from_compactions() -> None:
    _, clock, table = lake(**{"write-only": "true"})
    for key in range(3):
        assert table.write([{"k": key}]).tags_created == ()
        clock.advance(DAY)

    assert table.compact(dry_run=True).tags_created == ()
    assert table.compact().tags_created == ("2023-11-14", "2023-11-15")


def test_tags_that_belong_in_a_metastore_are_left_to_the_engine_that_reaches_it() -> None:
    table = set_by_java({"metastore.tag-to-partition": "dt"})

    report = table.compact(full=True)

    assert report.snapshot_id == 3
    assert report.tags_created == ()


def test_a_table_that_is_tagged_after_jobs_that_write_is_maintained_and_not_written() -> None:
    table = set_by_java({"tag.automatic-creation": "batch"})

    with pytest.raises(UnsupportedFeature, match=r"tag\.automatic-creation = batch is not supported for writing yet"):
        table.write([{"k": 3}])
    report = table.compact(full=True)

    assert (report.snapshot_id, report.tags_created, report.tag_failure) == (3, (), None)
    assert table.expire_snapshots(retain_max=1).snapshots_expired == 2
    assert table.scan().to_arrow().num_rows == 2


def set_by_java(options: dict[str, str]) -> lc.Table:
    """Return a table of two snapshots to which another engine has given options that are not set here."""
    store = MemoryStore()
    catalog, clock, table = lake(store, **{"write-only": "true"})
    table.write([{"k": 1}])
    table.write([{"k": 2}])
    schema = replace(table.schema, id=1)
    store.write({"db.db/t/schema/schema-1": serialize_schema(replace(schema, options={**schema.options, **options}))})
    clock.advance(DAY)
    return catalog.table("db.t")


def test_a_branch_has_automatic_tags_of_its_own() -> None:
    catalog, clock, table = lake()
    table.write([{"k": 1}])
    table.create_branch("b")
    clock.advance(DAY)
    branch = catalog.table("db.t$branch_b")

    made = branch.write([{"k": 2}]).tags_created

    assert made == ("2023-11-14",)
    assert [tag.name for tag in table.tags()] == ["2023-11-13"]


def test_a_branch_that_began_with_an_outdated_tag_keeps_its_rows() -> None:
    catalog, clock, table = lake(**{"tag.num-retained-max": "1", "lakehouse.read.grace": "0 s"})
    table.write([{"k": 1, "v": "a"}])
    table.create_branch("b", at=lc.AtTag("2023-11-13"))
    clock.advance(DAY)

    report = table.overwrite([{"k": 2}])
    table.compact(full=True)
    for _ in range(2):
        table.expire_snapshots(retain_max=1)

    assert (report.tags_created, report.tags_deleted) == (("2023-11-14",), ("2023-11-13",))
    assert catalog.table("db.t$branch_b").scan().to_arrow().to_pylist() == [{"k": 1, "v": "a"}]
    assert table.verify(data=True).findings == ()


def test_the_retention_of_the_table_is_that_of_tags_made_without_one() -> None:
    _, _, table = lake(**{"tag.default-time-retained": "2 d"})
    table.write([{"k": 1}])
    table.create_tag("mine")

    assert {tag.time_retained_millis for tag in table.tags()} == {2 * DAY * 1000}


def test_the_watermark_names_a_tag_in_its_zone() -> None:
    _, _, table = lake(**{"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "Asia/Tokyo"})
    staged = table.stage([{"k": 1}], commit_user="u", commit_identifier=1)

    assert table.write([{"k": 2}]).tags_created == ()
    # 15:30 in UTC is the next day in Tokyo.
    report = table.commit(replace(staged, watermark=15 * 3_600_000 + 1_800_000))

    assert report.tags_created == ("1970-01-01",)


def test_a_watermark_that_no_name_has_is_told_and_the_rows_stay() -> None:
    _, _, table = lake(**{"tag.automatic-creation": "watermark"})
    staged = table.stage([{"k": 1}], commit_user="u", commit_identifier=1)

    report = table.commit(replace(staged, watermark=2**63 - 1))

    assert report.snapshot_id == 1
    assert report.tag_failure is None
    assert report.tags_created == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tag.creation-delay": "1 d"}, "tag.creation-delay is 86400000 ms: expected less than the period of the tags"),
        ({"tag.creation-period-duration": "1 ns"}, "expected at least 1ms"),
        ({"sink.process-time-zone": "Berlin"}, "sink.process-time-zone is 'Berlin': expected the name of a time zone"),
        ({"tag.num-retained-max": "0"}, "tag.num-retained-max is 0: expected at least 1"),
    ],
)
def test_options_by_which_no_tag_can_be_made_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        lake(**options)


def test_deleted_tags_lose_their_success_files() -> None:
    store = MemoryStore()
    _, clock, table = lake(store, **{"tag.default-time-retained": "2 d"})
    table.write([{"k": 1}])
    table.create_tag("mine")
    table.create_tag("yours")
    folder = "db.db/t/tag/tag-success-file"

    def marks() -> list[str]:
        return sorted(info.key.rpartition("/")[2] for info in store.list(folder))

    assert marks() == ["2023-11-13_SUCCESS", "mine_SUCCESS", "yours_SUCCESS"]
    table.delete_tag("mine")
    assert marks() == ["2023-11-13_SUCCESS", "yours_SUCCESS"]
    clock.advance(3 * DAY)
    table.expire_snapshots()
    assert marks() == []


def test_a_tag_whose_file_would_stand_where_success_files_have_their_folder_is_refused() -> None:
    _, _, table = lake()
    table.write([{"k": 1}])
    table.create_tag("mine")

    for make in (lambda: table.create_tag("success-file"), lambda: table.rename_tag("mine", "success-file")):
        with pytest.raises(InvalidRequest, match="its file tag-success-file would stand where"):
            make()
