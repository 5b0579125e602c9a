"""rescale: the same rows in another number of buckets, whoever else writes, and whatever the table has done before."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.api import table_writes
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, FaultyStore, MemoryStore
from tests.execution.memory_place import Kind, MemoryPlace
from tests.execution.other_calls import deleted, expired, rewrote, wrote
from tests.pairs import each_with_one, in_turn

COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING", "n": "INT"}
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, Kind] = {
    "append": ([], [], {"bucket-key": "k"}),
    "append, vectors, partitions": ([], ["p"], {"bucket-key": "k", **VECTORS}),
    "key": (["k"], [], {}),
    "key, partitions, input": (["p", "k"], ["p"], {"changelog-producer": "input"}),
    "key, lookup": (["k"], [], {"changelog-producer": "lookup"}),
    "key, told in full": (["k"], [], {"changelog-producer": "full-compaction"}),
    "key, vectors": (["k"], [], VECTORS),
    "key, bucket key, avro": (["k", "p"], [], {"bucket-key": "p", "file.format": "avro"}),
    "key, mod": (["k"], [], {"bucket-function.type": "mod"}),
    "key, aggregation": (["k"], [], {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}),
    "key, first row": (["k"], [], {"merge-engine": "first-row"}),
    "key, partial update": (["k"], [], {"merge-engine": "partial-update"}),
}
TARGET = {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}
DYNAMIC: dict[str, Kind] = {
    "dynamic": (["k"], [], TARGET),
    "dynamic, partitions, lookup": (["p", "k"], ["p"], {**TARGET, "changelog-producer": "lookup"}),
    "dynamic, vectors": (["k"], [], {**TARGET, **VECTORS}),
    "dynamic, aggregation": (
        ["k"],
        [],
        {**TARGET, "merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "file.format": "avro"},
    ),
    "dynamic, at most": (["k"], [], {**TARGET, "dynamic-bucket.max-buckets": "2"}),
    "moving": (["k"], ["p"], TARGET),
}


class Place(MemoryPlace):
    """A table of one of the kinds."""

    def __init__(self, kind: str = "key", buckets: int = 2, **options: str) -> None:
        chosen = DYNAMIC[kind] if kind in DYNAMIC else KINDS[kind]
        super().__init__(COLUMNS, chosen, {"bucket": str(buckets) if kind in KINDS else "-1", **options})

    def write(self, keys: range, note: str) -> None:
        self.table().write([{"k": k, "p": k % 3, "v": f"{note}{k}", "n": k} for k in keys])

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(map(in_columns, self.table().scan().to_arrow().to_pylist()))

    def lived(self, kind: str) -> "Place":
        """Write several files of several levels, and change rows as far as the kind of table takes it."""
        self.write(range(60), "a")
        self.write(range(20, 70, 3), "b")
        self.table().compact(full=True)
        self.write(range(5, 90, 7), "c")
        if "deduplicate" in self.table().schema.options.get("merge-engine", "deduplicate"):
            self.table().delete("k = 5 OR k = 20")
        return self

    def check_buckets(self, buckets: int) -> None:
        """Check that rows are found where a condition on their key looks for them."""
        table = self.table()
        assert {file.total_buckets for file in table.files()} == {buckets}
        rows = self.rows()
        for row in rows[:: max(1, len(rows) // 12)]:
            found = table.scan(where=f"k = {row[0]} AND p = {row[1]}").to_arrow().to_pylist()
            assert list(map(in_columns, found)) == [row for row in rows if row[:2] == found_key(found)]
        assert table.verify(data=True).findings == ()


def in_columns(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in COLUMNS)


def found_key(found: list[dict[str, Any]]) -> tuple[Any, ...]:
    return (found[0]["k"], found[0]["p"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", in_turn(4, KINDS))
def test_a_table_has_the_same_rows_in_any_other_number_of_buckets_and_goes_on(kind: str) -> None:
    place = Place(kind).lived(kind)
    if kind == "key, vectors":
        # Rows of level 0 are hidden there, until a compaction shows them.
        place.table().compact(full=True)
    for buckets in (4, 1, 3):
        rows = place.rows()
        report = place.table().rescale(buckets)

        assert (report.buckets, report.commit_kind) == (buckets, "OVERWRITE")
        assert place.rows() == rows
        place.check_buckets(buckets)
        place.write(range(1000 * buckets, 1000 * buckets + 10), "d")
        place.table().compact(full=True)
        assert len(place.rows()) == len(rows) + 10
    assert place.table().rescale().noop_reason == "every partition has 3 buckets"


@pytest.mark.parametrize("kind", in_turn(3, DYNAMIC))
def test_dynamic_buckets_are_written_anew_with_as_many_keys_as_the_table_asks_for(kind: str) -> None:
    place = Place(kind).lived(kind)
    place.table().compact(full=True)
    for target in (12, 5):
        rows = place.rows()
        place.table().alter(lc.SetOption("dynamic-bucket.target-row-num", str(target)))
        report = place.table().rescale()

        assert (report.buckets_before, report.buckets, report.commit_kind) == (-1, -1, "OVERWRITE")
        assert place.rows() == rows
        sizes: dict[str, list[int]] = {}
        for bucket in place.table().buckets():
            sizes.setdefault(str(bucket.partition), []).append(bucket.row_count)
        if kind == "dynamic, at most":
            assert [len(found) for found in sizes.values()] == [2]
        else:
            assert all(sorted(found)[1:] == [target] * (len(found) - 1) for found in sizes.values())
        assert place.table().verify(data=True).findings == ()
        place.write(range(1000 * target, 1000 * target + 10), "d")
        place.write(range(0, 30, 4), "e")
        place.table().compact(full=True)
        assert len(place.rows()) == len({*(row[0] for row in rows), *range(0, 30, 4)}) + 10
        assert place.table().verify(data=True).findings == ()


# A key is in two buckets: 1 is its value where its index lacks it, 2 where it has it.
ORDERS = {
    "deduplicate": ({}, (2, "b")),
    "partial-update": ({}, (2, "b")),
    "aggregation": ({"fields.n.aggregate-function": "sum"}, (41, "b")),
    "first-row": ({}, (1, "a")),
}


@pytest.mark.parametrize("engine", in_turn(3, ORDERS))
def test_of_a_key_in_two_buckets_the_row_in_the_bucket_whose_index_has_it_is_the_later_one(engine: str) -> None:
    options, (number, text) = ORDERS[engine]
    place = Place("dynamic", **{"merge-engine": engine, "write-only": "true", **options})

    def write(n: int, v: str) -> None:
        place.table().write([{"k": k, "p": 0, "v": v, "n": n} for k in range(7)])

    for _ in range(39):
        write(1, "a")
    # Another engine drops the keys of the bucket from its index, which stays full.
    (index,) = (info.key for info in place.store.list("") if "/index/" in info.key)
    place.store.delete([index])
    place.store.write({index: b"".join(number.to_bytes(4, "big") for number in range(7))})
    write(2, "b")
    place.table().compact(full=True)
    assert len(place.rows()) == 14

    place.table().rescale()

    assert place.rows() == [(k, 0, text, number) for k in range(7)]
    assert [bucket.bucket for bucket in place.table().buckets()] == [0]
    assert place.table().verify(data=True).findings == ()


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_a_key_that_left_its_partition_and_came_back_into_another_bucket_is_kept(engine: str) -> None:
    more = {} if engine == "deduplicate" else {f"{engine}.remove-record-on-delete": "true"}
    one = {"merge-engine": engine, "write-only": "true", "dynamic-bucket.target-row-num": "1", **more}
    place = Place("moving", **one)

    def write(k: int, p: int, kind: str = "+I") -> None:
        place.table().write([{"k": k, "p": p, "v": "x", "n": 1, "kind": kind}], rowkind_column="kind")

    # Its delete has a higher sequence number than its new row, which is in another bucket.
    write(1, 0)
    write(1, 0)
    if engine == "deduplicate":
        write(1, 7)
    else:
        write(1, 0, "-D")
    write(2, 0)
    write(1, 0)
    rows = place.rows()
    assert rows == [(1, 0, "x", 1), (2, 0, "x", 1)]

    place.table().rescale()

    assert place.rows() == rows
    assert place.table().verify(data=True).findings == ()


@pytest.mark.parametrize(("kind", "keys"), each_with_one(["dynamic", "moving"], [range(3, 6), range(500, 503)]))
def test_rows_that_were_staged_before_a_rescale_of_dynamic_buckets_are_not_doubled(kind: str, keys: range) -> None:
    place = Place(kind).lived(kind)
    rows = [{"k": k, "p": k % 3, "v": "late", "n": 1} for k in keys]
    place.table().alter(lc.SetOption("dynamic-bucket.target-row-num", "100"))
    before = place.rows()
    staged = place.table().stage(rows, commit_user="late", commit_identifier=1)
    place.table().rescale()

    try:
        place.table().commit(staged)
    except lc.CommitConflict:
        place.table().write(rows)

    assert place.rows() == sorted([*(row for row in before if row[0] not in keys), *map(in_columns, rows)])
    assert place.table().verify(data=True).findings == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["key, lookup", "key, told in full", "key, partitions, input"])
def test_followers_are_told_every_change_once_although_a_rescale_rewrites_it(kind: str) -> None:
    # Compactions apart: what the last writes changed is not told when the rescale begins.
    place = Place(kind, **{"write-only": "true"}).lived(kind)
    last = place.table().snapshots()[-1].id
    place.table().rescale(3, properties={"run": "r"})
    # A compaction that tells changes first is the caller's too.
    made = [snapshot for snapshot in place.table().snapshots() if snapshot.id > last]
    assert [snapshot.properties["run"] for snapshot in made] == ["r"] * (1 if kind == "key, partitions, input" else 2)
    place.write(range(0, 100, 3), "d")
    place.table().compact(full=True)
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for change in place.table().changes(after=0).to_arrow().to_pylist():
        row = in_columns(change)
        key = row[:2]
        if change["rowkind"] in ("+I", "+U"):
            assert change["rowkind"] == "+U" or kind == "key, partitions, input" or key not in rows
            rows[key] = row
        elif change["rowkind"] == "-D":
            del rows[key]
        elif kind != "key, partitions, input":
            assert rows[key] == row

    assert sorted(rows.values()) == place.rows()


def test_a_plan_says_what_would_be_rewritten_and_changes_nothing() -> None:
    place = Place("key, partitions, input").lived("key, partitions, input")
    before = {info.key for info in place.store.list("")}

    plan = place.table().rescale(4, dry_run=True)

    assert {info.key for info in place.store.list("")} == before
    report = place.table().rescale(4, properties={"why": "it grew"})
    assert plan.partitions_rescaled == report.partitions_rescaled == ({"p": "0"}, {"p": "1"}, {"p": "2"})
    assert (plan.buckets_before, plan.buckets, plan.snapshot_id, plan.dry_run) == (2, 4, None, True)
    assert plan.bytes_rewritten == report.bytes_rewritten
    made = place.table().snapshot()
    assert made is not None
    assert (made.id, made.properties["why"], made.operation) == (report.snapshot_id, "it grew", None)


def test_partitions_that_are_too_large_for_one_commit_are_rescaled_by_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_core.planning.rescale._COMMIT_BYTES", 1)
    place = Place("key, partitions, input").lived("key, partitions, input")
    rows, last = place.rows(), place.table().snapshots()[-1].id

    report = place.table().rescale(4)

    assert report.snapshot_ids == (last + 1, last + 2, last + 3)
    assert place.rows() == rows
    place.check_buckets(4)


def test_partitions_are_rescaled_one_by_one_after_the_option_was_set() -> None:
    place = Place("key, partitions, input").lived("key, partitions, input")
    rows = place.rows()
    place.table().alter(lc.SetOption("bucket", "4"))

    with pytest.raises(lc.InvalidRequest, match="has files in 2 buckets"):
        place.write(range(3), "z")
    report = place.table().rescale(partition={"p": 1})

    assert report.partitions_rescaled == ({"p": "1"},)
    assert {(file.partition["p"], file.total_buckets) for file in place.table().files()} == {
        ("0", 2),
        ("1", 4),
        ("2", 2),
    }
    assert place.rows() == rows
    place.table().rescale()
    place.check_buckets(4)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "arguments", "error", "message"),
    [
        ("key", {"buckets": 0}, lc.InvalidRequest, "bucket"),
        ("key", {"buckets": -1}, lc.InvalidRequest, "bucket"),
        ("key", {"buckets": "4"}, lc.InvalidRequest, "expected a number of buckets"),
        ("key", {"buckets": 2**31}, lc.InvalidRequest, "bucket"),
        ("key", {"partition": {"p": 1}}, lc.InvalidRequest, "not partitioned"),
        (
            "key, partitions, input",
            {"buckets": 4, "partition": {"p": 1}},
            lc.InvalidRequest,
            "A partition takes the count of its table",
        ),
        ("key, partitions, input", {"partition": {"x": 1}}, lc.InvalidRequest, "not partitioned by it"),
    ],
)
def test_a_count_that_a_table_cannot_have_is_refused_and_changes_nothing(
    kind: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    place = Place(kind).lived(kind)
    before = {info.key for info in place.store.list("")}

    with pytest.raises(error, match=message):
        place.table().rescale(**arguments)

    assert {info.key for info in place.store.list("")} == before


@pytest.mark.parametrize(
    ("keys", "options", "error", "message"),
    [
        ([], {"bucket": "-1"}, lc.InvalidRequest, "has no buckets"),
        (["k"], {"bucket": "-1"}, lc.InvalidRequest, "Set that option, and leave buckets out"),
    ],
)
def test_a_table_without_a_fixed_number_of_buckets_is_not_brought_to_one(
    keys: list[str], options: dict[str, str], error: type[Exception], message: str
) -> None:
    catalog = Catalog(MemoryStore(clock=VirtualClock()), clock=VirtualClock())
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, primary_keys=keys, options=options)
    table.write([{"k": 1, "p": 1, "v": "a", "n": 1}])

    with pytest.raises(error, match=message):
        table.rescale(4)

    assert table.schema.id == 0


def test_a_table_without_rows_gets_the_option_alone() -> None:
    place = Place()

    report = place.table().rescale(7)

    assert (report.noop_reason, place.table().schema.options["bucket"]) == ("the table is empty", "7")


@pytest.mark.parametrize("kind", ["key", "append"])
def test_rows_that_were_staged_before_are_refused_and_staged_anew(kind: str) -> None:
    place = Place(kind).lived(kind)
    staged = place.table().stage([{"k": 500, "p": 0, "v": "late", "n": 1}], commit_user="late", commit_identifier=1)
    place.table().rescale(4)

    with pytest.raises(lc.CommitConflict, match="it has 4 buckets, the new files were written for 2"):
        place.table().commit(staged)
    place.write(range(500, 501), "late")
    place.check_buckets(4)


@pytest.mark.parametrize("bucket", ["2", "-2"])
def test_rows_that_were_staged_before_the_option_changed_give_no_new_partition_the_old_count(bucket: str) -> None:
    catalog = Catalog(MemoryStore(clock=VirtualClock()), clock=VirtualClock())
    catalog.create_database("db")
    placed = {"postpone.batch-write-fixed-bucket": "true", "postpone.default-bucket-num": "2"}
    table = catalog.create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "INT NOT NULL"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": bucket, **(placed if bucket == "-2" else {})},
    )
    table.write([{"p": 0, "k": 1}])
    old = table.stage([{"p": 0, "k": 2}], commit_user="old", commit_identifier=1)
    new = table.stage([{"p": 1, "k": 1}], commit_user="new", commit_identifier=1)
    table.alter(lc.SetOption("bucket", "4"))

    told = table.why_not_committed([old, new])
    table.commit(old)
    with pytest.raises(lc.CommitConflict, match="p=1: it has no files yet, and the new ones were written for 2 bucket"):
        table.commit(new)
    table.write([{"p": 1, "k": 1}])

    assert [why is None for why in told] == [True, False]
    assert {(file.partition["p"], file.total_buckets) for file in table.files()} == {("0", 2), ("1", 4)}
    with pytest.raises(lc.InvalidRequest, match="p=0 has files in 2 buckets, and the table's option bucket is now 4"):
        table.write([{"p": 0, "k": 3}])


def partitioned(keys: list[str]) -> tuple[Catalog, lc.Table]:
    """Return a table with a row in p=0, which has 2 buckets."""
    catalog = Catalog(MemoryStore(clock=VirtualClock()), clock=VirtualClock())
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "INT NOT NULL"},
        primary_keys=keys,
        partition_keys=["p"],
        options={"bucket": "2", **({} if keys else {"bucket-key": "k"})},
    )
    table.write([{"p": 0, "k": 1}])
    return catalog, table


def counts_of(table: lc.Table) -> set[tuple[str, int]]:
    return {(file.partition["p"], file.total_buckets) for file in table.files()}


@pytest.mark.parametrize("mode", [lc.DynamicOverwrite(), lc.StaticOverwrite({"p": "1"}), lc.StaticOverwrite({})])
def test_an_overwrite_that_was_staged_before_the_option_changed_gives_no_new_partition_the_old_count(mode: Any) -> None:
    _, table = partitioned(["p", "k"])
    staged = table.stage([{"p": 1, "k": 1}], commit_user="old", commit_identifier=1, mode=mode)
    table.alter(lc.SetOption("bucket", "4"))

    told = table.why_not_committed([staged])
    with pytest.raises(lc.CommitConflict, match="p=1: it has no files yet, and the new ones were written for 2 bucket"):
        table.commit(staged)

    assert "p=1: it has no files yet" in str(told[0])
    assert counts_of(table) == {("0", 2)}


def test_rows_that_were_staged_before_the_option_changed_are_refused_together_with_later_ones() -> None:
    _, table = partitioned(["p", "k"])
    old = table.stage([{"p": 1, "k": 1}], commit_user="old", commit_identifier=1)
    table.alter(lc.SetOption("bucket", "4"))
    new = table.stage([{"p": 2, "k": 1}], commit_user="new", commit_identifier=1)

    with pytest.raises(lc.CommitConflict, match="p=1: it has no files yet, and the new ones were written for 2 bucket"):
        table.commit_together([old, new], commit_user="both", commit_identifier=1)

    assert counts_of(table) == {("0", 2)}


@pytest.mark.parametrize("keys", [["p", "k"], []])
@pytest.mark.parametrize("partition", [0, 1])
def test_a_write_during_which_the_number_of_buckets_changes_stages_again(
    keys: list[str], partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, table = partitioned(keys)
    commit, counts = table_writes.commit_or_discard, iter(("4", None))

    def after_another(*given: Any, **named: Any) -> Any:
        if (count := next(counts)) is not None:
            other = catalog.table("db.t")
            other.alter(lc.SetOption("bucket", count))
            other.rescale()
        return commit(*given, **named)

    monkeypatch.setattr(table_writes, "commit_or_discard", after_another)
    table.write([{"p": partition, "k": 2}])

    assert counts_of(table) == {("0", 4), (str(partition), 4)}
    assert table.scan().to_arrow().num_rows == 2


def _rescaled(table: lc.Table) -> None:
    table.rescale(None if table.schema.options.get("bucket") == "-1" else 4)


OTHERS = [wrote, deleted, rewrote, expired, _rescaled]


# In make test one pair, in make test-long all of them.
SHORT = {("key", wrote)}
PAIRS = [
    pytest.param(kind, other, marks=() if (kind, other) in SHORT else pytest.mark.long)
    for kind in ("append", "append, vectors, partitions", "key", "key, told in full", "key, vectors", *DYNAMIC)
    for other in OTHERS
]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_whatever_others_do_between_two_calls_no_change_is_lost(
    kind: str, other: Callable[[lc.Table], None], every: int
) -> None:
    ready = Place(kind).lived(kind)
    ready.table().compact(full=True)
    buckets = None if kind in DYNAMIC else 4
    calls = 0
    for number in count(1, every):
        place = ready.copy()
        refused: list[str] = []

        def interrupt(call: Call, number: int = number, place: Place = place, refused: list[str] = refused) -> None:
            if call.number == number:
                try:
                    other(place.table())
                except lc.InvalidRequest as error:
                    refused.append(str(error))

        expected = ready.copy()
        counting = FaultyStore(place.store, on_call=interrupt)
        place.table(counting).rescale(buckets)
        if number > len(counting.calls):
            break
        # Between the option and the rewritten files no row is taken.
        assert all("has files in 2 buckets" in message for message in refused)
        if not refused:
            other(expected.table())
        place.table().rescale()
        place.table().compact(full=True)
        expected.table().compact(full=True)
        assert place.rows() == expected.rows(), number
        place.table().expire_snapshots(retain_max=1, older_than=timedelta(0))
        assert place.table().verify(data=True).findings == ()
        assert {file.total_buckets for file in place.table().files()} == {buckets or -1}
        calls += 1
    assert calls > 10 // every


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_of_two_rescales_to_other_numbers_the_later_option_decides(step: int) -> None:
    ready = Place("key").lived("key")
    refused = 0
    for number in count(1, step):
        place = ready.copy()

        def interrupt(call: Call, number: int = number, place: Place = place) -> None:
            if call.number == number:
                place.table().rescale(5)

        store = FaultyStore(place.store, on_call=interrupt)
        try:
            place.table(store).rescale(3)
        except lc.CommitConflict:
            refused += 1
        option = place.table().schema.options["bucket"]
        assert {str(file.total_buckets) for file in place.table().files()} == {option}, number
        assert place.rows() == ready.rows()
        if len(store.calls) < number:
            break
    assert refused > 0
