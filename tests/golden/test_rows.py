"""What we read in tables written by Java equals what Java reads: every snapshot, tag and changelog."""

import functools
import json
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.golden import sets
from tests.interop.values import Row, canonical, canonical_changes, java_rows

pytestmark = pytest.mark.golden

# Tables that cannot be read yet, by what their refusal says. Everything else must read like Java.
REFUSED = {
    "VARIANT": ["append_variant"],
}
REFUSED_OF_PRINTED = {
    "data_evolution": "data-evolution.enabled",
    "rowfmt": "format",
    "variant": "VARIANT",
}
REFUSED_BECAUSE = {table: option for option, tables in REFUSED.items() for table in tables}

# Columns whose arrays Java gives in the order of a hash map.
IN_HASH_ORDER = {"agg_nested": ("nk", "np"), "agg_nested_retract": ("nk",)}
# Older releases keep blank tokens of a distinct listagg; here and in 2.0.0 they are left out. At snapshot 3 versions
# are merged by the reader, later ones hold what 1.4.2 merged.
KEEPS_BLANKS = {("java-1.4.2", "agg_values", 3): ("ld", "a;b;c; ;d", "a;b;c;d")}


# Both releases wrote the same kinds of tables: `make test` looks at the rows of the newer ones and of every sixth of
# the older ones, and otherwise at the newer ones.
def of_older(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] * (name != sets.RECORDED[0])


TABLES = [(name, table) for name in sets.RECORDED for table in sets.docs(name)]
KEYED = [
    (name, table) for name, table in TABLES if table not in REFUSED_BECAUSE and sets.docs(name)[table]["primaryKeys"]
]


@pytest.fixture(scope="module")
def warehouses(unpacked: Callable[[str], Path]) -> dict[str, Path]:
    return {name: unpacked(name) for name in sets.RECORDED}


def head(doc: sets.Doc) -> list[Row]:
    rows = doc["head"]
    return sets.rows_by_snapshot(doc)[rows["same_rows_as"]] if isinstance(rows, dict) else rows


@pytest.mark.parametrize(
    ("name", "table"),
    [
        pytest.param(name, table, marks=of_older(name) * bool(place % 6))
        for place, (name, table) in enumerate(TABLES)
        if table not in REFUSED_BECAUSE
    ],
)
def test_rows_at_every_snapshot_and_tag_are_those_that_java_reads(
    warehouses: dict[str, Path], name: str, table: str
) -> None:
    doc = sets.docs(name)[table]
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")

    assert shown(table, read(opened, lc.Latest())) == shown(table, head(doc))
    for snapshot_id, rows in expected_rows(name, table).items():
        assert shown(table, read(opened, lc.AtSnapshot(snapshot_id))) == shown(table, rows), snapshot_id
    for tag, tagged in doc.get("tags", {}).items():
        assert shown(table, read(opened, lc.AtTag(tag))) == shown(table, tagged["rows"]), tag


def shown(table: str, rows: list[Row]) -> list[str]:
    return canonical(in_any_order(rows, IN_HASH_ORDER.get(table, ())))


def expected_rows(name: str, table: str) -> dict[int, list[Row]]:
    """Return what must be read at each snapshot that is left."""
    doc = sets.docs(name)[table]
    rows = sets.rows_by_snapshot(doc)
    for snapshot_id in sets.retained(doc):
        if (difference := KEEPS_BLANKS.get((name, table, snapshot_id))) is not None:
            rows[snapshot_id] = replaced(rows[snapshot_id], *difference)
    return {snapshot_id: rows[snapshot_id] for snapshot_id in sets.retained(doc)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "table"),
    # Every sixth one, and in `make test-long` the others: each kind has several tables.
    [
        pytest.param(name, table, marks=of_older(name) or [pytest.mark.long] * bool(place % 6))
        for place, (name, table) in enumerate(KEYED)
    ],
)
def test_rows_looked_up_by_their_keys_are_those_that_java_reads(
    warehouses: dict[str, Path], name: str, table: str
) -> None:
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")
    doc = sets.docs(name)[table]
    expected = expected_rows(name, table)
    scans = {number: opened.scan(at=lc.AtSnapshot(number)) for number in expected}
    # Every key that there ever was, whether a snapshot has it or not.
    every = [row for scan in scans.values() for row in scan.to_arrow().select(doc["primaryKeys"]).to_pylist()]
    keys = list({str(key): key for key in every}.values())

    assert shown(table, java_rows(opened.lookup(keys), opened.schema.fields)) == shown(table, head(doc))
    for number, scan in scans.items():
        rows = opened.lookup(keys, at=lc.AtSnapshot(number))
        found = java_rows(rows, scan.plan().schema.fields)
        assert shown(table, found) == shown(table, expected[number]), number


@pytest.mark.parametrize(
    ("name", "table"),
    [
        pytest.param(name, table, marks=of_older(name))
        for name, table in TABLES
        if table not in REFUSED_BECAUSE and "changelog" in sets.docs(name)[table]
    ],
)
def test_changes_of_every_snapshot_are_those_that_java_streams(
    warehouses: dict[str, Path], name: str, table: str
) -> None:
    recorded = sets.docs(name)[table]["changelog"]
    expected = {step["snapshot"]: step["rows"] for step in recorded["snapshots"]}
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")

    for snapshot_id in sets.retained(sets.docs(name)[table]):
        if snapshot_id >= recorded["from"]:
            rows = changes(opened, snapshot_id)
            assert canonical_changes(rows) == canonical_changes(expected.get(snapshot_id, [])), snapshot_id


