"""Symbolic links in a warehouse: those that stay below it are followed for reading, no other, and none for deleting."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import lakehouse_core as lc

# The check after each test would follow the links, and find what lies there.
pytestmark = pytest.mark.damage

ROWS = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}

# What a link of somebody else may lead to, from a folder of the warehouse; `outside` lies beside the warehouse.
HOSTILE: dict[str, Callable[[Path, Path], object]] = {
    "a folder outside": lambda link, outside: link.symlink_to(outside),
    "a table outside": lambda link, outside: link.symlink_to(outside / "table"),
    "a file outside": lambda link, outside: link.symlink_to(outside / "file"),
    "nothing": lambda link, outside: link.symlink_to("nothing-of-that-name"),
    "nothing outside": lambda link, outside: link.symlink_to(outside / "nothing"),
    "itself": lambda link, outside: link.symlink_to(link.name),
}


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(tmp_path / "warehouse")
    catalog.create_database("sales")
    orders(catalog)
    return catalog


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file and a table, of which nobody may touch anything."""
    folder = tmp_path / "outside"
    for name in ("table/schema", "table/empty"):
        (folder / name).mkdir(parents=True)
    for name in ("file", "table/schema/schema-0", "table/data"):
        (folder / name).write_text("do not touch")
    return folder


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    return tmp_path / "warehouse/sales.db"


def orders(catalog: lc.Catalog, name: str = "sales.orders", **options: str) -> lc.Table:
    more = {"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1", **options}
    table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options=more)
    table.write(ROWS)
    return table


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, with the bytes of its files."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def rows(catalog: lc.Catalog, name: str = "sales.orders") -> list[dict[str, object]]:
    return sorted(catalog.table(name).scan().to_arrow().to_pylist(), key=lambda row: str(row["k"]))


def test_links_in_a_database_folder_bar_no_other_table(catalog, sales, outside):
    for number, lay in enumerate(HOSTILE.values()):
        lay(sales / f"link-{number}", outside)
    (sales / "linked").mkdir()
    (sales / "linked/schema").symlink_to(outside / "table/schema")

    assert catalog.tables("sales") == ["orders"]
    orders(catalog, "sales.more")
    catalog.drop_table("sales.orders")
    assert catalog.tables("sales") == ["more"]
    assert [report.error for report in catalog.compact(database="sales")] == [None]


@pytest.mark.parametrize("target", HOSTILE)
def test_a_table_behind_a_link_that_nobody_follows_is_refused_by_name(catalog, sales, outside, target):
    HOSTILE[target](sales / "link", outside)
    before = contents(outside)
    more = {"table": (), "create_table": (COLUMNS,), "drop_table": (), "rename_table": ("sales.other",)}

    for verb, arguments in more.items():
        with pytest.raises(lc.InvalidRequest, match=r"/sales\.db/link'.* symbolic link"):
            getattr(catalog, verb)("sales.link", *arguments)
    assert contents(outside) == before
    assert os.path.lexists(sales / "link")


def test_a_database_folder_that_is_such_a_link_is_no_database(catalog, tmp_path, outside):
    for number, lay in enumerate(HOSTILE.values()):
        lay(tmp_path / f"warehouse/linked-{number}.db", outside)
    before = contents(outside)

    assert catalog.databases() == ["sales"]
    for number in range(len(HOSTILE)):
        with pytest.raises(lc.NotFound, match=f"'linked-{number}' does not exist"):
            catalog.tables(f"linked-{number}")
        with pytest.raises(lc.InvalidRequest, match="symbolic link"):
            catalog.create_database(f"linked-{number}")
    assert contents(outside) == before


def test_a_table_of_two_names_loses_the_one_that_is_dropped(catalog, sales):
    (sales / "alias").symlink_to("orders")
    assert catalog.tables("sales") == ["alias", "orders"]
    assert rows(catalog, "sales.alias") == ROWS

    catalog.drop_table("sales.alias")

    assert os.listdir(sales) == [name for name in os.listdir(sales) if name in ("orders", ".lakehouse-database")]
    assert rows(catalog) == ROWS


