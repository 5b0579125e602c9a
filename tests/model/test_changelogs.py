"""What each snapshot changed reads the same before and after it expired into a changelog, with real rows."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

KINDS = {
    "append": {"options": {"bucket": "-1"}},
    "append in buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
    "key": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "key, partitioned": {"primary_keys": ["p", "k"], "partition_keys": ["p"], "options": {"bucket": "1"}},
    "key, input": {"primary_keys": ["k"], "options": {"bucket": "2", "changelog-producer": "input"}},
    "key, joined": {
        "primary_keys": ["k"],
        "options": {"bucket": "3", "changelog-producer": "lookup", "precommit-compact": "true"},
    },
    "append, packed": {"options": {"bucket": "-1", "precommit-compact": "true", "target-file-row-num": "2"}},
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {"p": st.integers(0, 1), "k": st.integers(0, 5), "op": st.sampled_from(["+I", "+I", "+U", "-D"])}
    ),
    min_size=1,
    max_size=6,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), ROWS),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("expire"), st.integers(1, 3)),
    ),
    min_size=4,
    max_size=10,
)


def rows_of(table: lc.Table, snapshot_id: int) -> list[str]:
    return sorted(map(str, table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow().to_pylist()))


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@settings(max_examples=settings.default.max_examples // 4)
@given(steps=STEPS, kept=st.sampled_from(["4", "100"]))
def test_changes_outlive_their_snapshots(kind, steps, kept):
    clock = VirtualClock()
    catalog = Catalog(MemoryStore(clock=clock), clock=clock)
    catalog.create_database("db")
    options = {
        **kind["options"],
        "lakehouse.read.grace": "0 s",
        "snapshot.num-retained.min": "1",
        "changelog.num-retained.min": "1",
        "changelog.num-retained.max": kept,
        "changelog.time-retained": "30 d",
    }
    columns = {"p": "INT NOT NULL", "k": "INT NOT NULL", "n": "INT"}
    table = catalog.create_table("db.t", columns, **{**kind, "options": options})
    changes: dict[int, list[str]] = {}
    for number, (verb, argument) in enumerate([*steps, ("expire", 1)]):
        clock.advance(60)
        match verb:
            case "write":
                keyed = "primary_keys" in kind
                kinds = {"rowkind_column": "op"} if keyed else {}
                names = ("p", "k", "op") if keyed else ("p", "k")
                rows = [{**{name: row[name] for name in names}, "n": number} for row in argument]
                report = table.write(rows, **kinds)
            case "compact":
                report = table.compact(full=True)
            case "expire":
                table.expire_snapshots(retain_max=argument, older_than=timedelta(hours=1))
                report = None
        if report is not None and report.snapshot_id is not None:
            for snapshot in table.snapshots():
                changes.setdefault(snapshot.id, rows_of(table, snapshot.id))

        ids = sorted(changes)
        readable = {snapshot_id: changes[snapshot_id] for snapshot_id in ids[-int(kept) :]} if ids else {}
        assert {snapshot_id: rows_of(table, snapshot_id) for snapshot_id in readable} == readable
        assert table.verify().findings == ()