@pytest.mark.parametrize(
    ("name", "table"), [pair for pair in TABLES if pair[1] in ("decoupled_input", "decoupled_lookup", "decoupled_none")]
)
def test_a_long_lived_changelog_leads_from_the_state_before_its_snapshot_to_the_state_after(
    warehouses: dict[str, Path], name: str, table: str
) -> None:
    doc = sets.docs(name)[table]
    states = sets.rows_by_snapshot(doc)
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")

    first, *_ = kept = doc["long_lived_changelogs"]
    kinds = {snapshot["id"]: snapshot["kind"] for snapshot in doc["snapshots"]}
    state = {row["k"]: row for row in states[first - 1]}
    for snapshot_id in kept:
        for change in changes(opened, snapshot_id):
            kind = change.pop("_kind")
            if kind in ("+I", "+U"):
                state[change["k"]] = change
            else:
                state.pop(change["k"], None)
        # With a lookup the changelog of what was appended comes with the compaction that follows.
        if table != "decoupled_lookup" or kinds[snapshot_id] == "COMPACT":
            assert canonical(state.values()) == canonical(states[snapshot_id]), snapshot_id


@pytest.mark.parametrize(("name", "table"), [pair for pair in TABLES if pair[1] in REFUSED_BECAUSE])
def test_a_table_that_could_be_read_wrong_is_refused_by_the_name_of_its_option(
    warehouses: dict[str, Path], name: str, table: str
) -> None:
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")

    with pytest.raises(lc.UnsupportedFeature, match=REFUSED_BECAUSE[table]):
        opened.scan().to_arrow()


READS = [
    (name, table, at)
    for name, table in TABLES
    if table not in REFUSED_BECAUSE
    for at, read in enumerate(sets.docs(name)[table].get("reads", ()))
    if "filter" in read["request"]
]


@pytest.mark.parametrize(("name", "table", "at"), READS)
def test_rows_under_a_filter_are_those_that_java_reads(
    warehouses: dict[str, Path], name: str, table: str, at: int
) -> None:
    recorded = sets.docs(name)[table]["reads"][at]
    opened = lc.connect(str(warehouses[name])).table(f"db.{table}")
    scan = opened.scan(where=condition(recorded["request"]["filter"]))

    expected = [{column: value for column, value in row.items() if column != "_kind"} for row in recorded["rows"]]
    assert canonical(java_rows(scan.to_arrow(), scan.plan().schema.fields)) == canonical(expected)


@pytest.mark.parametrize("name", sets.RECORDED)
def test_an_index_in_the_manifest_leaves_out_the_files_without_the_value(
    warehouses: dict[str, Path], name: str
) -> None:
    opened = lc.connect(str(warehouses[name])).table("db.append_index_embedded")
    # Between the bounds of the first file's names, and in none of the files.
    files = {
        value: sum(len(split.files) for split in opened.scan(where=lc.col("n") == value).plan().splits)
        for value in ("name3", "name3x")
    }

    assert files == {"name3": 2, "name3x": 0}


@pytest.mark.parametrize("name", sets.PRINTED)
def test_rows_of_older_sets_are_those_that_java_printed(unpacked: Callable[[str], Path], name: str) -> None:
    catalog = lc.connect(str(unpacked(name)))
    printed = sets.printed(name)

    for table, (row_count, first_rows) in printed.items():
        opened = catalog.table(f"db.{table}")
        if table in REFUSED_OF_PRINTED:
            with pytest.raises(lc.UnsupportedFeature, match=REFUSED_OF_PRINTED[table]):
                opened.scan().to_arrow()
            continue
        scanned = opened.scan()
        shown = [sets.as_printed(row, scanned.plan().schema.fields) for row in read(opened, lc.Latest())]
        assert len(shown) == row_count, table
        assert not Counter(first_rows) - Counter(shown), table
    assert set(catalog.tables("db")) == set(printed)


OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def condition(filters: Any) -> Any:
    """The judge's filter: one comparison, or several that all hold."""
    parts = [filters] if isinstance(filters, dict) else filters
    made = [OPERATORS[part["op"]](lc.col(part["field"]), part["value"]) for part in parts]
    return functools.reduce(operator.and_, made)


def changes(table: lc.Table, snapshot_id: int) -> list[Row]:
    changed = table.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow()
    kinds = changed.column("rowkind").to_pylist()
    return [{"_kind": kind} | row for kind, row in zip(kinds, java_rows(changed, table.schema.fields), strict=True)]


def in_any_order(rows: list[Row], columns: Sequence[str]) -> list[Row]:
    """Return the rows with the arrays in `columns` sorted."""

    def unordered(value: Any) -> Any:
        return value and sorted(value, key=lambda item: json.dumps(item, sort_keys=True))

    return [row | {name: unordered(row[name]) for name in columns} for row in rows]


def replaced(rows: list[Row], column: str, theirs: str, ours: str) -> list[Row]:
    """Return the rows of Java with one value, which must be there, replaced by ours."""
    assert [row[column] for row in rows].count(theirs) == 1
    return [row | {column: ours} if row[column] == theirs else row for row in rows]


def read(table: lc.Table, at: lc.ReadPoint) -> list[Row]:
    scanned = table.scan(at=at)
    return java_rows(scanned.to_arrow(), scanned.plan().schema.fields)
