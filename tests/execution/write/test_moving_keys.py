"""Keys that move between partitions: each is in one partition, whatever is written, in turn or at once."""

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.api import table_writes
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitConflict, InvalidRequest, UnsupportedFeature
from lakehouse_core.execution.commit.state import StepReader
from lakehouse_core.merge.key_digests import Digests, key_digests
from lakehouse_core.storage.memory import MemoryStore
from lakehouse_core.tasks import small_buckets
from lakehouse_core.tasks.keys import compared
from lakehouse_core.tasks.keys.live import stored_keys
from lakehouse_core.tasks.write.keys import placer
from lakehouse_core.tasks.write.keys.map import KeyMap
from tests.execution.write.moving_keys import ENGINES, rows_of, run, table_of
from tests.oracle.moving_keys import MovingKeys
from tests.pairs import each_with_one


def made(folder: Path, engine: str = "deduplicate", **options: str) -> lc.Table:
    return table_of(lc.connect(str(folder)), engine, **options)


def row(k: int, p: str | None, a: int = 0) -> dict[str, Any]:
    return {"k": k, "p": p, "a": a, "b": None}


INPUT = pa.schema({"k": pa.int32(), "p": pa.string(), "a": pa.int64(), "b": pa.string(), "kind": pa.string()})


def short(table: lc.Table) -> list[tuple[Any, ...]]:
    return [found[:3] for found in rows_of(table)]


OPTIONS: list[dict[str, str]] = [
    {"changelog_producer": "input"},
    {"changelog_producer": "lookup"},
    {"changelog_producer": "full-compaction"},
    {"write_buffer_size": "64 kb", "file__format": "orc"},
]


@pytest.mark.parametrize(("engine", "number"), each_with_one(ENGINES, range(len(OPTIONS)), step=2))
def test_random_histories_have_the_rows_of_the_model(tmp_path: Path, engine: str, number: int) -> None:
    options = OPTIONS[number]
    if engine == "first-row" and options.get("changelog_producer") in ("input", "full-compaction"):
        # The engine has no such changelog.
        options = {"changelog_producer": "none"}
    run(tmp_path, 100 + number, engine, steps=8, **options)


def test_a_random_history_with_deletion_vectors(tmp_path: Path) -> None:
    run(tmp_path, 200, "deduplicate", steps=8, deletion_vectors__enabled="true")


@pytest.mark.parametrize(
    ("engine", "wanted"),
    [
        ("deduplicate", [(1, "y", 2), (2, "x", 1)]),
        ("partial-update", [(1, "x", 2), (2, "x", 1)]),
        ("aggregation", [(1, "x", 3), (2, "x", 1)]),
        ("first-row", [(1, "x", 1), (2, "x", 1)]),
    ],
)
def test_the_merge_engine_decides_where_a_key_goes(tmp_path: Path, engine: str, wanted: list[tuple[Any, ...]]) -> None:
    table = made(tmp_path, engine)
    table.write([row(1, "x", 1), row(2, "x", 1)])

    table.write([row(1, "y", 2)])

    table.compact()
    assert short(table) == wanted
    assert table.lookup([{"k": 1}]).to_pylist() == [{"k": 1, "p": wanted[0][1], "a": wanted[0][2], "b": None}]


def test_a_key_that_has_some_partition_columns_moves_within_them(tmp_path: Path) -> None:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    columns = {"r": "INT NOT NULL", "p": "STRING", "k": "STRING NOT NULL", "a": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=["r", "k"], partition_keys=["r", "p"])

    def rows(*given: tuple[int, str | None, str, int]) -> list[dict[str, Any]]:
        return [dict(zip(columns, each, strict=True)) for each in given]

    table.write(rows((1, "x", "k", 1), (2, "x", "k", 2), (1, None, "a much longer key than sixteen bytes", 3)))
    table.write(rows((1, "y", "k", 4), (1, "z", "a much longer key than sixteen bytes", 5)))

    assert sorted(tuple(found.values()) for found in table.scan().to_arrow().to_pylist()) == [
        (1, "y", "k", 4),
        (1, "z", "a much longer key than sixteen bytes", 5),
        (2, "x", "k", 2),
    ]
    assert table.lookup([{"r": 2, "k": "k"}]).column("a").to_pylist() == [2]
    assert table.verify(data=True).findings == ()


