"""Copies of tables that Java wrote: each file of a copy is that of the table."""

from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.golden import sets
from tests.parts import of_part

pytestmark = pytest.mark.golden

# Files that only help readers, and that only this package reads.
OWN = {"LATEST", "EARLIEST", "boundary"}


@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param(name, share, marks=[pytest.mark.long] * (name != sets.RECORDED[0] or share > 1))
        for name in sets.RECORDED
        for share in range(1, 7)
    ],
)
def test_a_copy_has_the_files_of_the_table_byte_for_byte(
    unpacked: Callable[[str], Path], tmp_path: Path, name: str, share: int
) -> None:
    chosen = of_part(list(sets.docs(name)), (share, 6))
    warehouse, copies = unpacked(name), tmp_path / "copies"
    source, target = lc.connect(str(warehouse)), lc.connect(str(copies))
    target.create_database("db")
    for table in chosen:
        report = target.copy_table(source.table(f"db.{table}"))

        files = {path.relative_to(copies): path for path in (copies / "db.db" / table).rglob("*") if path.is_file()}
        assert len(files) > report.files == report.files_added
        for path, file in files.items():
            assert path.name in OWN or file.read_bytes() == (warehouse / path).read_bytes()
        assert report.findings == source.table(f"db.{table}").verify().findings
    assert target.tables("db") == sorted(chosen)
