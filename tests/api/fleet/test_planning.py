"""The plan of a fleet from real tables: what one pass finds, what is chosen, and the sentence of what is not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.table.snapshot import serialize_consumer
from tests.api.fleet.lakes import ENOUGH, OFTEN, Lake, names, reasons

HOUR = 3600


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_partitions_manifests_and_snapshots_of_all_tables_are_planned_in_one_pass(lake: Lake) -> None:
    table = lake.key_table("t", runs=6)
    table.write([{"dt": "a", "id": 1, "v": "x"}])
    lake.key_table("u", runs=1)
    lake.clock.advance(2 * HOUR)
    before = lake.state()

    plan = lake.plan()

    assert names(plan) == ["db.t compact dt=a", "db.t compact dt=b", "db.t compact-manifests", "db.t expire"]
    assert (plan.tables, plan.files) == (2, 15)
    assert plan.bytes == sum(file.file_size for file in [*table.files(), *lake.table("db.u").files()])
    size = sum(file.file_size for file in table.files() if file.partition == {"dt": "a"})
    assert plan.choices[0].bytes == size
    assert "a read then opens 1 instead of 7 files, has 1 instead of 7 sorted runs, merges 0 B instead of" in str(
        plan.choices[0]
    )
    assert "expires 6 snapshots, of 7 snapshots in all, which alone need no data file" in str(plan.choices[-1])
    assert reasons(plan, "db.u") == [
        "db.u: compact: 2 partitions with 2 files: no compaction would help",
        "db.u: compact-manifests: 1 manifest: no merge would help",
        "db.u: expire: snapshot 1, the only one, stays: at least 1 are to be retained",
    ]
    assert lake.state() == before


def test_a_plan_is_the_same_after_json(lake: Lake) -> None:
    lake.key_table(runs=6)
    plan = lake.plan(budget=lc.Budget(bytes=10**9, seconds=60.5))

    assert lc.MaintenancePlan.from_json(plan.to_json()) == plan
    document = json.loads(plan.to_json())
    assert document["budget"] == {"bytes": 10**9, "requests": None, "seconds": 60.5}
    assert [choice["partition"] for choice in document["choices"]] == [{"dt": "a"}, {"dt": "b"}, None]


STORED = lc.MaintenancePlan(
    warehouses=("s3://lake/wh",),
    budget=lc.Budget(bytes=1_000_000, seconds=60.5),
    time_millis=1_357_000_000_000,
    tables=2,
    files=12,
    bytes=345_678,
    duration_seconds=0.25,
    choices=(
        lc.MaintenanceChoice(
            warehouse="s3://lake/wh",
            table="db.t",
            operation="compact_full",
            partition={"dt": "2013-01-05", "region": None},
            incarnation=1_356_000_000_000,
            snapshot_id=7,
            bytes=5_000,
            requests=31,
            seconds=0.5,
            saved_seconds=12.25,
            files_saved=4,
            runs_saved=3,
            bytes_freed=100,
            reason="why",
            urgent="writers wait",
        ),
    ),
    refusals=(
        lc.MaintenanceRefusal(
            warehouse="s3://lake/wh", table="db.u", operation=None, partition=None, saved_seconds=0.0, reason="damaged"
        ),
    ),
)


def test_the_json_of_a_plan_is_the_stored_one() -> None:
    text = (Path(__file__).parent / "plan_version_4.json").read_text(encoding="utf-8")

    assert json.dumps(STORED.to_dict(), indent=2) + "\n" == text
    assert lc.MaintenancePlan.from_json(text) == STORED


def _with_choice(**change: object) -> dict[str, object]:
    document = STORED.to_dict()
    return {**document, "choices": [{**document["choices"][0], **change}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Invalid JSON"),
        ("[]", "Input should be an object"),
        ({}, "version: Field required"),
        ({**STORED.to_dict(), "version": 2}, "version 2: expected 4. Plan again"),
        ({**STORED.to_dict(), "warehouses": "lake"}, "warehouses: Input should be a valid array"),
        ({**STORED.to_dict(), "owner": "me"}, "owner: Unexpected keyword argument"),
        ({**STORED.to_dict(), "budget": {"bites": 1}}, "budget.bites"),
        ({**STORED.to_dict(), "budget": {"bytes": -1}}, "bytes=-1: expected a whole number of 0 or more"),
        ({**STORED.to_dict(), "choices": [{}]}, "choices.0.warehouse: Field required"),
        (_with_choice(operation="drop_table"), "choices.0.operation: Input should be 'compact', 'compact_full'"),
        (_with_choice(bytes=-5), "choices.0.bytes: Input should be greater than or equal to 0"),
        (_with_choice(bytes=10**400), "choices.0.bytes: Input should be less than 9223372036854775808"),
        (_with_choice(seconds=float("nan")), "choices.0.seconds: Input should be a finite number"),
        (_with_choice(seconds="1"), "choices.0.seconds: Input should be a valid number"),
        (_with_choice(partition={"dt": 5}), "choices.0.partition.dt: Input should be a valid string"),
    ],
)
def test_a_text_that_is_not_a_plan_is_refused(text: object, message: str) -> None:
    with pytest.raises(lc.InvalidRequest, match=re.escape(message)):
        lc.MaintenancePlan.from_json(text if isinstance(text, str) else json.dumps(text))


def test_readers_decide_what_is_worth_its_cost(lake: Lake) -> None:
    for name in ("idle", "read"):
        lake.key_table(name, runs=6)

    plan = lake.plan(reads={"db.read": OFTEN, "db.idle": 0})
    assert {choice.table for choice in plan.choices} == {"db.read"}
    assert any("so it never pays, and the limit is 30" in reason for reason in reasons(plan, "db.idle"))
    # Nothing records reads: without the argument each table counts as read once a day, which is too rare here.
    assert lake.plan(reads=None).choices == ()


def test_a_partition_whose_writers_should_wait_is_urgent(lake: Lake) -> None:
    table = lake.key_table(runs=1, **{"num-sorted-run.stop-trigger": "5"})
    for _ in range(5):
        table.write([{"dt": "b", "id": 1, "v": "x"}])

    plan = lake.plan(reads=None, only_urgent=True)

    assert names(plan) == ["db.t compact dt=b"]
    assert plan.choices[0].reason.startswith("urgent: a bucket has 6 sorted runs, and beyond 5 (")


@pytest.mark.damage
def test_a_table_that_is_damaged_or_of_a_refused_kind_is_a_refusal_and_the_others_are_planned(lake: Lake) -> None:
    lake.key_table("good", runs=6)
    lake.key_table("damaged", runs=1)
    manifest = next(key for key in lake.state() if "damaged/manifest/manifest-" in key and "list" not in key)
    lake.store.delete([manifest])
    lake.key_table("merged", runs=6)
    _set_option(lake, "merged", "sequence.snapshot-ordering", "true")
    lake.key_table("newer", runs=6)
    _set_option(lake, "newer", "lakehouse.of-a-newer-release", "x")

    plan = lake.plan(reads={"db.good": OFTEN, "db.newer": OFTEN, "db.merged": OFTEN})

    assert {choice.table for choice in plan.choices} == {"db.good"}
    (damage,) = reasons(plan, "db.damaged")
    assert "manifest-" in damage
    assert "missing" in damage
    merged = reasons(plan, "db.merged")
    assert merged[0].startswith(
        "db.merged: compact: db.merged: option sequence.snapshot-ordering = true is not supported"
    )
    assert merged[1].startswith("db.merged: expire: snapshots 1 to 6 stay")
    assert any("lakehouse.of-a-newer-release" in reason for reason in reasons(plan, "db.newer"))
    assert plan.tables == 3


def _set_option(lake: Lake, table: str, key: str, value: str) -> None:
    """Change an option as another engine would: in the schema file, without a checksum."""
    schema = f"db.db/{table}/schema/schema-0"
    document = json.loads(lake.store.read(schema))
    document["options"][key] = value
    del document["lakehouseCrc32"]
    lake.store.write({schema: json.dumps(document).encode()})


def test_a_table_that_is_dropped_during_the_pass_is_a_refusal(lake: Lake) -> None:
    lake.key_table("a")
    lake.key_table("b", runs=6)

    def drop(progress: lc.Progress) -> None:
        if progress.table == "db.a":
            lake.drop_table("db.a")

    plan = lake.plan(progress=drop)

    assert reasons(plan, "db.a") == ["db.a: Table 'db.a' does not exist. There are: b."]
    assert "db.b compact dt=a" in names(plan)


def test_a_list_of_names_is_planned_and_a_name_without_a_table_is_a_refusal(lake: Lake) -> None:
    for name in ("a", "b", "c"):
        lake.key_table(name, runs=6)

    plan = lake.plan(tables=["db.c", "db.none", "db.a", "db.c"], reads={"db.a": OFTEN}, operations=["compact"])

    assert plan.tables == 2
    assert {choice.table for choice in plan.choices} == {"db.a"}
    assert reasons(plan, "db.none")[0].startswith("db.none: Table 'db.none' does not exist.")


def test_a_branch_that_is_named_is_a_refusal_with_its_table(lake: Lake) -> None:
    lake.key_table(runs=6)

    plan = lake.plan(tables=["db.t$branch_test", "db.t"])

    assert (plan.tables, [each.table for each in plan.unreadable]) == (1, ["db.t$branch_test"])
    assert reasons(plan, "db.t$branch_test") == [
        "db.t$branch_test: branches are not planned. Name its table, db.t, or call its verbs."
    ]
    assert {choice.table for choice in plan.choices} == {"db.t"}


def expiry(lake: Lake) -> lc.MaintenanceChoice:
    (found,) = lake.plan(operations=["expire"]).choices
    return found


def test_an_expiry_frees_what_no_tag_and_no_consumer_holds(lake: Lake) -> None:
    def freed() -> tuple[int, int]:
        found = expiry(lake)
        return found.files_saved, found.bytes_freed

    table = lake.key_table(runs=6, **{"lakehouse.read.grace": "0 s"})
    files = {file.file_name: file.file_size for file in table.files()}
    lake.clock.advance(1)
    table.compact(full=True)
    table.write([{"dt": "a", "id": 1, "v": "x"}])
    lake.clock.advance(2 * HOUR)

    assert freed() == (12, sum(files.values()))
    report = table.expire_snapshots(dry_run=True, retain_max=1)
    assert report.snapshots_expired == 7
    # The tag holds the files of the first three snapshots.
    table.create_tag("kept", at=3)
    held = [file.file_name for file in table.files(at=lc.AtTag("kept"))]
    assert freed() == (6, sum(size for name, size in files.items() if name not in held))
    table.delete_tag("kept")
    lake.store.write({"db.db/t/consumer/consumer-slow": serialize_consumer(6)})
    assert freed() == (0, 0)
    lake.store.write({"db.db/t/consumer/consumer-slow": serialize_consumer(1)})
    assert reasons(lake.plan(operations=["expire"]), "db.t") == [
        "db.t: expire: snapshots 1 to 8 stay: consumer slow has yet to read 1"
    ]


def test_files_that_readers_may_need_are_freed_once_by_the_expiry_after_the_grace(lake: Lake) -> None:
    table = lake.key_table(runs=6)
    table.compact(full=True)
    lake.clock.advance(2 * HOUR)
    first = expiry(lake)
    assert (first.files_saved, first.bytes_freed) == (0, 0)
    assert "in 12 files, and a run 3600 s later deletes them" in first.reason
    table.expire_snapshots()
    assert "db.t expire" not in names(lake.plan())

    lake.clock.advance(2 * HOUR)

    second = expiry(lake)
    report = table.expire_snapshots(dry_run=True)
    assert (second.files_saved, second.bytes_freed) == (report.files_removed, report.bytes_removed)
    assert "in 24 files that earlier expiries left for their readers" in second.reason


def test_an_expiry_frees_changelog_files_but_not_those_that_are_kept_longer(lake: Lake) -> None:
    options = {"changelog-producer": "input", "lakehouse.read.grace": "0 s"}
    table = lake.key_table(runs=6, **options)
    lake.clock.advance(2 * HOUR)
    deleted = [path for path in table.expire_snapshots(dry_run=True).paths if "/changelog-" in path]

    assert expiry(lake).files_saved == len(deleted) == 10
    table.alter(lc.SetOption("changelog.time-retained", "1 d"))
    assert expiry(lake).files_saved == 0


def test_append_tables_partitions_with_null_and_deletion_vectors_are_planned(lake: Lake) -> None:
    logs = lake.create_table(
        "db.logs", {"dt": "STRING", "id": "INT"}, partition_keys=["dt"], options={"write-only": "true"}
    )
    for number in range(6):
        logs.write([{"dt": None, "id": number}])
    vectors = lake.key_table("vectors", runs=3, **{"deletion-vectors.enabled": "true"})
    assert vectors.scan().count() == 0

    plan = lake.plan()

    assert {"db.logs compact dt=NULL", "db.vectors compact dt=a"} <= set(names(plan))
    assert lc.MaintenancePlan.from_json(plan.to_json()).choices == plan.choices


def test_a_branch_is_left_alone(lake: Lake) -> None:
    table = lake.key_table(runs=2)
    for key, data in lake.state().items():
        folder, _, rest = key.removeprefix("db.db/t/").partition("/")
        if folder in ("schema", "snapshot"):
            lake.store.write({f"db.db/t/branch/branch-b/{folder}/{rest}": data})
    table.compact(full=True)

    plan = lake.plan(operations=["compact", "compact_full"])

    assert (plan.choices, plan.files) == ((), 2)


@pytest.mark.damage
@pytest.mark.parametrize("key", ["tag/tag-kept", "snapshot/snapshot-2"])
def test_a_damaged_tag_or_old_snapshot_keeps_no_partition_from_being_compacted(lake: Lake, key: str) -> None:
    lake.key_table(runs=6).create_tag("kept", at=3)
    lake.store.write({f"db.db/t/{key}": b"{broken"})

    plan = lake.plan()

    assert names(plan) == ["db.t compact dt=a", "db.t compact dt=b", "db.t compact-manifests"]
    assert any(reason.startswith("db.t: expire: ") and key in reason for reason in reasons(plan, "db.t"))


def test_urgent_partitions_that_the_budget_cannot_help_are_told(lake: Lake) -> None:
    lake.key_table(runs=9)

    small = lake.plan(budget=lc.Budget(bytes=10), only_urgent=True)
    enough = lake.plan(only_urgent=True)

    assert [each.name for each in small.urgent_refusals] == ["compact dt=a", "compact dt=b"]
    assert (enough.urgent_refusals, len(enough.choices)) == ((), 2)
    assert lc.MaintenancePlan.from_json(small.to_json()).urgent_refusals == small.urgent_refusals


def test_a_lake_without_a_match_or_one_that_is_away_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, empty, away = Lake(), Lake(), Lake()
    lake.key_table(runs=6)

    def unanswered(*_: object, **__: object) -> list[str]:
        raise lc.StorageUnavailable("store is away")

    monkeypatch.setattr(away._context.metastore, "databases", unanswered)
    plan = lake.plan(tables="db.t", also=[empty, away])

    assert {choice.table for choice in plan.choices} == {"db.t"}
    assert [(each.warehouse, each.table, each.reason) for each in plan.unreadable] == [
        (away.uri, "db.t", "store is away")
    ]
    with pytest.raises(lc.NotFound):
        lake.plan(tables="db.none", reads=None, also=[empty])
    with pytest.raises(lc.InvalidRequest, match="is given twice"):
        lake.plan(also=[lake])


def test_several_lakes_share_one_budget() -> None:
    lakes = Lake(), Lake()
    for lake in lakes:
        lake.key_table(runs=6)
    alone = lakes[0].plan(operations=["compact"])

    plan = lakes[0].plan(operations=["compact"], also=[lakes[1]], budget=lc.Budget(bytes=3 * alone.choices[0].bytes))

    assert plan.warehouses == tuple(lake.uri for lake in lakes)
    assert [choice.warehouse for choice in plan.choices].count(lakes[0].uri) in (1, 2)
    assert (len(plan.choices), len(plan.refusals)) == (3, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 5}, r"budget=5: expected a budget, as in lc.Budget\(bytes=50_000_000_000\)"),
        ({"reads": {"db.x": 1}}, "reads: found 'db.x', expected names of tables of the plan"),
        ({"reads": {"db.t": -1}}, "reads: db.t is -1: expected how often a day"),
        ({"reads": 5}, "reads=5: expected a dict"),
        ({"operations": ["vacuum"]}, "expected a list of some of 'compact', 'compact_full'"),
        ({"operations": "compact"}, None),
        ({"operations": []}, "expected a list of some of"),
        ({"also": [1]}, "also=.*: expected a list of catalogs"),
        ({"only_urgent": "no"}, "expected True or False"),
        ({"tables": "x"}, "No table matches 'x'"),
        ({"tables": ["db.t", 1]}, r"tables=.*: expected a pattern, as in 'sales\.\*', or a list of names"),
        ({"tables": 5}, "tables=5: expected a pattern"),
        ({"reads": {"db.t": 10**400}}, "expected how often a day it is read, 0 to 1e12"),
        ({"reads": {"db.t": 1.7e308}}, "expected how often a day it is read, 0 to 1e12"),
    ],
)
def test_arguments_that_fit_no_table_are_refused_at_once(lake: Lake, change: dict, message: str | None) -> None:
    lake.key_table()
    if message is None:
        assert lake.plan(**change).budget == ENOUGH
        return
    with pytest.raises(lc.LakehouseError, match=message):
        lake.plan(**change)


def test_slow_requests_make_small_files_worth_more(lake: Lake) -> None:
    lake.key_table(runs=6)

    def planned(**rates: float) -> lc.MaintenancePlan:
        return lake.plan(operations=["compact"], reads={"db.t": 1_000}, rates=lc.Rates(**rates))

    local, remote = planned(), planned(request_seconds=0.02)

    saved = 1_000 * 5 * (0.02 - 0.0002)
    assert remote.choices[0].saved_seconds == pytest.approx(local.choices[0].saved_seconds + saved)
    assert remote.choices[0].seconds - local.choices[0].seconds == pytest.approx(
        remote.choices[0].requests * (0.02 - 0.0002)
    )
    # A run counts with the rates of its plan.
    assert lake.maintain(replace(remote, budget=lc.Budget(seconds=local.cost.seconds))).outcomes[0].skipped
    assert lake.maintain(replace(local, budget=lc.Budget(seconds=local.cost.seconds))).outcomes[0].is_done


@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "1"])
def test_a_rate_that_is_no_number_above_0_is_refused(value: object) -> None:
    with pytest.raises(lc.InvalidRequest, match=r"Rates: request_seconds=.*: expected a number above 0"):
        lc.Rates(request_seconds=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("reads", [0, OFTEN], ids=["not worth it", "beyond the budget"])
def test_of_many_partitions_that_are_refused_alike_the_first_are_named_and_the_others_counted(
    lake: Lake, reads: float
) -> None:
    table = lake.key_table()
    for number in range(6):
        table.write([{"dt": dt, "id": number, "v": "text"} for dt in "abcdefghi"])
    options = {"operations": ["compact"], "reads": {"db.t": reads}}

    plan = lake.plan(budget=lc.Budget(bytes=10), **options)

    *named, others = plan.refusals
    assert [refusal.partition for refusal in named] == [{"dt": dt} for dt in "abcde"]
    assert [refusal.partitions for refusal in plan.refusals] == [0] * 5 + [4]
    assert others.reason.startswith("4 partitions more, which together would take ")
    assert "Refused: of compact dt=f, the most valuable of them: " in others.reason
    everything = [refusal.saved_seconds for refusal in named] + [others.saved_seconds]
    alone = lake.plan(tables=["db.t"], budget=ENOUGH, operations=["compact"], reads={"db.t": OFTEN})
    assert len(alone.choices) == 9
    if reads:
        assert sum(everything) == pytest.approx(sum(choice.saved_seconds for choice in alone.choices), abs=1e-5)


def test_urgent_partitions_beyond_the_budget_are_counted_apart(lake: Lake) -> None:
    table = lake.key_table(**{"num-sorted-run.stop-trigger": "5"})
    for number in range(6):
        table.write([{"dt": dt, "id": number, "v": "text"} for dt in "abcdefghi"])

    urgent = lake.plan(budget=lc.Budget(bytes=10), operations=["compact"]).urgent_refusals

    assert len(urgent) == 6
    assert urgent[-1].urgent is not None
    assert urgent[-1].urgent.startswith("4 partitions more, as compact dt=f: a bucket has 6 sorted runs")
