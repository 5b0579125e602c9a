"""Random histories of row changes, writes, compactions, expiries and alterations. In some steps another process acts in
the middle of a statement. The rows are those of the row-wise model, in one of the two orders.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes import test_merge
from tests.execution.row_changes.layouts import BATCHES, LAYOUTS, Row, catalog_over, in_order, made, rows_of
from tests.execution.row_changes.test_model import CONDITIONS, UPDATES, sound
from tests.oracle.row_changes import deleted, is_hit, updated
from tests.pairs import in_turn

Left = list[Row] | type[lc.LakehouseError]
Step = tuple[str, Callable[[lc.Table], object], Callable[[list[Row]], Left]]


def drawn(name: str, generator: random.Random, schema: Any, number: int) -> Step:
    """Return a step: what it does, and what it leaves of the rows or how it is refused."""
    seed = generator.randrange(1 << 30)
    where = generator.choice(CONDITIONS)
    assignments, values = generator.choice(UPDATES[:-1])
    new = [
        {"k": 1_000 + 2 * number + each, "p": each, "s": 5, "v": "new", "n": generator.choice((None, 4, -3))}
        for each in (0, 1)
    ]
    # Where the condition is on the key alone, every row of a given key is replaced, whatever the merge engine.
    old = [{**BATCHES[0][4], "v": "old"}] if where.startswith("k ") else []
    fitting = [row for row in [*new, *old] if is_hit(row, where, schema)]
    data, on, clauses = test_merge.said(seed)
    steps: list[Step] = [
        *[
            (
                f"merge {seed}",
                lambda table: table.merge(data, on, *clauses),
                lambda rows: test_merge.left(name, rows, seed),
            )
        ]
        * 4,
        (f"delete {where}", lambda table: table.delete(where), lambda rows: deleted(rows, where, schema)),
        (
            f"replace {where}",
            lambda table: table.overwrite(fitting, where=where),
            lambda rows: lc.UnsupportedFeature if name == "first-row" else [*deleted(rows, where, schema), *fitting],
        ),
        ("write", lambda table: table.write(new), lambda rows: [*rows, *new]),
        ("compact", lambda table: table.compact(full=True), lambda rows: rows),
        ("expire", lambda table: table.expire_snapshots(retain_max=1), lambda rows: rows),
        (
            "alter",
            lambda table: table.alter(lc.SetOption("snapshot.time-retained", f"{number + 1} h")),
            lambda rows: rows,
        ),
    ]
    if LAYOUTS[name].updates is not None:
        steps.append(
            (
                f"update {assignments} {where}",
                lambda table: table.update(assignments, where),
                lambda rows: updated(rows, values, where, schema),
            )
        )
    return generator.choice(steps)


def check_history(name: str, seed: int, count: int) -> None:
    generator = random.Random(seed)
    store, table = made(LAYOUTS[name])
    rows, schema, told = rows_of(table), table.schema, []
    for number in range(count):
        step = drawn(name, generator, schema, 2 * number)
        other = drawn(name, generator, schema, 2 * number + 1) if generator.random() < 0.5 else None
        moment = generator.randrange(1, 60)
        told.append((step[0], other and other[0], moment))
        error = run(store, number, step, other, moment)
        found = rows_of(catalog_over(store, 9).table("db.t"))
        assert found in allowed(rows, step, other, error), (name, seed, told, error)
        rows = found
    assert sound(catalog_over(store, 9).table("db.t")), (name, seed, told)


def run(store: MemoryStore, number: int, step: Step, other: Step | None, moment: int) -> lc.LakehouseError | None:
    """Run the step; before its store call `moment`, or after it, `other` acts. Return the error of the step."""
    acted: list[int] = []
    # No two processes draw the same names.
    first = 10 + 2 * number

    def act(call: Call) -> None:
        if other is not None and call.number >= moment and not acted:
            acted.append(moment)
            attempt(other, catalog_over(store, first + 1).table("db.t"))

    error = attempt(step, catalog_over(FaultyStore(store, on_call=act), first).table("db.t"))
    if other is not None and not acted:
        attempt(other, catalog_over(store, first + 1).table("db.t"))
    return error


def attempt(step: Step, table: lc.Table) -> lc.LakehouseError | None:
    try:
        step[1](table)
    except lc.LakehouseError as error:
        return error
    return None


def allowed(rows: list[Row], step: Step, other: Step | None, error: lc.LakehouseError | None) -> list[list[Row]]:
    """Return the rows that the serial orders leave in which the step is refused, or done, as it was."""
    if isinstance(error, lc.CommitConflict):
        assert other is not None
        return [after(rows, [other])[0]]
    orders = [[step]] if other is None else [[step, other], [other, step]]
    found = [after(rows, order) for order in orders]
    return [left for (left, refused), order in zip(found, orders, strict=True) if (step in refused) == bool(error)]


def after(rows: list[Row], order: list[Step]) -> tuple[list[Row], list[Step]]:
    """Return the rows after the steps, and the steps that are refused."""
    refused = []
    for each in order:
        left = each[2](rows)
        if isinstance(left, type):
            refused.append(each)
        else:
            rows = left
    return in_order(rows), refused


FEW = ("append, vectors", "append, partitions", "deduplicate", "deduplicate, dynamic", "partial-update")
# Where tables remove records on delete, NULL in a new row gives the value of the deleted row until a compaction drops
# the delete, in Java too. The model does not know compactions.
MODELLED = [name for name in LAYOUTS if "removes" not in name]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", in_turn(2, FEW))
def test_a_history_leaves_the_rows_of_a_serial_order(name):
    check_history(name, 1, 5)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELLED)
def test_any_history_leaves_the_rows_of_a_serial_order(name):
    for seed in range(100, 106):
        check_history(name, seed, 12)