def test_the_changelog_of_a_moved_key_has_the_old_row_and_the_new_one(tmp_path: Path) -> None:
    table = made(tmp_path, changelog_producer="lookup")
    table.write([row(1, "x", 1)])
    before = table.snapshot()
    assert before is not None

    table.write([row(1, "y", 2)])

    changes = table.changes(after=before.id).to_arrow().to_pylist()
    told = sorted((change["rowkind"], change["p"], change["a"]) for change in changes)
    assert told == [("+I", "y", 2), ("-D", "x", 1)]


ROWS = st.lists(
    st.builds(
        lambda k, p, a, kind: {**row(k, p, a), "kind": kind},
        st.integers(0, 2),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 9),
        st.sampled_from(["+I", "+U", "-U", "-D"]),
    ),
    max_size=6,
)


RETRACTS = [{**row(1, p, a), "kind": kind} for a, (p, kind) in enumerate([("x", "-D"), ("y", "-U"), ("y", "+I")])]


@example(writes=[(RETRACTS, False)], at_once=6)
@given(writes=st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=4), at_once=st.integers(1, 6))
def test_a_changelog_of_the_input_tells_all_rows_and_a_delete_wherever_a_key_leaves(
    writes: list[tuple[list[dict[str, Any]], bool]], at_once: int
) -> None:
    table = table_of(Catalog(MemoryStore(), clock=VirtualClock()), "deduplicate", changelog_producer="input")
    model, there = MovingKeys("deduplicate"), {}
    last = 0
    for number, (rows, is_overtaken) in enumerate(writes):
        batches = pa.Table.from_pylist(rows, INPUT).to_batches(max_chunksize=at_once)
        given = pa.RecordBatchReader.from_batches(INPUT, batches)
        wanted: Counter[Any] = Counter()
        if is_overtaken and rows:
            # Another writer puts the keys elsewhere meanwhile.
            staged = table.stage(given, commit_user=f"u{number}", commit_identifier=1, rowkind_column="kind")
            other = [row(each["k"], "z", 1) for each in rows]
            table.write(other)
            wanted.update(model.told(other))
            model.write(other)
            with pytest.raises(CommitConflict):
                table.commit(staged)
            given = pa.Table.from_pylist(rows, INPUT)
        table.write(given, rowkind_column="kind")
        wanted.update(model.told(rows))
        model.write(rows)
        changes = table.changes(after=last).to_arrow().to_pylist()
        assert Counter(tuple(change[name] for name in ("rowkind", "k", "p", "a", "b")) for change in changes) == wanted
        latest = table.snapshot()
        last = 0 if latest is None else latest.id
        for change in changes:
            if change["rowkind"] in ("+I", "+U"):
                there[change["k"], change["p"]] = change
            else:
                there.pop((change["k"], change["p"]), None)
        assert sorted(there, key=str) == sorted(((k, each["p"]) for k, each in model.rows.items()), key=str)
    assert rows_of(table) == model.sorted()


def test_a_delete_goes_where_the_key_is_whatever_partition_it_names(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, "x"), row(2, "x")])

    table.write([{**row(1, None), "kind": "-D"}, {**row(9, None), "kind": "-D"}], rowkind_column="kind")

    assert short(table) == [(2, "x", 0)]
    table.write([row(1, "z", 3)])
    assert short(table) == [(1, "z", 3), (2, "x", 0)]


def test_a_retract_of_a_known_key_is_refused_by_first_row(tmp_path: Path) -> None:
    table = made(tmp_path, "first-row")
    table.write([row(1, "x")])

    with pytest.raises(InvalidRequest, match="first-row: found a -D or -U record of a key that the table has"):
        table.write([{**row(1, "x"), "kind": "-D"}], rowkind_column="kind")


