"""Tables with postponed buckets: Java's are read, compacted and continued here, ours by Java, in turn on one table."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import ProcessDied
from lakehouse_core.table.schema import TableSchema
from tests.interop.engines import Java
from tests.interop.judge import Judge

pytestmark = pytest.mark.interop

FIELDS = [
    {"name": "p", "type": "STRING NOT NULL"},
    {"name": "k", "type": "INT NOT NULL"},
    {"name": "v", "type": "INT"},
]
KINDS = [
    {},
    {"changelog-producer": "input"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "first-row"},
    {"file.format": "orc"},
    {"data-file.thin-mode": "true", "data-file.path-directory": "data"},
]


@pytest.fixture(scope="module", params=["2.0.0", "1.4.2"])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param) as java:
        yield java


def create(java: Java, **options: str) -> None:
    java("create", fields=FIELDS, primaryKeys=["p", "k"], partitionKeys=["p"], options={"bucket": "-2", **options})


def seen(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["p"], row["k"], row["v"]) for row in found)


def seen_with_waiting(table: lc.Table) -> list[tuple[Any, ...]]:
    table.alter(lc.SetOption("postpone.merge-on-read", "true"))
    found = seen(table.scan().to_arrow().to_pylist())
    table.alter(lc.RemoveOption("postpone.merge-on-read"))
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", KINDS)
def test_both_write_and_compact_one_table_in_turn_and_read_the_same(
    java: Java, tmp_path: Path, options: dict[str, str], seed: int
) -> None:
    create(java, **options)
    table, random = lc.connect(tmp_path).table("db.t"), Random(seed)
    takes_deletes = "merge-engine" not in options
    done: list[str] = []
    writers: set[str] = set()
    for step in range(12):
        merged = seen_with_waiting(table) if done else []
        done.append(
            random.choice(["java writes", "we write"] * 2 + ["java compacts", "we compact", "we compact fully"])
        )
        kinds = ["+I", "+I", "-D"] if takes_deletes else ["+I"]
        rows = [
            {"p": random.choice("ab"), "k": random.randrange(6), "v": step, "_kind": random.choice(kinds)}
            for _ in range(random.randint(1, 8))
        ]
        match done[-1]:
            case "java writes":
                java("write", rows=rows, commitUser="job", writeId=0)
                writers.add("java")
            case "we write":
                table.write(rows, rowkind_column="_kind")
                writers.add("we")
            case how:
                if how == "java compacts":
                    java("compact-postpone", buckets=2)
                else:
                    table.compact(full=how == "we compact fully")
                # Java moves the rows of different writers in any order.
                if how != "java compacts" or len(writers) == 1:
                    assert seen(table.scan().to_arrow().to_pylist()) == merged, done
                writers = set()
        assert seen(table.scan().to_arrow().to_pylist()) == seen(java("read")["rows"]), done
    assert table.verify(data=True).findings == (), done
    files = java("files")
    assert (files["missing"], files["unreferenced"]) == ([], []), done


@pytest.mark.parametrize("sees_waiting", [True, False])
@pytest.mark.parametrize("options", KINDS[:5])
def test_java_reads_what_our_row_changes_and_placed_rows_leave_beside_its_own(
    java: Java, tmp_path: Path, options: dict[str, str], sees_waiting: bool
) -> None:
    create(java, **options, **{"postpone.batch-write-fixed-bucket": "true"})
    table, random = lc.connect(tmp_path).table("db.t"), Random(f"{options} {sees_waiting}")
    if sees_waiting:
        table.alter(lc.SetOption("postpone.merge-on-read", "true"))
    model: dict[tuple[str, int], int] = {}

    def given(step: int) -> list[dict[str, Any]]:
        keys = random.sample([(p, k) for p in "ab" for k in range(6)], 4)
        return [{"p": p, "k": k, "v": step} for p, k in keys]

    for step in range(14):
        how = random.choice(["java writes", "we write", "delete", "update", "merge", "merge", "compact"])
        rows = given(step)
        if how in ("delete", "update", "merge") and not sees_waiting:
            table.compact()
        match how:
            case "java writes":
                java("write", rows=rows, commitUser="job", writeId=0)
            case "we write":
                table.write(rows)
            case "delete":
                table.delete(f"v = {step // 2}")
                model = {key: v for key, v in model.items() if v != step // 2}
            case "update":
                table.update({"v": "v + 1"}, f"k = {step % 6}")
                model = {key: v + 1 if key[1] == step % 6 else v for key, v in model.items()}
            case "merge":
                clauses = lc.WhenMatched(delete=True), lc.WhenNotMatched(insert="*")
                table.merge(rows, "t.p = s.p AND t.k = s.k", *clauses)
                for row in rows:
                    if model.pop((row["p"], row["k"]), None) is None:
                        model[row["p"], row["k"]] = row["v"]
            case _:
                table.compact(full=True)
        if how in ("java writes", "we write"):
            model |= {(row["p"], row["k"]): row["v"] for row in rows}
        if sees_waiting:
            assert seen(table.scan().to_arrow().to_pylist()) == sorted((*key, v) for key, v in model.items())

    table.compact(full=True)
    expected = sorted((*key, v) for key, v in model.items())
    assert seen(table.scan().to_arrow().to_pylist()) == seen(java("read")["rows"]) == expected
    assert table.verify(data=True).findings == ()


def test_java_moves_our_rows_in_the_order_of_one_writer(java: Java, tmp_path: Path) -> None:
    create(java)
    table = lc.connect(tmp_path).table("db.t")
    for step in range(5):
        rows = [{"p": "a", "k": key, "v": step} for key in range(step, 6)]
        table.commit(table.stage(rows, commit_user="job", commit_identifier=step))

    java("compact-postpone", buckets=2)

    expected = [("a", key, min(key, 4)) for key in range(6)]
    assert seen(java("read")["rows"]) == seen(table.scan().to_arrow().to_pylist()) == expected


def test_java_moves_the_rows_of_an_overwrite_after_its_deletes(java: Java, tmp_path: Path) -> None:
    create(java, **{"postpone.merge-on-read": "true"})
    table = lc.connect(tmp_path).table("db.t")
    table.write([{"p": "a", "k": key, "v": 1} for key in range(6)])
    java("compact-postpone", buckets=2)
    for step in range(2, 5):
        # Beside a row that waits the others wait too.
        table.write([{"p": "a", "k": 1, "v": step}])
        table.overwrite([{"p": "a", "k": key, "v": step} for key in range(step, 6)], where="k > 1")
        assert sum(bucket.waiting_row_count for bucket in table.buckets()) > 6 - step
        java("compact-postpone", buckets=2)

        expected = [("a", 0, 1), ("a", 1, step), *(("a", key, step) for key in range(step, 6))]
        assert seen(java("read")["rows"]) == seen(table.scan().to_arrow().to_pylist()) == expected


def test_rows_that_wait_after_java_set_a_number_of_buckets_are_moved_once_it_is_taken_back(
    java: Java, tmp_path: Path
) -> None:
    create(java)
    table = lc.connect(tmp_path).table("db.t")
    table.write([{"p": "a", "k": 1, "v": 1}])
    java("compact-postpone", buckets=2)
    table.write([{"p": "a", "k": 1, "v": 2}])
    table.create_tag("waiting")
    java("alter", changes=[{"op": "set-option", "key": "bucket", "value": "2"}])
    table = lc.connect(tmp_path).table("db.t")

    with pytest.raises(lc.UnsupportedFeature, match="Set bucket to -2 again"):
        table.scan().to_arrow()
    with pytest.raises(lc.CommitConflict, match="1 row waits for its bucket"):
        table.write([{"p": "a", "k": 1, "v": 3}])
    java("alter", changes=[{"op": "set-option", "key": "bucket", "value": "-2"}])
    table.compact()
    table.alter(lc.SetOption("bucket", "2"))
    with pytest.raises(lc.InvalidRequest, match="1 row waits for its bucket in snapshot 3"):
        table.rollback_to(lc.AtTag("waiting"))
    table.write([{"p": "a", "k": 2, "v": 3}])

    assert seen(table.scan().to_arrow().to_pylist()) == seen(java("read")["rows"]) == [("a", 1, 2), ("a", 2, 3)]


@pytest.mark.parametrize("has_rows", [True, False])
def test_java_opens_writes_and_streams_a_table_whose_number_of_buckets_we_announced(
    java: Java, tmp_path: Path, has_rows: bool
) -> None:
    create(java)
    table = lc.connect(tmp_path).table("db.t")
    if has_rows:
        table.write([{"p": "a", "k": 1, "v": 1}])
        java("compact-postpone", buckets=2)

    create_schema = table._context.schemas.create
    made: list[TableSchema] = []

    def create_one(schema: TableSchema) -> bool:
        if made:
            raise ProcessDied
        made.append(schema)
        return create_schema(schema)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table._context.schemas, "create", create_one)
        with pytest.raises(ProcessDied):
            table.alter(lc.SetOption("bucket", "2"))
    # The announcement stands, and its snapshot is the latest.
    assert table.schema.options["lakehouse.bucket.next"] == "2"
    before = [("a", 1, 1)] if has_rows else []
    assert seen(java("read")["rows"]) == before
    java("alter", changes=[{"op": "add-column", "column": "w", "type": "INT"}])

    table.alter(lc.SetOption("bucket", "2"))
    java("write", rows=[{"p": "a", "k": 2, "v": 2}])
    java("compact", strategy="full")
    table.write([{"p": "a", "k": 3, "v": 3}])

    expected = [*before, ("a", 2, 2), ("a", 3, 3)]
    assert seen(table.scan().to_arrow().to_pylist()) == seen(java("read")["rows"]) == expected
    told = java("stream-read", **{"from": 1})["snapshots"]
    assert sorted(row["k"] for each in told for row in each["rows"]) == [key for _, key, _ in expected]
    assert table.verify(data=True).findings == ()


def test_java_streams_our_rows_when_we_wrote_them(java: Java, tmp_path: Path) -> None:
    create(java)
    table = lc.connect(tmp_path).table("db.t")
    table.write([{"p": "a", "k": 1, "v": 1}])
    table.compact()
    table.write([{"p": "a", "k": 1, "v": 1, "_kind": "-D"}], rowkind_column="_kind")

    told = {
        each["snapshot"]: [row["_kind"] for row in each["rows"]]
        for each in java("stream-read", **{"from": 1})["snapshots"]
    }

    assert told == {1: ["+I"], 3: ["-D"]}
