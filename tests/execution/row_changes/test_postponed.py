"""Row changes of tables with postponed buckets: where no rows wait, their rows go to the buckets and are seen at once;
where rows wait, they wait behind those, if reads see waiting rows.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import catalog_over
from tests.pairs import in_turn

Row = tuple[str, int, int]
Statement = Callable[[lc.Table], object]
COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}
SEES = {"postpone.merge-on-read": "true"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "by rows": {"postpone.default-bucket-num": "", "postpone.target-row-num-per-bucket": "2"},
}


def made(**options: str) -> tuple[MemoryStore, lc.Table]:
    store = MemoryStore(clock=VirtualClock())
    catalog = catalog_over(store)
    catalog.create_database("db")
    named = {"bucket": "-2", "postpone.default-bucket-num": "2", **options}
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={name: value for name, value in named.items() if value},
    )
    return store, table


def rows(*found: Row) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def seen(table: lc.Table) -> list[Row]:
    return sorted((row["p"], row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def waiting(table: lc.Table) -> int:
    return sum(bucket.waiting_row_count for bucket in table.buckets())


def written_to_wait(store: MemoryStore) -> set[str]:
    return {info.key for info in store.list("") if "bucket-postpone" in info.key}


def merge(table: lc.Table, *source: Row) -> lc.RowChangeReport:
    """Add up what both sides have, delete where the source has 0, and insert the rest."""
    return table.merge(
        rows(*source),
        "t.p = s.p AND t.k = s.k",
        lc.WhenMatched(delete=True, where="s.v = 0"),
        lc.WhenMatched(update={"v": "t.v + s.v"}),
        lc.WhenNotMatched(insert="*"),
    )


@pytest.mark.parametrize("kind", in_turn(3, KINDS))
def test_where_no_rows_wait_a_statement_is_seen_at_once(kind: str) -> None:
    _, table = made(**KINDS[kind])
    table.write(rows(*(("a", k, k) for k in range(6)), ("b", 1, 1)))
    table.compact()

    deleted = table.delete("v = 2")
    updated = table.update({"v": "v + 10"}, "k = 3")
    merged = merge(table, ("a", 4, 0), ("a", 5, 20), ("b", 9, 9), ("c", 1, 1))

    assert (deleted.rows_deleted, updated.rows_updated) == (1, 1)
    assert (merged.rows_deleted, merged.rows_updated, merged.rows_inserted) == (1, 1, 2)
    table.compact(full=True)
    assert seen(table) == [("a", 0, 0), ("a", 1, 1), ("a", 3, 13), ("a", 5, 25), ("b", 1, 1), ("b", 9, 9), ("c", 1, 1)]
    assert table.verify(data=True).findings == ()


def test_the_rows_of_a_statement_wait_for_no_compaction() -> None:
    store, table = made()
    table.write(rows(("a", 1, 1), ("a", 2, 2)))
    table.compact()
    before = written_to_wait(store)

    merge(table, ("a", 1, 0), ("a", 3, 3), ("n", 1, 1))
    table.overwrite(rows(("a", 2, 7)), where="k = 2")

    assert waiting(table) == 0
    assert seen(table) == [("a", 2, 7), ("a", 3, 3), ("n", 1, 1)]
    assert {file.total_buckets for file in table.files()} == {2}
    # Nothing is left of the files in which the new rows of the statements were before they had buckets.
    assert written_to_wait(store) == before


def test_a_dry_run_counts_and_writes_nothing() -> None:
    store, table = made()
    table.write(rows(("a", 1, 1)))
    table.compact()
    before = {info.key for info in store.list("")}

    report = table.delete("v = 1", dry_run=True)

    assert report.rows_deleted == 1
    assert {info.key for info in store.list("")} == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", in_turn(3, KINDS))
def test_a_statement_that_sees_waiting_rows_changes_them(kind: str) -> None:
    _, table = made(**KINDS[kind], **SEES)
    table.write(rows(("a", 1, 1), ("a", 2, 2), ("b", 1, 1)))
    table.compact()
    table.write(rows(("a", 2, 20), ("a", 3, 30), ("w", 1, 1)))

    assert table.delete("v = 2").noop_reason == "no row satisfies the condition"
    deleted = table.delete("v = 20")
    assert (deleted.rows_deleted, deleted.noop_reason) == (1, None)
    assert table.update({"v": "v + 1"}, "v > 0").rows_updated == 4
    merge(table, ("a", 3, 0), ("w", 1, 1), ("w", 2, 2))

    expected = [("a", 1, 2), ("b", 1, 2), ("w", 1, 3), ("w", 2, 2)]
    # Partition b, in which nothing waits, has its rows in buckets.
    assert seen(table) == expected
    assert {file.partition["p"] for file in table.files() if file.bucket < 0} == {"a", "w"}
    table.compact(full=True)
    assert seen(table) == expected
    assert table.verify(data=True).findings == ()


def test_where_rows_wait_unseen_a_statement_says_how_to_go_on() -> None:
    _, table = made()
    table.write(rows(("a", 1, 1), ("b", 1, 1)))
    table.compact()
    table.write(rows(("b", 2, 2)))

    for change in (
        lambda: table.delete("k = 1"),
        lambda: table.update({"v": "1"}, "k = 1 AND p = 'b'"),
        lambda: merge(table, ("b", 1, 1)),
        lambda: table.overwrite(rows(("b", 1, 1)), where="k = 1 AND p = 'b'"),
    ):
        with pytest.raises(lc.UnsupportedFeature, match=r"1 row waits for its bucket .* Compact the table and run it"):
            change()
    # What waits in other partitions does not matter, nor does it where whole partitions go.
    assert table.delete("k = 1 AND p = 'a'").rows_deleted == 1
    table.delete("p = 'b'")
    table.compact()
    assert seen(table) == []


@pytest.mark.parametrize("change", ["delete", "overwrite"])
def test_what_replaces_buckets_asks_for_a_compaction_where_rows_wait(change: str) -> None:
    _, table = made(**SEES, **({"merge-engine": "first-row"} if change == "delete" else {"sequence.field": "v"}))
    table.write(rows(("a", 1, 1), ("a", 2, 2)))
    table.compact()
    table.write(rows(("a", 3, 3)))

    def act() -> None:
        table.delete("v = 1") if change == "delete" else table.overwrite(rows(("a", 1, 8)), where="k = 1")

    with pytest.raises(lc.UnsupportedFeature, match=r"1 row waits .* Compact the table and run it again"):
        act()
    table.compact()
    act()

    assert seen(table) == [*([] if change == "delete" else [("a", 1, 8)]), ("a", 2, 2), ("a", 3, 3)]


@pytest.mark.parametrize(
    "kind", in_turn(3, ["deduplicate", "vectors", "input", "lookup", "full-compaction", "by rows"])
)
def test_rows_that_wait_are_replaced_by_a_condition(kind: str) -> None:
    store, table = made(**KINDS[kind], **SEES)
    table.write(rows(("a", 1, 1), ("a", 2, 2), ("b", 1, 1)))
    table.compact()
    table.write(rows(("a", 2, 20), ("a", 3, 30), ("w", 3, 1)))

    before = written_to_wait(store)
    report = table.overwrite(rows(("a", 3, 31), ("a", 4, 31), ("b", 4, 31)), where="v > 1")

    assert (report.rows_deleted, report.rows_inserted) == (2, 3)
    expected = [("a", 1, 1), ("a", 3, 31), ("a", 4, 31), ("b", 1, 1), ("b", 4, 31), ("w", 3, 1)]
    assert seen(table) == expected
    # Java keeps the order of the rows of one writer: the deletes come before the new rows.
    writers = {key.split("-w-")[0] for key in written_to_wait(store) - before if "p=a" in key}
    assert len(writers) == 1
    assert {file.partition["p"] for file in table.files() if file.bucket < 0} == {"a", "w"}
    table.compact(full=True)
    assert seen(table) == expected
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("statement", ["delete", "update", "merge", "overwrite"])
def test_a_statement_reads_the_rows_that_wait_once_for_all_buckets(statement: str) -> None:
    store, table = made(**SEES, **{"postpone.default-bucket-num": "8"})
    table.write(rows(*(("a", k, k) for k in range(20))))
    table.compact()
    table.write(rows(*(("a", k, k) for k in range(1, 30))))
    counted = FaultyStore(store)

    STATEMENTS[statement](catalog_over(counted, 1).table("db.t"))

    opened = [call.key for call in counted.calls if call.method == "open_read" and "p=a/bucket-postpone" in call.key]
    assert len(opened) == 1
    assert waiting(table) > 29


@pytest.mark.parametrize("sees", [True, False])
def test_a_delete_of_a_partition_that_is_told_needs_to_see_the_rows_that_wait(sees: bool) -> None:
    _, table = made(**{"delete.force-produce-changelog": "true"}, **(SEES if sees else {}))
    table.write(rows(("a", 1, 1), ("b", 1, 1)))
    table.compact()
    table.write(rows(("a", 2, 2)))

    if not sees:
        with pytest.raises(lc.UnsupportedFeature, match=r"1 row waits .* without a changelog, drop them\.$"):
            table.delete("p = 'a'")
        table.drop_partitions({"p": "a"})
    else:
        assert table.delete("p = 'a'").rows_deleted == 2

    table.compact()
    assert seen(table) == [("b", 1, 1)]


# What a statement finds, whether its reads see waiting rows, and the statement.
RACES = [
    (state, sees, mine, theirs)
    for state in ("placed", "waiting")
    for sees in (True, False)
    for mine in ("delete", "update", "merge", "overwrite")
    for theirs in ("write", "compact", "write and compact", "update")
    if sees or state == "placed"
]
STATEMENTS: Mapping[str, Statement] = {
    "delete": lambda table: table.delete("v = 2"),
    "update": lambda table: table.update({"v": "v + 100"}, "k = 2"),
    "merge": lambda table: merge(table, ("a", 2, 50), ("a", 3, 0), ("b", 7, 7)),
    "overwrite": lambda table: table.overwrite(rows(("a", 2, 77), ("b", 2, 77)), where="k = 2"),
    "write": lambda table: table.write(rows(("a", 2, 3), ("b", 8, 8))),
    "compact": lambda table: table.compact(),
    "write and compact": lambda table: (table.write(rows(("a", 2, 3), ("a", 3, 4))), table.compact()),
}


def ready(state: str, *, sees: bool) -> MemoryStore:
    store, table = made(**(SEES if sees else {}))
    table.write(rows(("a", 1, 1), ("a", 2, 2), ("a", 3, 3), ("b", 1, 1)))
    table.compact()
    if state == "waiting":
        table.write(rows(("a", 2, 2), ("a", 4, 4)))
    return store


def left(state: str, sees: bool, *names: str) -> list[Row]:
    """Return the rows after the statements in this order. One that is refused does nothing."""
    store = ready(state, sees=sees)
    for number, name in enumerate(names):
        try:
            STATEMENTS[name](catalog_over(store, 1 + number).table("db.t"))
        except lc.UnsupportedFeature:
            assert not sees
    return compacted(store)


def compacted(store: MemoryStore) -> list[Row]:
    table = catalog_over(store, 9).table("db.t")
    table.compact(full=True)
    assert table.verify(data=True).findings == ()
    return seen(table)


def moments(state: str, sees: bool, mine: str, theirs: str, step: int) -> Iterator[tuple[bool, list[Row]]]:
    """Yield, for each call of `mine` before which `theirs` acts, whether it was done, and the rows that are left."""
    for moment in range(1, 400, step):
        store = ready(state, sees=sees)
        acted: list[int] = []

        def act(call: Call, at: int = moment, store: Any = store, acted: Any = acted) -> None:
            if call.number == at and not acted:
                acted.append(at)
                STATEMENTS[theirs](catalog_over(store, 2).table("db.t"))

        is_done = True
        try:
            STATEMENTS[mine](catalog_over(FaultyStore(store, on_call=act), 1).table("db.t"))
        except (lc.CommitConflict, lc.UnsupportedFeature):
            is_done = False
        if not acted:
            return
        yield is_done, compacted(store)
    raise AssertionError("the statement took more calls than were tried")


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(("state", "sees", "mine", "theirs"), in_turn(23, RACES))
def test_rows_that_come_to_wait_meanwhile_are_not_lost_and_deleted_ones_do_not_return(
    state: str, sees: bool, mine: str, theirs: str
) -> None:
    serial = [left(state, sees, mine, theirs), left(state, sees, theirs, mine)]
    alone = left(state, sees, theirs)
    for is_done, found in moments(state, sees, mine, theirs, step=13 if mine == "merge" else 7):
        assert found in (serial if is_done else [alone])


class Model:
    """The rows of the table, and those that wait, in order; a row with the value None is a delete."""

    def __init__(self, *, sees: bool) -> None:
        self.sees = sees
        self.rows: dict[tuple[str, int], int] = {}
        self.waits: list[tuple[str, int, int | None]] = []

    def moved(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int | None] = {**self.rows}
        for p, k, v in self.waits:
            found[p, k] = v
        return {key: v for key, v in found.items() if v is not None}

    def compact(self) -> None:
        self.rows, self.waits = self.moved(), []

    def change(self, change: Callable[[dict[tuple[str, int], int]], dict[tuple[str, int], int]]) -> None:
        """Apply a change to what a statement sees. Rows that wait keep waiting in their partitions."""
        before, occupied = self.moved(), {p for p, _, _ in self.waits}
        after = change(dict(before))
        for key in before.keys() | after.keys():
            if before.get(key) == after.get(key):
                continue
            if key[0] in occupied:
                self.waits.append((*key, after.get(key)))
            elif key in after:
                self.rows[key] = after[key]
            else:
                del self.rows[key]

    def visible(self) -> list[Row]:
        return sorted((p, k, v) for (p, k), v in (self.moved() if self.sees else self.rows).items())


def draw(generator: Random, table: lc.Table, model: Model) -> None:
    """Take one random step with the table and with the model."""
    source = [(generator.choice("ab"), key, generator.randrange(5)) for key in generator.sample(range(8), 3)]
    bound = generator.randrange(6)
    names = ("write", "compact", "delete", "update", "merge", "merge", "drop", "overwrite")
    # Elsewhere it rewrites buckets, which is refused where rows wait.
    name = generator.choice(names[:-1] if "merge-engine" in table.schema.options else names)
    if name == "write":
        table.write(rows(*source))
        model.waits += source
        return
    if name == "compact":
        table.compact()
        model.compact()
        return
    if name == "drop":
        table.delete("p = 'a'")
        model.rows = {key: v for key, v in model.rows.items() if key[0] != "a"}
        model.waits = [row for row in model.waits if row[0] != "a"]
        return

    def merged(found: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        for p, k, v in source:
            if (p, k) not in found:
                found[p, k] = v
            elif v == 0:
                del found[p, k]
            else:
                found[p, k] += v
        return found

    statements: Mapping[str, tuple[Statement, Any]] = {
        "delete": (
            lambda table: table.delete(f"v < {bound}"),
            lambda found: {key: v for key, v in found.items() if v >= bound},
        ),
        "update": (
            lambda table: table.update({"v": "v + 3"}, f"k = {bound}"),
            lambda found: {key: v + 3 if key[1] == bound else v for key, v in found.items()},
        ),
        "merge": (lambda table: merge(table, *source), merged),
        "overwrite": (
            lambda table: table.overwrite(rows(("a", bound, 7)), where=f"k = {bound}"),
            lambda found: {**{key: v for key, v in found.items() if key[1] != bound}, ("a", bound): 7},
        ),
    }
    statement, change = statements[name]
    # A merge reads the partitions between the least and the greatest of its source.
    named = {p for p, _, _ in source} if name == "merge" else {"a", "b"}
    if not model.sees and any(row[0] in named for row in model.waits):
        with pytest.raises(lc.UnsupportedFeature, match="Compact the table and run it again"):
            statement(table)
        return
    statement(table)
    model.change(change)


HISTORIES = [(kind, sees, seed) for seed in range(6) for kind in KINDS for sees in (True, False)]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sees", "seed"), in_turn(29, HISTORIES))
def test_random_histories_leave_what_their_model_has(kind: str, sees: bool, seed: int) -> None:
    generator = Random(f"{kind} {sees} {seed}")
    _, table = made(**KINDS[kind], **(SEES if sees else {}))
    model = Model(sees=sees)

    for _ in range(20):
        draw(generator, table, model)
        if kind not in ("lookup", "vectors") or sees:
            assert seen(table) == model.visible()

    table.compact(full=True)
    model.compact()
    assert seen(table) == model.visible()
    assert table.verify(data=True).findings == ()
    if kind in ("input", "lookup", "full-compaction"):
        copy: dict[tuple[str, int], int] = {}
        # Partitions that were dropped are in no changelog.
        for row in table.changes(0).to_arrow().to_pylist():
            (copy.pop((row["p"], row["k"]), None) if row["rowkind"] in ("-D", "-U") else None)
            if row["rowkind"] in ("+I", "+U"):
                copy[row["p"], row["k"]] = row["v"]
        assert sorted((*key, v) for key, v in copy.items() if key[0] == "b") == [
            row for row in seen(table) if row[0] == "b"
        ]


REPLACED_BY_ITSELF = {
    "the whole table": lambda catalog, table: catalog.sql("INSERT OVERWRITE db.t SELECT * FROM db.t"),
    "its partitions": lambda catalog, table: catalog.sql(
        "INSERT OVERWRITE db.t SELECT * FROM db.t", settings={"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    ),
    "a partition": lambda catalog, table: catalog.sql(
        "INSERT OVERWRITE db.t PARTITION (p = 1) SELECT k, v FROM db.t WHERE p = 1"
    ),
    "a condition on partitions": lambda catalog, table: catalog.sql(
        "INSERT INTO db.t REPLACE WHERE p = 1 SELECT * FROM db.t WHERE p = 1"
    ),
    "the verb": lambda catalog, table: table.overwrite(table.scan()),
    "the verb, all partitions": lambda catalog, table: table.overwrite(table.scan(), dynamic=False),
}


@pytest.mark.parametrize("replace", REPLACED_BY_ITSELF.values(), ids=REPLACED_BY_ITSELF)
@pytest.mark.parametrize("is_read", [False, True], ids=["unseen", "merged on read"])
def test_an_overwrite_by_the_table_itself_loses_no_row_that_waits(tmp_path, replace, is_read):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "-2", "postpone.merge-on-read": str(is_read).lower()}
    columns = {"p": "INT", "k": "INT", "v": "INT"}
    table = catalog.create_table("db.t", columns, partition_keys=["p"], primary_keys=["p", "k"], options=options)
    table.write([{"p": 1, "k": 1, "v": 1}])
    table.compact()
    table.write([{"p": 1, "k": 2, "v": 2}])

    if is_read:
        replace(catalog, table)
    else:
        with pytest.raises(lc.UnsupportedFeature, match="1 row waits for its bucket in the partitions that it reads"):
            replace(catalog, table)
    table.compact()

    assert sorted(row["k"] for row in table.scan().to_arrow().to_pylist()) == [1, 2]