def test_new_keys_fill_the_buckets_of_their_partition_and_those_that_left_make_room(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(k, "x") for k in range(7)])
    assert sorted(bucket.bucket for bucket in table.buckets()) == [0, 1, 2]

    table.write([row(k, "y") for k in range(6)])
    table.compact(full=True)
    table.write([row(k, "x") for k in range(10, 18)])

    assert {bucket.bucket for bucket in table.buckets()} == {0, 1, 2}
    assert table.verify(data=True).findings == ()


def test_keys_that_leave_within_a_write_make_room_for_its_later_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(k, "x") for k in range(3)])

    batches = [[row(k, "y") for k in range(3)], [row(k, "x") for k in range(10, 13)]]
    table.write(pa.Table.from_batches([pa.RecordBatch.from_pylist(rows, INPUT.remove(4)) for rows in batches]))

    table.compact(full=True)
    assert {(*bucket.partition.values(), bucket.bucket) for bucket in table.buckets()} == {("x", 0), ("y", 0)}


def test_a_write_larger_than_its_first_rows_reads_all_keys_into_sorted_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placer, "_FIRST_BYTES", 1_000)
    monkeypatch.setattr(placer, "KeyMap", lambda folder: KeyMap(folder, run_keys=50))
    table = made(tmp_path, dynamic_bucket__target_row_num="100")
    first = pa.table({"k": pa.array(range(400), pa.int32()), "p": ["x"] * 400, "a": [1] * 400})
    table.write(first)

    def batches(p: str, a: int) -> pa.RecordBatchReader:
        rows = pa.table({"k": pa.array(range(200, 600), pa.int32()), "p": [p] * 400, "a": [a] * 400})
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=40))

    both = [*batches("y", 2), *batches("z", 3)]
    table.write(pa.RecordBatchReader.from_batches(both[0].schema, both))

    assert short(table) == [(k, "x", 1) if k < 200 else (k, "z", 3) for k in range(600)]
    assert table.verify(data=True).findings == ()


def test_two_writers_of_one_key_in_two_partitions_have_a_conflict(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, "x")])
    one = table.stage([row(1, "y", 1), row(2, "y", 1)], commit_user="one", commit_identifier=1)
    same = table.stage([row(1, "y", 5)], commit_user="same", commit_identifier=1)
    other = table.stage([row(2, "z", 2)], commit_user="other", commit_identifier=1)
    table.commit(one)

    told = table.why_not_committed([other, same])
    with pytest.raises(CommitConflict, match="another commit put 1 of the keys there, and this one puts them elsewhe"):
        table.commit(other)
    table.commit(same)

    assert told[0] is not None
    assert told[1] is None
    assert short(table) == [(1, "y", 5), (2, "y", 1)]
    assert table.verify(data=True).findings == ()


def test_a_write_whose_key_another_commit_moved_meanwhile_is_staged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    table.write([row(1, "x")])
    stage, runs = table_writes.stage_files, []

    def overtaken(*given: Any, **more: Any) -> lc.StagedCommit:
        staged = stage(*given, **more)
        runs.append(1)
        if len(runs) == 1:
            lc.connect(str(tmp_path)).table("db.t").write([row(1, "y", 1)])
        return staged

    monkeypatch.setattr(table_writes, "stage_files", overtaken)
    table.write([row(1, "z", 2)])

    assert short(table) == [(1, "z", 2)]
    assert table.verify(data=True).findings == ()


def test_a_commit_whose_base_has_expired_is_compared_with_the_keys_that_are_there(tmp_path: Path) -> None:
    table = made(tmp_path, lakehouse__read__grace="0 s")
    table.write([row(1, "x")])
    staged = table.stage([row(2, "y")], commit_user="fine", commit_identifier=1)
    clashing = table.stage([row(1, "y")], commit_user="clash", commit_identifier=1)
    table.write([row(1, "z")])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))

    with pytest.raises(CommitConflict):
        table.commit(clashing)
    table.commit(staged)

    assert short(table) == [(1, "z", 0), (2, "y", 0)]


