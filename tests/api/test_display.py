"""Handles, plans, reports and records show themselves on one screen, read nothing for it and cannot fail."""

import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.api.record_building import snapshot_records
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

HOSTILE = "<script>alert('x')</script>\n\x1b[31m\u202e" + "long" * 500
QUOTED = HOSTILE.replace("'", "''")


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    found = lc.connect(tmp_path / "warehouse")
    found.create_database("db")
    return found


@pytest.fixture
def orders(catalog: lc.Catalog) -> lc.Table:
    table = catalog.create_table(
        "db.orders",
        {"id": "BIGINT NOT NULL", "v": "STRING", "at": "DATE"},
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    table.write([{"id": 1, "v": "a"}])
    return table


WHAT: dict[str, Callable[[lc.Catalog, lc.Table], Any]] = {
    "catalog": lambda catalog, table: catalog,
    "table": lambda catalog, table: table,
    "scan": lambda catalog, table: table.scan(columns=["id"], where="v = 'a' AND id > 0", limit=5),
    "scan of text": lambda catalog, table: table.scan(where=f"v = '{QUOTED}'"),
    "scan of hostile names": lambda catalog, table: table.scan(columns=[HOSTILE], options={"scan.tag-name": HOSTILE}),
    "changes": lambda catalog, table: table.changes(after=0),
    "difference": lambda catalog, table: table.diff(HOSTILE, HOSTILE),
    "system table": lambda catalog, table: table.system("files"),
    "plan": lambda catalog, table: table.scan(where=f"v = '{QUOTED}'").plan(),
    "plan of changes": lambda catalog, table: table.changes(after=0).plan(),
    "write": lambda catalog, table: table.write([{"id": 2, "v": HOSTILE}], properties={"why": HOSTILE}),
    "staged": lambda catalog, table: table.stage([{"id": 2}], commit_user=HOSTILE[:50], commit_identifier=1),
    "compact": lambda catalog, table: table.compact(full=True),
    "expire": lambda catalog, table: table.expire_snapshots(),
    "verify": lambda catalog, table: table.verify(),
    "snapshots": lambda catalog, table: table.snapshots(),
    "files": lambda catalog, table: table.files(),
    "no tags": lambda catalog, table: table.tags(),
    "progress": lambda catalog, table: lc.Progress(table="db.t", phase="writing"),
}


class Tags(HTMLParser):
    """What a browser sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


@pytest.mark.parametrize("what", WHAT)
def test_what_is_shown_fits_on_a_screen_is_printable_and_holds_no_markup_of_others(
    catalog: lc.Catalog, orders: lc.Table, what: str
) -> None:
    orders.write([{"id": 9, "v": HOSTILE}], properties={"why": HOSTILE})

    found = WHAT[what](catalog, orders)
    text = repr(found)

    assert len(text) < 1_500
    assert len(text.splitlines()) < 10
    assert text.replace("\n", "").isprintable()
    if what != "progress":
        page = found._repr_html_()
        assert len(page) < 10_000
        assert Tags(page).tags <= {"div", "strong", "table", "tr", "th", "td", "p"}
        page.encode()


@pytest.mark.damage
@pytest.mark.parametrize("what", WHAT)
def test_nothing_is_read_to_show_it(catalog: lc.Catalog, orders: lc.Table, what: str, tmp_path: Path) -> None:
    found = WHAT[what](catalog, orders)
    shown = repr(found)
    shutil.rmtree(tmp_path / "warehouse")

    assert repr(found) == shown
    assert what == "progress" or found._repr_html_()


def test_a_scan_says_what_was_asked_and_once_it_is_planned_what_it_found(orders: lc.Table) -> None:
    scan = orders.scan(columns=["id"], where="id > 0")

    assert repr(scan) == "Scan('db.orders', columns=['id'], where='id > 0')"
    scan.plan()
    assert repr(scan) == "Scan('db.orders', columns=['id'], where='id > 0', snapshot_id=1, splits=1)"
    assert repr(scan.plan()).startswith("ScanPlan('db.orders', snapshot_id=1, schema_id=0, columns=['id'], predicate=")


def test_what_has_no_facts_shows_its_name_and_no_empty_table(orders: lc.Table) -> None:
    assert orders.scan()._repr_html_() == "<div><strong>Scan</strong> db.orders</div>"
    assert orders.system("files")._repr_html_() == "<div><strong>SystemTable</strong> db.orders$files</div>"


def test_a_report_says_what_was_done(orders: lc.Table) -> None:
    report = orders.compact(full=True, dry_run=True)

    assert repr(report).startswith("CompactionReport('db.orders', snapshot_id_before=1, ")
    assert "rows_added" not in repr(report)
    assert "dry_run=True" in repr(report)


def test_a_table_in_a_notebook_has_the_columns_it_has_read(orders: lc.Table) -> None:
    page = orders._repr_html_()

    assert "BIGINT NOT NULL" in page
    assert "primary key" in page
    assert orders.uri in page


def test_long_records_show_the_first_and_how_many_more(orders: lc.Table) -> None:
    for number in range(25):
        orders.create_tag(f"t{number:02}")

    text = repr(orders.tags()).splitlines()
    assert text[:2] == [
        "Records of 25",
        "  name  snapshot_id  time                     total_record_count  time_retained",
    ]
    assert [line.split()[:2] for line in text[2:7]] == [[f"t{number:02}", "1"] for number in range(5)]
    assert text[7:] == ["  … and 20 more"]
    page = orders.tags()._repr_html_()
    assert page.count("<tr>") == 21
    assert "… and 5 more" in page


def test_each_record_is_a_line_that_people_can_read(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", {"dt": "DATE", "id": "INT"}, partition_keys=["dt"])
    for day in (1, 2):
        table.write([{"dt": f"2013-01-0{day}", "id": day}])

    snapshots = repr(table.snapshots()).splitlines()
    files = repr(table.files()).splitlines()

    assert [line.split()[:2] for line in snapshots[1:]] == [["id", "commit_kind"], ["1", "APPEND"], ["2", "APPEND"]]
    assert snapshots[2].split()[2].startswith("20")
    assert files[1].split()[:5] == ["partition", "bucket", "level", "file_name", "row_count"]
    assert {line.split()[0] for line in files[2:]} == {"dt=2013-01-01", "dt=2013-01-02"}
    assert {line.split()[3] for line in files[2:]} == {file.file_name for file in table.files()}
    assert max(map(len, snapshots + files)) <= 122
    assert repr(table.tags()) == "Records of 0"
    assert repr(table.snapshots()[:1]).splitlines()[2:] == snapshots[2:3]


def test_a_time_that_no_calendar_has_is_shown_as_its_number(catalog: lc.Catalog, orders: lc.Table) -> None:
    snapshot = orders.snapshots()[0].model_copy(update={"time_millis": 2**62})

    assert str(2**62) in repr(snapshot_records([snapshot]))


def test_names_of_stores_are_shown_as_text() -> None:
    catalog = Catalog(MemoryStore("<b>\x1b"), clock=VirtualClock())

    assert "\x1b" not in repr(catalog)
    assert "<b>" not in catalog._repr_html_()
