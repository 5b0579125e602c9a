"""Two row changes at once: the rows are those of one of the serial orders, or one of them is CommitConflict.

The other one acts wholly between any two calls of the first one to the store.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import LAYOUTS, Row, catalog_over, made, rows_of
from tests.pairs import in_turn

Statement = Callable[[lc.Table], Any]

NEW = {"k": 50, "p": 1, "s": 9, "v": "b", "n": 4}
CHANGED = {"k": 5, "p": 2, "s": 9, "v": "written", "n": 40}
MERGED = [{"k": 5, "p": 2, "n": 8}, {"k": 9, "p": 0, "n": 8}, {"k": 70, "p": 1, "n": 8}]


def merge(table: lc.Table) -> object:
    """Update and delete where the table may, and insert a row unless it is there."""
    changes = [lc.WhenMatched(update={"v": "'merged'", "n": "COALESCE(t.n, 0) + s.n"})]
    inserts_only = not takes_updates(table)
    return table.merge(
        MERGED,
        "t.k = s.k",
        *([] if inserts_only else changes),
        lc.WhenNotMatched(insert={"k": "k", "p": "p", "s": 9, "v": "'new'", "n": "n"}),
    )


def takes_updates(table: lc.Table) -> bool:
    return table.schema.options.get("merge-engine") not in ("aggregation", "first-row")


# Pairs of them read what the other writes: `swap` and `back` have no order in which both find nothing to do.
STATEMENTS: Mapping[str, Statement] = {
    "delete one": lambda table: table.delete("k = 5"),
    "delete some": lambda table: table.delete("v = 'b'"),
    "update one": lambda table: table.update({"v": "'one'", "n": "n + 1"}, "k = 5"),
    "swap": lambda table: table.update({"v": "'b'"}, "v = 'z'"),
    "back": lambda table: table.update({"v": "'z'"}, "v = 'b'"),
    "drop": lambda table: table.delete("p = 2"),
    "truncate": lambda table: table.truncate(),
    "merge": merge,
    "replace": lambda table: table.overwrite([{**CHANGED, "v": "b"}, NEW], where="v = 'b'"),
    "replace all": lambda table: table.overwrite([CHANGED, {**NEW, "p": 2}], where="p = 2"),
}
OTHERS: Mapping[str, Statement] = {
    **STATEMENTS,
    "write": lambda table: table.write([CHANGED, NEW]),
    "overwrite": lambda table: table.overwrite([CHANGED, NEW], dynamic=False),
    "compact": lambda table: table.compact(full=True),
    "expire": lambda table: (table.compact(full=True), table.expire_snapshots(retain_max=1)),
    "add a column": lambda table: table.alter(lc.AddColumn("w", "INT")),
}
RACED = (
    "append",
    "append, partitions",
    "append, vectors",
    "append, vectors, buckets",
    "deduplicate",
    "deduplicate, partitions",
    "deduplicate, vectors",
    "deduplicate, lookup",
    "deduplicate, sequence",
    "deduplicate, dynamic, partitions",
    "partial-update",
    "aggregation",
    "first-row",
    "partial-update, dynamic",
    "deduplicate, moving",
    "partial-update, moving",
    "deduplicate, postponed",
    "deduplicate, postponed, partitions",
)


@cache
def prepared(layout: str) -> MemoryStore:
    return made(LAYOUTS[layout])[0]


def copied(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore(clock=VirtualClock())
    copy.write({info.key: store.read(info.key) for info in store.list("")})
    return copy


def after(layout: str, *statements: Statement) -> list[Row]:
    store = copied(prepared(layout))
    for number, statement in enumerate(statements):
        statement(catalog_over(store, 1 + number).table("db.t"))
    return without_new_column(rows_of(catalog_over(store, 9).table("db.t")))


def without_new_column(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "w"} for row in rows]


def moments(layout: str, mine: Statement, theirs: Statement, step: int) -> Iterator[tuple[int, list[Row], bool]]:
    """Yield, for each call of `mine` before which `theirs` acts, the rows that are left and whether `mine` was done."""
    for moment in range(1, 400, step):
        store = copied(prepared(layout))
        moved: list[int] = []

        def act(call: Call, at: int = moment, store: Any = store, moved: Any = moved) -> None:
            if call.number == at and not moved:
                moved.append(at)
                theirs(catalog_over(store, 2).table("db.t"))

        is_done = True
        try:
            mine(catalog_over(FaultyStore(store, on_call=act), 1).table("db.t"))
        except lc.CommitConflict:
            is_done = False
        if not moved:
            return
        table = catalog_over(store, 9).table("db.t")
        assert table.verify(data="dynamic" in layout or "moving" in layout).findings == (), moment
        yield moment, without_new_column(rows_of(table)), is_done
    raise AssertionError("the statement took more calls than were tried")


def check_pair(layout: str, first: str, second: str, *, step: int = 1) -> None:
    mine, theirs = STATEMENTS[first], OTHERS[second]
    serial = [after(layout, mine, theirs), after(layout, theirs, mine)]
    for moment, rows, is_done in moments(layout, mine, theirs, step):
        assert rows in (serial if is_done else [after(layout, theirs)]), (layout, first, second, moment)


def allowed(layout: str, name: str) -> bool:
    if name in ("replace", "replace all") and layout == "first-row":
        return False
    updates = name in ("update one", "swap", "back")
    return LAYOUTS[layout].updates is not None or not updates


PAIRS = [
    (layout, first, second)
    for layout, (first, second) in product(RACED, product(STATEMENTS, OTHERS))
    if allowed(layout, first) and allowed(layout, second)
]
# The long tests take all pairs and all moments; of a merge, which takes longest, every fifth. Here it is every fourth
# moment, of a merge every tenth.
FEW = [
    ("append", "swap", "back"),
    ("append, vectors", "update one", "delete some"),
    ("append, partitions", "drop", "update one"),
    ("deduplicate", "swap", "back"),
    ("deduplicate", "update one", "truncate"),
    ("deduplicate, vectors", "update one", "write"),
    ("deduplicate, lookup", "delete one", "expire"),
    ("deduplicate, dynamic, partitions", "drop", "write"),
    ("first-row", "delete some", "compact"),
    ("append", "merge", "merge"),
    ("append, vectors", "merge", "delete one"),
    ("deduplicate", "merge", "write"),
    ("append, vectors", "replace", "replace"),
    ("deduplicate, partitions", "replace all", "write"),
    ("partial-update", "replace", "swap"),
]
# Where keys move, rows wait or buckets are opened: every sixteenth moment.
PLACED_LATER = [
    ("partial-update, dynamic", "swap", "back"),
    ("deduplicate, moving", "replace all", "write"),
    ("partial-update, moving", "update one", "write"),
    ("deduplicate, postponed", "update one", "write"),
    ("deduplicate, postponed, partitions", "drop", "delete one"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "first", "second"), in_turn(9, FEW))
def test_two_at_once_are_like_one_after_the_other(layout: str, first: str, second: str) -> None:
    check_pair(layout, first, second, step=10 if "merge" in (first, second) else 4)


@pytest.mark.parametrize(("layout", "first", "second"), PLACED_LATER)
def test_two_at_once_are_like_one_after_the_other_where_buckets_are_found_later(
    layout: str, first: str, second: str
) -> None:
    check_pair(layout, first, second, step=16)


@pytest.mark.long
@pytest.mark.parametrize(("layout", "first"), list(dict.fromkeys(pair[:2] for pair in PAIRS)))
def test_every_two_at_once_are_like_one_after_the_other(layout: str, first: str) -> None:
    for pair in PAIRS:
        if pair[:2] == (layout, first):
            check_pair(*pair, step=5 if "merge" in pair else 1)