def test_an_overwrite_of_a_partition_refuses_a_key_of_one_that_stays(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, "x"), row(2, "y")])

    for more in ({"partition": {"p": "y"}}, {"dynamic": True}):
        with pytest.raises(InvalidRequest, match="Key k = 1 is in partition p=x"):
            table.overwrite([row(1, "y")], **more)
    assert short(table) == [(1, "x", 0), (2, "y", 0)]
    table.overwrite([row(2, "x"), row(1, "y")], dynamic=True)
    assert short(table) == [(1, "y", 0), (2, "x", 0)]
    table.overwrite([row(1, "z")], dynamic=False)
    assert short(table) == [(1, "z", 0)]


@pytest.mark.parametrize(
    ("engine", "wanted"),
    [
        ("deduplicate", [(1, "y", 9), (3, "z", 0), (5, "y", 9)]),
        ("partial-update", [(1, "x", 9), (3, "z", 0), (5, "y", 9)]),
        ("aggregation", [(1, "x", 10), (3, "z", 0), (5, "y", 9)]),
        ("first-row", [(1, "x", 1), (3, "z", 0), (5, "y", 9)]),
    ],
)
def test_rows_that_replace_a_partition_bring_keys_of_others_as_a_write_does(
    tmp_path: Path, engine: str, wanted: list[tuple[Any, ...]]
) -> None:
    table = made(tmp_path, engine)
    table.write([row(1, "x", 1), row(2, "y", 1), row(3, "z", 0)])
    table.compact(full=True)
    given = [row(1, "y", 9), row(5, "y", 9)]
    plan = table.overwrite(given, where="p = 'y'", dry_run=True)

    report = table.overwrite(given, where="p = 'y'")

    assert report.commit_kind == "OVERWRITE"
    assert plan.rows_inserted == report.rows_inserted == (1 if engine == "first-row" else 2)
    table.compact()
    assert short(table) == wanted
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_key_whose_row_is_replaced_may_come_to_another_partition(tmp_path: Path, engine: str) -> None:
    table = made(tmp_path, engine)
    table.write([row(1, "x", 5), row(2, "y", 5), row(3, "x", 1)])

    report = table.overwrite([row(1, "z", 5), row(2, "y", 5), row(4, "x", 5)], where="a = 5")

    assert (report.rows_deleted, report.rows_inserted) == (2, 3)
    assert short(table) == [(1, "z", 5), (2, "y", 5), (3, "x", 1), (4, "x", 5)]
    table.compact(full=True)
    assert short(table) == [(1, "z", 5), (2, "y", 5), (3, "x", 1), (4, "x", 5)]
    assert table.verify(data=True).findings == ()


def test_an_overwrite_beside_which_a_key_came_to_another_partition_is_a_conflict(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(9, "x")])
    mode = lc.DynamicOverwrite()
    staged = table.stage([row(1, "x")], commit_user="u", commit_identifier=1, mode=mode)
    table.write([row(1, "y")])

    with pytest.raises(CommitConflict, match="puts them elsewhere"):
        table.commit(staged)


def test_a_dropped_partition_frees_its_keys(tmp_path: Path) -> None:
    table = made(tmp_path, "first-row")
    table.write([row(1, "x"), row(2, None)])

    table.drop_partitions([{"p": "x"}, {"p": None}])
    table.write([row(1, "y", 1), row(2, "z", 2)])

    table.compact()
    assert short(table) == [(1, "y", 1), (2, "z", 2)]


def test_a_partition_column_is_updated_by_a_merge_alone(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, "x"), row(2, "x")])

    with pytest.raises(UnsupportedFeature, match=r"p' is a partition column.*by a MERGE"):
        table.update({"p": "'y'"}, where="k = 1")
    table.merge([{"k": 1, "p": "y"}], "t.k = s.k", lc.WhenMatched(update={"p": "s.p"}))

    assert short(table) == [(1, "y", 0), (2, "x", 0)]
    other = lc.connect(str(tmp_path / "other"))
    partial = table_of(other, "partial-update")
    partial.write([row(1, "x")])
    with pytest.raises(UnsupportedFeature, match="column 'p' is a partition column, and an update leaves a row"):
        partial.merge([{"k": 1, "p": "y"}], "t.k = s.k", lc.WhenMatched(update={"p": "s.p"}))