def test_a_second_name_is_changed_within_its_database_only(catalog, sales):
    (sales / "alias").symlink_to("orders")
    catalog.create_database("more")
    with pytest.raises(lc.InvalidRequest, match="may lead elsewhere from another folder"):
        catalog.rename_table("sales.alias", "more.alias")

    catalog.rename_table("sales.alias", "sales.other")

    assert rows(catalog, "sales.other") == rows(catalog) == ROWS


def test_nothing_is_dropped_or_moved_behind_a_database_that_is_a_link(catalog, tmp_path):
    (tmp_path / "warehouse/twin.db").symlink_to("sales.db")
    assert catalog.tables("twin") == ["orders"]

    with pytest.raises(lc.InvalidRequest, match="whose target is never moved or deleted"):
        catalog.drop_table("twin.orders")
    with pytest.raises(lc.InvalidRequest, match="whose target is never moved or deleted"):
        catalog.rename_table("twin.orders", "sales.others")
    assert rows(catalog) == rows(catalog, "twin.orders") == ROWS


def test_a_dropped_table_takes_the_links_in_its_folder_along_and_nothing_behind_them(catalog, sales, outside):
    neighbour = orders(catalog, "sales.neighbour")
    for number, lay in enumerate(HOSTILE.values()):
        for folder in (sales / "orders", sales / "orders/bucket-0", sales / "orders/snapshot"):
            lay(folder / f"link-{number}", outside)
    (sales / "orders/neighbour").symlink_to("../neighbour")
    before = contents(outside)

    catalog.drop_table("sales.orders")

    assert {*os.listdir(sales)} == {"neighbour", ".lakehouse-database"}
    assert contents(outside) == before
    assert neighbour.verify(data=True).findings == ()


def test_links_among_the_files_of_a_table_are_passed_over(catalog, sales, outside):
    table = catalog.table("sales.orders")
    table.create_tag("kept")
    for number, lay in enumerate(HOSTILE.values(), 7):
        for name in (
            "snapshot/snapshot-",
            "snapshot/",
            "changelog/changelog-",
            "schema/schema-",
            "tag/tag-",
            "bucket-",
        ):
            link = sales / f"orders/{name}{number}"
            link.parent.mkdir(exist_ok=True)
            lay(link, outside)
    before = contents(outside)

    table.write([{"k": 3, "v": "c"}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))
    table.delete_tag("kept")

    assert len(rows(catalog)) == 3
    assert table.verify(data=True).findings == ()
    assert contents(outside) == before


@pytest.mark.parametrize("target", HOSTILE)
def test_a_link_in_the_place_of_the_next_snapshot_is_refused_by_name(catalog, sales, outside, target):
    HOSTILE[target](sales / "orders/snapshot/snapshot-2", outside)
    before = contents(outside)

    with pytest.raises(lc.InvalidRequest, match=r"snapshot-2'.* symbolic link"):
        catalog.table("sales.orders").write([{"k": 3, "v": "c"}])
    os.unlink(sales / "orders/snapshot/snapshot-2")
    assert rows(catalog) == ROWS
    assert contents(outside) == before


def test_a_pipe_in_the_place_of_the_next_snapshot_makes_nobody_wait(catalog, sales):
    os.mkfifo(sales / "orders/snapshot/snapshot-2")

    with pytest.raises(lc.CorruptTable, match="snapshot-2"):
        catalog.table("sales.orders").write([{"k": 3, "v": "c"}])


@pytest.mark.parametrize("is_inside", [False, True], ids=["outside", "inside"])
def test_nothing_is_deleted_behind_a_bucket_folder_that_is_a_link(catalog, sales, outside, is_inside):
    table = catalog.table("sales.orders")
    table.write([{"k": 1, "v": "c"}])
    table.compact(full=True)
    home = sales / "orders/elsewhere" if is_inside else outside / "bucket"
    (sales / "orders/bucket-0").rename(home)
    (sales / "orders/bucket-0").symlink_to(home)
    before = contents(home)

    with pytest.raises(lc.InvalidRequest, match=r"bucket-0'.* symbolic link"):
        table.expire_snapshots(retain_max=1, older_than=timedelta(0))
    assert contents(home) == before