def test_a_key_that_was_not_written_for_the_time_of_the_option_is_taken_for_a_new_one(tmp_path: Path) -> None:
    clock = VirtualClock()
    table = table_of(
        Catalog(MemoryStore(clock=clock), clock=clock), "deduplicate", **{"cross_partition_upsert__index_ttl": "1 h"}
    )
    table.write([row(1, "x"), row(2, "x")])
    clock.advance(3_000)
    table.write([row(2, "x", 1)])
    clock.advance(3_000)

    table.write([row(1, "y", 2), row(2, "y", 2)])

    assert short(table) == [(1, "x", 0), (1, "y", 2), (2, "y", 2)]
    findings = table.verify(data=True).findings
    assert [finding.found for finding in findings] == ["1 of its keys are in p=y/bucket-0 too"]
    table.delete("k = 1 and p = 'x'")
    assert table.verify(data=True).findings == ()


def test_columns_are_added_and_branches_and_tags_have_places_of_their_own(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, "x")])
    table.create_tag("before")
    table.create_branch("b", at=lc.AtTag("before"))
    table.alter(lc.AddColumn("c", "INT"))
    table.write([{**row(1, "y"), "c": 3}])
    branch = table.branch("b")

    branch.write([row(1, "z")])

    assert short(branch) == [(1, "z", 0)]
    assert short(table) == [(1, "y", 0)]
    table.rollback_to(lc.AtTag("before"))
    table.write([row(1, None, 7)])
    assert short(table) == [(1, None, 7)]
    assert table.verify(data=True).findings == ()


def test_rows_that_a_failed_write_placed_leave_no_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([row(1, "x")])
    before = sorted(str(path) for path in tmp_path.rglob("bucket-*/*"))

    with pytest.raises(InvalidRequest):
        table.write([row(1, "y"), {"k": None, "p": "y"}])

    assert sorted(str(path) for path in tmp_path.rglob("bucket-*/*")) == before


WORDS = st.integers(0, 3)


@given(runs=st.lists(st.dictionaries(st.tuples(WORDS, WORDS), st.integers(0, 9), max_size=8), max_size=5))
def test_a_key_map_has_the_last_place_of_each_key(runs: list[dict[tuple[int, int], int]]) -> None:
    keys, last = KeyMap(run_keys=3), {}
    for found in runs:
        keys.put(digests(list(found)), np.array(list(found.values()), np.int32))
        last |= found
    asked = [(high, low) for high in range(5) for low in range(5)]

    assert keys.put_since(digests(asked)).tolist() == [last.get(key, -1) for key in asked]
    keys.close()


@given(runs=st.lists(st.lists(st.tuples(WORDS, WORDS), max_size=4), max_size=4))
def test_a_key_that_was_loaded_twice_is_told(runs: list[list[tuple[int, int]]]) -> None:
    keys = KeyMap(run_keys=3)
    keys.load((digests(found), np.full(len(found), place, np.int32)) for place, found in enumerate(runs))
    asked = [(high, low) for high in range(5) for low in range(5)]
    places, others = keys.loaded(digests(asked))

    counts = [sum(found.count(key) for found in runs) for key in asked]
    assert [place != -1 for place in places.tolist()] == [count > 0 for count in counts]
    assert [place != -1 for place in others.tolist()] == [count > 1 for count in counts]
    keys.close()


def test_runs_on_disk_are_in_memory_one_after_the_other_while_keys_are_sought() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 63, 1 << 20, dtype=np.uint64)
    every = [Digests(part, part) for part in np.split(words, 16)]
    keys = KeyMap(run_keys=1 << 16)
    keys.load((each, np.full(len(each), number, np.int32)) for number, each in enumerate(every))
    before = mapped_bytes()

    places, others = keys.loaded(every[5])

    assert (places == 5).all()
    assert (others == -1).all()
    # The runs have 20 MB together.
    assert mapped_bytes() < before + 4_000_000
    keys.close()


def mapped_bytes() -> int:
    """Return how many bytes of files this process has in memory."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile:"))
    return int(line.split()[1]) * 1024


def digests(keys: list[tuple[int, int]]) -> Digests:
    return Digests(*(np.array([key[part] for key in keys], np.uint64) for part in (0, 1)))


TEXTS = st.lists(st.text(max_size=20), min_size=1, max_size=6)


@given(texts=TEXTS, others=TEXTS, number=st.integers(-3, 3))
def test_equal_keys_have_equal_digests_whatever_is_beside_them(texts: list[str], others: list[str], number: int):
    def of(given: list[str]) -> list[tuple[int, int]]:
        found = key_digests([pa.array(given), pa.array([number] * len(given))], seed=5)
        return list(zip(found.high.tolist(), found.low.tolist(), strict=True))

    one, other = of(texts), of([*others, *texts])

    assert one == other[len(others) :]
    assert len(set(other)) == len({*others, *texts})


CHANGES: dict[str, Any] = {
    "update": lambda table: table.update({"b": "'u'"}, where="a = 1 and p = 'x'"),
    "delete": lambda table: table.delete("k = 1"),
    "delete of a partition": lambda table: table.delete("p = 'x'"),
    "compact in full": lambda table: table.compact(full=True),
    "drop": lambda table: table.drop_partitions([{"p": "x"}]),
    "merge, update": lambda table: table.merge(
        [row(1, "x", 7)], "t.k = s.k and t.p = 'x'", lc.WhenMatched(update={"a": "s.a"})
    ),
    "replace": lambda table: table.overwrite([row(1, "x", 7)], where="p = 'x'"),
    "replace, rows": lambda table: table.overwrite([row(2, "x", 1)], where="a = 1"),
    "merge, insert": lambda table: table.merge([row(2, "x", 7)], "t.k = s.k", lc.WhenNotMatched(insert="*")),
    "merge, insert beside the partition": lambda table: table.merge(
        [row(2, "x", 7)], "t.k = s.k and t.p = s.p", lc.WhenNotMatched(insert="*")
    ),
}
# What a statement and a write at once leave: as if one came after the other.
ALONE = [(1, "y", 9), (2, "y", 9), (3, "x", 1)]
RACES = [
    ("deduplicate", "update", ALONE),
    ("deduplicate", "delete of a partition", ALONE[:2]),
    ("deduplicate", "compact in full", ALONE),
    ("deduplicate", "merge, insert", ALONE),
    ("deduplicate", "replace", [(1, "x", 7), (2, "y", 9)]),
    ("partial-update", "replace, rows", [(1, "x", 9), (2, "y", 1)]),
    ("deduplicate", "merge, insert beside the partition", ALONE),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in [
            ("deduplicate", "delete", ALONE[1:]),
            ("deduplicate", "replace, rows", [(1, "y", 9), (2, "x", 1)]),
            ("partial-update", "replace", [(1, "x", 7), (2, "y", 9)]),
            ("deduplicate", "drop", ALONE[:2]),
            ("partial-update", "compact in full", [(1, "x", 9), *ALONE[1:]]),
            ("deduplicate", "merge, update", ALONE),
            ("partial-update", "update", [(1, "x", 9), *ALONE[1:]]),
            ("partial-update", "delete", ALONE[1:]),
            ("partial-update", "delete of a partition", [(1, "x", 9), (2, "y", 9)]),
            ("partial-update", "merge, update", [(1, "x", 7), *ALONE[1:]]),
            ("partial-update", "merge, insert beside the partition", [(1, "x", 9), *ALONE[1:]]),
        ]
    ),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("engine", "change", "wanted"), RACES)
def test_a_write_that_moves_keys_while_a_statement_works_doubles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, change: str, wanted: list[tuple[Any, ...]]
) -> None:
    table = made(tmp_path, engine)
    table.write([row(1, "x", 0), row(3, "x", 0)])
    table.write([row(1, "x", 1), row(3, "x", 1)])
    begin, runs = StepReader.__init__, []

    def overtaken(*given: Any) -> None:
        runs.append(1)
        if len(runs) == 1:
            lc.connect(str(tmp_path)).table("db.t").write([row(1, "y", 9), row(2, "y", 9)])
        begin(*given)

    monkeypatch.setattr(StepReader, "__init__", overtaken)
    if "beside" in change:
        with pytest.raises(InvalidRequest, match="the key k = 2 would be inserted, and the table has it"):
            CHANGES[change](table)
    else:
        CHANGES[change](table)

    assert runs
    table.compact(full=True)
    assert short(table) == wanted
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_write_behind_one_that_others_overtook_puts_keys_where_the_table_has_them(
    tmp_path: Path, engine: str
) -> None:
    table = made(tmp_path, engine)
    before = table.stage([row(1, "y", 1)], commit_user="before", commit_identifier=1)
    table.write([row(1, "z", 2)])
    staged = table.stage([row(1, "w", 3)], commit_user="u", commit_identifier=1, behind=[before])
    with pytest.raises(CommitConflict):
        table.commit(before)

    table.commit(staged)

    table.compact()
    wanted = {"deduplicate": ("w", 3), "partial-update": ("z", 3), "aggregation": ("z", 5), "first-row": ("z", 2)}
    assert short(table) == [(1, *wanted[engine])]
    assert table.verify(data=True).findings == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("engine", "how"), each_with_one(ENGINES, ["each", "together"]))
def test_a_key_that_moves_on_with_each_of_many_staged_writes_is_in_one_place(
    tmp_path: Path, engine: str, how: str
) -> None:
    table = made(tmp_path, engine)
    table.write([row(1, "x", 1)])
    staged: list[lc.StagedCommit] = []
    places = ["y", "z", "x", None, "y"]
    for number, place in enumerate(places):
        rows = [row(1, place, 1), row(2, place, 1)]
        staged.append(table.stage(rows, commit_user="u", commit_identifier=number, behind=staged))

    if how == "together":
        table.commit_together(staged, commit_user="all", commit_identifier=1)
    for each in staged if how == "each" else []:
        table.commit(each)

    table.compact()
    wanted = {"deduplicate": ("y", "y", 1, 1), "aggregation": ("x", "y", 6, 5)}.get(engine, ("x", "y", 1, 1))
    assert short(table) == [(1, wanted[0], wanted[2]), (2, wanted[1], wanted[3])]
    assert table.verify(data=True).findings == ()


def test_a_delete_behind_writes_that_move_its_key_is_committed_after_them_and_not_without_them(tmp_path: Path) -> None:
    table = made(tmp_path)
    one = table.stage([row(1, "x")], commit_user="u", commit_identifier=1)
    two = table.stage([row(1, "y")], commit_user="u", commit_identifier=2, behind=[one])
    gone = [{**row(1, "z"), "kind": "-D"}]
    three = table.stage(gone, commit_user="u", commit_identifier=3, behind=[one, two], rowkind_column="kind")
    table.commit(one)

    with pytest.raises(CommitConflict, match="another commit put 1 of the keys there"):
        table.commit(three)
    table.commit(two)
    table.commit(three)

    assert short(table) == []
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_dynamic_overwrite_replaces_each_partition_that_a_row_names_however_they_come(
    tmp_path: Path, at_once: int
) -> None:
    table = made(tmp_path)
    table.write([row(7, "y"), row(8, "z"), row(9, "x")])
    rows = pa.table({"k": pa.array([1, 1], pa.int32()), "p": ["y", "z"], "a": [1, 2]})

    given = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=at_once))
    table.overwrite(given, dynamic=True)

    assert short(table) == [(1, "z", 2), (9, "x", 0)]
    assert table.verify(data=True).findings == ()


def test_a_table_whose_keys_move_gets_no_number_of_buckets_even_without_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    for number in ("2", "-2"):
        with pytest.raises(InvalidRequest, match=r"-1 and cannot become -?2: the primary key \(k\) lacks a partition"):
            table.alter(lc.SetOption("bucket", number))


def test_commits_of_one_base_read_the_keys_of_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, read = made(tmp_path), Counter[str]()

    def counted(source: Any, placed: Any, *more: Any) -> Any:
        read.update(file.file_name for file in placed.files)
        return stored_keys(source, placed, *more)

    monkeypatch.setattr(compared, "stored_keys", counted)
    staged = [table.stage([row(n, "x"), row(9 - n, "x")], commit_user=f"u{n}", commit_identifier=1) for n in range(4)]

    for each in staged:
        table.commit(each)

    assert set(read.values()) == {1}
    # All but the first are written once more, with higher numbers; those of the last are not read.
    assert len(read) == 4 + 2


def test_the_keys_of_many_small_buckets_are_merged_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, write_only="true")
    rows = [row(n, str(n)) for n in range(20)]
    for _ in range(2):
        table.write(rows)
    merged, merge_apart = [], small_buckets.merge_apart

    def counted(*given: Any) -> Any:
        merged.append(1)
        return merge_apart(*given)

    monkeypatch.setattr(small_buckets, "merge_apart", counted)

    table.write([row(n, "x", 1) for n in (3, 5, 30)])

    assert len(merged) == 1
    monkeypatch.undo()
    assert sorted(found[:2] for found in short(table) if found[2]) == [(3, "x"), (5, "x"), (30, "x")]
    assert len(short(table)) == 21


KEYS: dict[str, list[Any]] = {
    "DOUBLE": [0.0, -0.0, float("nan"), 1.5, float("-inf")],
    "DECIMAL(38, 10)": [Decimal("1.1"), Decimal("-1.1"), Decimal("1e20")],
    "VARBINARY(20)": [b"", b"\0", b"\0\0", b"a" * 17],
    "FLOAT": [0.0, -0.0, float("nan"), 1.5],
    "DECIMAL(10, 2)": [Decimal("1.10"), Decimal("-1.10")],
    "CHAR(5)": ["a", "abcde"],
    "VARCHAR(50)": ["", "a", "a" * 8, "a" * 9, "a" * 40, "é"],
    "BINARY(4)": [b"abcd", b"\0\0\0\0", b"\0\0\0\1"],
    "TIMESTAMP(3)": [datetime(1950, 1, 1, 0, 0, 0, 1000), datetime(2020, 1, 1)],
    "TIMESTAMP(9)": [datetime(2020, 1, 1, 0, 0, 0, 1), datetime(2020, 1, 1)],
    "BOOLEAN": [True, False],
    "BIGINT": [-(2**63), 2**63 - 1, 0],
}


@pytest.mark.parametrize(
    "kind", [each if n < 3 else pytest.param(each, marks=pytest.mark.long) for n, each in enumerate(KEYS)]
)
def test_keys_of_every_type_move(tmp_path: Path, kind: str) -> None:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    columns = {"k": f"{kind} NOT NULL", "p": "STRING", "a": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], partition_keys=["p"])
    keys = KEYS[kind]

    def rows(p: str) -> list[dict[str, Any]]:
        return [{"k": key, "p": p, "a": number} for number, key in enumerate(keys)]

    staged = table.stage(rows("z")[:1], commit_user="u", commit_identifier=1)
    table.write(rows("x"))
    with pytest.raises(CommitConflict):
        table.commit(staged)
    table.write(rows("y"))

    found = table.scan().to_arrow()
    # Both zeros are one key.
    assert found.num_rows == len(keys) - (kind in ("DOUBLE", "FLOAT"))
    assert set(found.column("p").to_pylist()) == {"y"}
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("vectors", ["false", pytest.param("true", marks=pytest.mark.long)])
@pytest.mark.parametrize("moves", [True, False])
def test_a_key_that_a_rollback_brought_back_is_a_conflict(tmp_path: Path, vectors: str, moves: bool) -> None:
    table = made(tmp_path, deletion_vectors__enabled=vectors)
    table.write([row(1, "x"), row(2, "x")])
    table.compact(full=True)
    before = table.snapshot()
    assert before is not None
    table.write([row(1, "y") if moves else {**row(1, "x"), "kind": "-D"}], rowkind_column=None if moves else "kind")
    table.compact()
    staged = table.stage([row(1, "z", 5)], commit_user="u", commit_identifier=1)
    table.rollback_to(before.id)

    with pytest.raises(CommitConflict, match="this one puts them elsewhere"):
        table.commit(staged)

    assert short(table) == [(1, "x", 0), (2, "x", 0)]
    assert table.verify(data=True).findings == ()
